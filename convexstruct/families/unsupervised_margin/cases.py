"""The cases of unsupervised margins: built backwards from labels or from one number, and small ones for reference."""

from __future__ import annotations

import numpy as np

from convexstruct.core.cases import Case, Instance
from convexstruct.families.unsupervised_margin.planted import (
    plant_centred,
    plant_constant,
    plant_diagonal,
    plant_labels,
    plant_transitions,
)
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin

NETWORK = "unsupervised max-margin Markov network"
POINTS = "unsupervised multiclass support vector machine"

#: A tree of seven rows with siblings, and another of four beside it.
TREE = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (7, 8), (8, 9), (8, 10)]


def planted_chains(seed: int) -> Instance:
    rng = np.random.default_rng([90, seed])
    return plant_labels(rng, [rng.permutation([0, 1, 0, 1, 1]), rng.permutation([1, 0, 0, 1])], 2, beta=0.5)


def planted_three(seed: int) -> Instance:
    rng = np.random.default_rng([91, seed])
    return plant_labels(rng, [rng.permutation([0, 1, 2, 0, 1, 2, 2]), rng.permutation([0, 1, 2])], 3, beta=0.1)


def planted_tree(seed: int) -> Instance:
    rng = np.random.default_rng([92, seed])
    labels = [rng.permutation([0, 1, 0, 1, 0, 1, 1]), rng.permutation([0, 1, 0, 1])]
    return plant_labels(rng, labels, 2, TREE, balances=(0.3, 0.7))


def planted_points(seed: int) -> Instance:
    """Rows without neighbours: sequences of length 1."""
    rng = np.random.default_rng([93, seed])
    return plant_labels(rng, [np.array([label]) for label in rng.permutation([0, 1, 2] * 4)], 3)


def orthogonal(seed: int) -> Instance:
    rng = np.random.default_rng([94, seed])
    return plant_diagonal(rng.integers(1, 9, size=8).astype(np.float64), 2, 0.25)


def repeated(seed: int) -> Instance:
    rng = np.random.default_rng([95, seed])
    return plant_constant(float(rng.integers(1, 1000)) / 8, 9, 3, 0.125, 2.0)


def centred(seed: int) -> Instance:
    rng = np.random.default_rng([105, seed])
    return plant_centred(float(rng.integers(1, 1000)) / 16, 12, 3, 0.25, 4.0)


def transitions(seed: int) -> Instance:
    rng = np.random.default_rng([96, seed])
    return plant_transitions(rng.permutation([4, 5, 3]).tolist(), 2, (0.4, 0.125), float(rng.integers(1, 1000)) / 64)


def symbols(seed: int, scale: int = 1) -> Instance:
    """Chains that mostly change and mostly show their state, as in the synthetic sets of the paper."""
    rng = np.random.default_rng([97, seed])
    flips = rng.random((3 * scale, 5)) < 0.9
    state = (np.cumsum(flips, axis=1) + rng.integers(0, 2, size=(3 * scale, 1))) % 2
    seen = np.where(rng.random(state.shape) < 0.1, 1 - state, state)
    problem = UnsupervisedMargin.read(list(seen), 2, beta=0.01, label_balance=0.1, pair_balance=0.3, n_symbols=2)
    return Instance(problem)


def features(seed: int) -> Instance:
    """Real features, sequences of unequal lengths (one of a single row), and three labels."""
    rng = np.random.default_rng([98, seed])
    rows = [np.round(rng.normal(size=(n, 2)), 3) for n in (4, 1, 5)]
    return Instance(UnsupervisedMargin.read(rows, 3, beta=1.0, label_balance=0.15, pair_balance=0.2))


def tight(seed: int) -> Instance:
    """Balances close to the smallest: kappa^2 is above p2, and eps2 just above 1/p2 - 1/kappa^2 = 5/36."""
    rng = np.random.default_rng([99, seed])
    rows = [np.round(rng.normal(size=(3, 2)), 3) for _ in range(2)]
    return Instance(UnsupervisedMargin.read(rows, 3, beta=0.3, label_balance=0.05, pair_balance=0.15))


def tree(seed: int) -> Instance:
    rng = np.random.default_rng([100, seed])
    rows = [np.round(rng.normal(size=(n, 3)), 3) for n in (7, 4)]
    return Instance(UnsupervisedMargin.read(rows, 2, beta=0.2, label_balance=0.2, pair_balance=0.45, pairs=TREE))


def star(seed: int) -> Instance:
    """One parent: every two pairs are siblings, and N is M of the children."""
    rng = np.random.default_rng([101, seed])
    rows = [np.round(rng.normal(size=(7, 2)), 3)]
    pairs = [(0, child) for child in range(1, 7)]
    return Instance(UnsupervisedMargin.read(rows, 2, beta=1.0, label_balance=0.2, pair_balance=0.5, pairs=pairs))


def two_classes(seed: int) -> Instance:
    rng = np.random.default_rng([102, seed])
    x = np.round(rng.normal(size=(14, 2)) + np.repeat([[2.0, 0.0], [-2.0, 0.0]], 7, axis=0), 3)
    return Instance(UnsupervisedMargin.multiclass(x, 2, 1.0, 0.1))


def three_classes(seed: int) -> Instance:
    rng = np.random.default_rng([103, seed])
    centres = 3.0 * np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])
    x = np.round(rng.normal(size=(12, 2)) + np.repeat(centres, 4, axis=0), 3)
    return Instance(UnsupervisedMargin.multiclass(x, 3, 0.1, 0.05))


def longer(seed: int) -> Instance:
    """Half the size of the synthetic sets of the paper: 40 rows, 35 pairs."""
    rng = np.random.default_rng([104, seed])
    state = (np.cumsum(rng.random((5, 8)) < 0.9, axis=1) + rng.integers(0, 2, size=(5, 1))) % 2
    seen = np.where(rng.random(state.shape) < 0.1, 1 - state, state)
    return Instance(UnsupervisedMargin.read(list(seen), 2, beta=0.01, label_balance=0.1, pair_balance=0.3, n_symbols=2))


CASES = (
    Case("planted-chains", NETWORK, "(9)-(11)", "(11) in one direction", planted_chains, "full"),
    Case("planted-three-labels", NETWORK, "(9)-(11)", "a wrong share 1/kappa^2", planted_three, "reduced"),
    Case("planted-tree", NETWORK, "(11), (12)", "pairs with the same parent", planted_tree, "delta_cuts"),
    Case("planted-points", POINTS, "section 2.2", "rows without neighbours", planted_points, "reduced"),
    Case("orthogonal-points", POINTS, "section 2.2", "every M is optimal", orthogonal, "reduced"),
    Case("repeated-point", POINTS, "(9)", "the balance of labels left out", repeated, "reduced"),
    Case("centred-points", POINTS, "(10)", "row sums of C left out", centred, "reduced"),
    Case("transitions-alone", NETWORK, "(9)", "the balance of pairs left out", transitions, "reduced"),
    Case("unsupervised-symbols", NETWORK, "(9)-(11)", "observed symbols, a small beta", symbols, "reduced"),
    Case("unsupervised-features", NETWORK, "(9)-(11)", "a sequence of length 1, three labels", features, "reduced"),
    Case("balance-tight", NETWORK, "(9)", "balances close to the smallest feasible ones", tight, "full"),
    Case("unsupervised-tree", NETWORK, "(9)-(11)", "trees", tree, "reduced"),
    Case("unsupervised-star", NETWORK, "(11)", "every two pairs are siblings", star, "reduced"),
    Case("two-clusters", POINTS, "section 2.2", "two labels", two_classes, "multiclass"),
    Case("three-clusters", POINTS, "section 2.2", "entries of M below 0", three_classes, "multiclass"),
    Case("longer-symbols", NETWORK, "(9)-(11)", "half the paper's size", longer, "reduced", quick=False, open=False),
)  # fmt: skip
