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

from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from convexstruct.core.cases import Case, Instance
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


def drawn(seed: int, number: int, lengths: Sequence[int], n_labels: int, **options: Any) -> Instance:
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


def windows_rbf(seed: int, scale: int = 1) -> Instance:
    return windows(seed, 8 * scale, 12, 4, kernel=("rbf", {"gamma": 0.3}))


def case(
    name: str, purpose: str, formulation: str, make: Callable[..., Instance], *, quick: bool = True, open: bool = True,
    **data: Any,
) -> Case:  # fmt: skip
    """``data`` : further arguments of ``make``."""
    made = partial(make, **data) if data else make
    return Case(f"gp-{name}", GPS, "(32)", purpose, made, formulation, quick=quick, open=open)


#: All cases of the family: number of the draw, lengths, labels; or sequences, their length, labels.
CASES: tuple[Case, ...] = (
    case("planted-two", "the optimum is known by construction; two labels", "primal", planted_two),
    case("planted-three", "the optimum is known by construction; three labels, lengths 1 to 4", "compact_dual",
         planted_three),
    case("flat", "every labelling occurs once: u = 0, N L ln S", "dual", flat),
    case("enumerated", "every labelling written out; lengths 1 to 4", "primal", drawn, number=23, lengths=(3, 1, 4, 2),
         n_labels=3, kernel=("rbf", {"gamma": 0.5})),
    case("polynomial", "the dual, every labelling written out", "dual", drawn, number=24, lengths=(4, 3, 4), n_labels=3,
         kernel=("polynomial", {"offset": 1.0}), eta=0.5, lam=2.0),
    case("length-one", "no transition is ever used; four labels", "primal", drawn, number=25, lengths=(1,) * 7,
         n_labels=4, kernel="rbf", lam=0.3),
    case("one-label", "nothing to learn: the optimum is 0", "compact_dual", drawn, number=26, lengths=(3, 2),
         n_labels=1, kernel="rbf"),
    case("singular", "the Gram matrix has rank 2 of 11, no inverse", "dual", singular),
    case("weak-prior", "large scores: the truth is nearly certain", "compact_primal", drawn, number=28,
         lengths=(4, 4, 3), n_labels=3, kernel=("rbf", {"gamma": 2.0}), lam=0.01),
    case("strong-prior", "scores near 0", "primal", drawn, number=29, lengths=(4, 4, 3), n_labels=3, kernel="rbf",
         lam=100.0),
    case("no-transitions", "eta = 0: positions fall apart", "compact_primal", drawn, number=30, lengths=(9, 12, 7),
         n_labels=3, kernel="linear", eta=0.0),
    case("strong-transitions", "eta outweighs the kernel", "compact_dual", drawn, number=31, lengths=(9, 12, 7),
         n_labels=3, kernel="linear", eta=50.0),
    case("windows-rbf", "windows of symbols that repeat, 8 x 12", "compact_dual", windows_rbf),
    case("planted-positions", "the optimum is known by construction; a kernel that depends on the position",
         "compact_primal", planted_positions),
    case("by-position", "each position has scores of its own; every labelling written out", "primal", drawn, number=32,
         lengths=(3, 1, 4, 4, 2), n_labels=3, kernel=("rbf", {"gamma": 0.5}), eta=0.7, lam=0.5, stationary=False),
    case("windows-positions", "windows of symbols, a kernel that depends on the position", "compact_dual", windows,
         n_sequences=8, length=6, n_states=3, kernel=("rbf", {"gamma": 0.3}), stationary=False),
    case("windows-linear", "the same with a linear kernel", "compact_primal", windows, n_sequences=8, length=12,
         n_states=4, kernel="linear", lam=0.5),
    case("windows-many", "windows of symbols, 12 sequences of 20 steps, 5 labels", "compact_dual", windows,
         n_sequences=12, length=20, n_states=5, kernel=("rbf", {"gamma": 0.3}), lam=0.2, quick=False, open=False),
)  # fmt: skip
