r"""The cases of (32) of paper 2, the kernel CRF: built backwards from their optimum, enumerable, and of middle size.

**Built backwards.** u is optimal where K (lam u - (z - m(K u))) = 0, with z the indicators of the true labels and m
their expectations. Take sequences in S! copies, one for each permutation of the labels, and scores t that are permuted
with them; the scores of transitions are tau (I - 11'/S). Then the residual r = z - m(t) is permuted too: with T, R
(P, S) the label parts of t and r, whose rows sum to 0, T'R is a multiple of I - 11'/S, and the transition part of r is
a (I - 11'/S). So with

    G = lam T T' / c + V,   T'R = c (I - 11'/S),   V R = 0,   V psd,      eta = lam tau / a

K r = lam t holds, so that u = r / lam is optimal and P(u) is the optimum, exactly. c > 0 and a > 0 are needed; scores
that favour the truth give them. Where the kernel depends on the position, G is such a matrix for each position, with
a c of its own; a and tau are those of the one step of sequences of at most two positions. The other planted instance
has every labelling of the same inputs once: there u = 0 is optimal, and the optimum is N L ln S.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from convexstruct.core.cases import Case, Instance, Make
from convexstruct.datasets.generated.ring import EASY, ring
from convexstruct.families.gaussian_process.kernels import one_hot_windows
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.graphs import chains
from convexstruct.oracles.chain.chain import sum_product
from convexstruct.oracles.enumeration import labellings

GPS = "Gaussian process sequence labelling"


# -- built backwards ---------------------------------------------------------------------------------------------------


def planted(n_labels: int, lengths: Sequence[int], lam: float, seed: int, stationary: bool = True) -> Instance:
    """Sequences in every permutation of their labels, as in the text of this module."""
    rng = np.random.default_rng([21, n_labels, seed])
    centre = np.eye(n_labels) - 1.0 / n_labels
    while True:
        truth = [np.repeat(rng.integers(n_labels, size=length), 2)[:length] for length in lengths]
        flat = np.concatenate(truth)
        scores = (1.5 * np.eye(n_labels)[flat] + rng.normal(scale=0.4, size=(len(flat), n_labels))) @ centre
        orders = [np.array(order) for order in permutations(range(n_labels))]
        labels = [order[one] for order in orders for one in truth]
        label_scores = np.concatenate([scores[:, np.argsort(order)] for order in orders])
        tau = rng.uniform(0.2, 0.5)
        laid = chains([len(one) for one in labels])
        sums = sum_product(laid, label_scores[laid.packed], tau * centre)
        rest = np.eye(n_labels)[np.concatenate(labels)] - sums.node[laid.flat]
        pairs = -sums.edge
        for one in labels:
            np.add.at(pairs, (one[:-1], one[1:]), 1.0)
        step = laid.step[laid.flat] * (not stationary)
        c = np.bincount(step, weights=(label_scores * rest).sum(axis=1)) / (n_labels - 1)
        a = float(np.trace(pairs)) / (n_labels - 1)
        if c.min() > 0 and a > 0:
            break
    gram = np.zeros((len(rest), len(rest)))
    for t in range(len(c)):
        here = np.flatnonzero(step == t)
        draws = rng.normal(size=(len(here), 4))
        draws -= rest[here] @ np.linalg.lstsq(rest[here], draws)[0]
        gram[np.ix_(here, here)] = lam * label_scores[here] @ label_scores[here].T / c[t] + draws @ draws.T
    problem = GaussianProcessSequences.from_gram(
        gram, labels, n_labels, eta=lam * tau / a, lam=lam, stationary=stationary
    )
    u = np.concatenate((rest[np.argsort(step, kind="stable")].ravel(), pairs.ravel())) / lam
    return Instance(problem, problem.primal({"u": u}), {"u": u})


planted_two = partial(planted, 2, (5, 1, 7, 4), 0.5)
planted_three = partial(planted, 3, (4, 3, 1), 2.0)
planted_positions = partial(planted, 3, (2, 1, 2, 2), 1.0, stationary=False)


def flat(seed: int) -> Instance:
    """Every labelling of two positions once, by three labels: u = 0 is optimal by symmetry."""
    rng = np.random.default_rng([22, seed])
    every = labellings([3, 3])
    factor = rng.normal(size=(2, 2))
    places = [[0, 1]] * len(every)
    problem = GaussianProcessSequences.from_gram(factor @ factor.T, list(every), 3, places=places)
    return Instance(problem, 2 * len(every) * float(np.log(3.0)), {"u": np.zeros(problem.dimension)})


# -- small -------------------------------------------------------------------------------------------------------------


def drawn(number: int, lengths: Sequence[int], n_labels: int, seed: int, **options: Any) -> Instance:
    """Two features a position, and labels that follow the first of them more often than not."""
    rng = np.random.default_rng([number, seed])
    inputs = [rng.normal(size=(length, 2)) for length in lengths]
    labels = []
    for one in inputs:
        near = np.clip(np.floor((one[:, 0] + 1.5) / 3.0 * n_labels), 0, n_labels - 1).astype(np.int64)
        labels.append(np.where(rng.random(len(one)) < 0.7, near, rng.integers(n_labels, size=len(one))))
    return Instance(GaussianProcessSequences.read(inputs, labels, n_labels, **options))


def singular(seed: int) -> Instance:
    """Repeated inputs: the Gram matrix of the 11 positions has rank 2, so that K has no inverse."""
    rng = np.random.default_rng([27, seed])
    rows = rng.normal(size=(4, 2))[rng.integers(4, size=11)]
    labels = np.split(rng.integers(3, size=11), [4, 8])
    return Instance(GaussianProcessSequences.from_gram(rows @ rows.T, labels, 3, lam=0.2))


# -- windows of symbols ------------------------------------------------------------------------------------------------


def windows(seed: int, n_sequences: int, length: int, n_states: int, **options: Any) -> Instance:
    """Windows of three symbols on the ring, as indicators; many windows occur more than once."""
    data = ring(n_sequences, length=length, n_states=n_states, noise=EASY, seed=seed + 1)
    inputs = one_hot_windows(data.symbols, data.n_symbols, 1)
    return Instance(GaussianProcessSequences.read(inputs, data.states, n_states, **options))


def windows_positions(seed: int) -> Instance:
    return windows(seed, 8, 6, 3, kernel=("rbf", {"gamma": 0.3}), stationary=False)


def windows_rbf(seed: int, scale: int = 1) -> Instance:
    return windows(seed, 8 * scale, 12, 4, kernel=("rbf", {"gamma": 0.3}))


#: Small and middle-sized instances: number of the draw, lengths, labels; or sequences, their length, labels.
SMALL: dict[str, Make] = {
    "enumerated": partial(drawn, 23, (3, 1, 4, 2), 3, kernel=("rbf", {"gamma": 0.5})),
    "polynomial": partial(drawn, 24, (4, 3, 4), 3, kernel=("polynomial", {"offset": 1.0}), eta=0.5, lam=2.0),
    "length-one": partial(drawn, 25, (1,) * 7, 4, kernel="rbf", lam=0.3),
    "by-position": partial(
        drawn, 32, (3, 1, 4, 4, 2), 3, kernel=("rbf", {"gamma": 0.5}), eta=0.7, lam=0.5, stationary=False
    ),
    "one-label": partial(drawn, 26, (3, 2), 1, kernel="rbf"),
    "weak-prior": partial(drawn, 28, (4, 4, 3), 3, kernel=("rbf", {"gamma": 2.0}), lam=0.01),
    "strong-prior": partial(drawn, 29, (4, 4, 3), 3, kernel="rbf", lam=100.0),
    "no-transitions": partial(drawn, 30, (9, 12, 7), 3, kernel="linear", eta=0.0),
    "strong-transitions": partial(drawn, 31, (9, 12, 7), 3, kernel="linear", eta=50.0),
    "windows-linear": partial(windows, n_sequences=8, length=12, n_states=4, kernel="linear", lam=0.5),
    "windows-many": partial(windows, n_sequences=12, length=20, n_states=5, kernel=("rbf", {"gamma": 0.3}), lam=0.2),
}


def case(name: str, purpose: str, make: Make, formulation: str, **options: Any) -> Case:
    return Case(f"gp-{name}", GPS, "(32)", purpose, make, formulation, **options)


CASES: tuple[Case, ...] = (
    case("planted-two", "the optimum is known by construction; two labels", planted_two, "primal"),
    case("planted-three", "the optimum is known by construction; three labels, lengths 1 to 4", planted_three,
         "compact_dual"),
    case("flat", "every labelling occurs once: u = 0, N L ln S", flat, "dual"),
    case("enumerated", "every labelling written out; lengths 1 to 4", SMALL["enumerated"], "primal"),
    case("polynomial", "the dual, every labelling written out", SMALL["polynomial"], "dual"),
    case("length-one", "no transition is ever used; four labels", SMALL["length-one"], "primal"),
    case("one-label", "nothing to learn: the optimum is 0", SMALL["one-label"], "compact_dual"),
    case("singular", "the Gram matrix has rank 2 of 11, no inverse", singular, "dual"),
    case("weak-prior", "large scores: the truth is nearly certain", SMALL["weak-prior"], "compact_primal"),
    case("strong-prior", "scores near 0", SMALL["strong-prior"], "primal"),
    case("no-transitions", "eta = 0: positions fall apart", SMALL["no-transitions"], "compact_primal"),
    case("strong-transitions", "eta outweighs the kernel", SMALL["strong-transitions"], "compact_dual"),
    case("windows-rbf", "windows of symbols that repeat, 8 x 12", windows_rbf, "compact_dual"),
    case("planted-positions", "the optimum is known by construction; a kernel that depends on the position",
         planted_positions, "compact_primal"),
    case("by-position", "each position has scores of its own; every labelling written out", SMALL["by-position"],
         "primal"),
    case("windows-positions", "windows of symbols, a kernel that depends on the position", windows_positions,
         "compact_dual"),
    case("windows-linear", "the same with a linear kernel", SMALL["windows-linear"], "compact_primal"),
    case("windows-many", "windows of symbols, 12 sequences of 20 steps, 5 labels", SMALL["windows-many"],
         "compact_dual", quick=False, open=False),
)  # fmt: skip
