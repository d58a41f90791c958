"""The cases of unsupervised margins: built backwards from labels or from one number, and small ones for reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convexstruct.core.cases import Case, Instance, Make, seeded
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.planted import (
    by_kernel,
    plant_centred,
    plant_constant,
    plant_diagonal,
    plant_labels,
    plant_points,
    plant_transitions,
    plant_two_classes,
)
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin

NETWORK = "unsupervised max-margin Markov network"
POINTS = "unsupervised multiclass support vector machine"
LABELS = "labelling of least margin loss"
TWO = "unsupervised two-class support vector machine"


def labelled(rng: np.random.Generator, labels: Sequence[Sequence[int]], n_labels: int, **options: Any) -> Instance:
    """`plant_labels` for a permutation of the labels of each example."""
    return plant_labels(rng, [rng.permutation(each) for each in labels], n_labels, **options)


def planted_points(rng: np.random.Generator) -> Instance:
    """Rows without neighbours: sequences of length 1."""
    return plant_labels(rng, [np.array([label]) for label in rng.permutation([0, 1, 2] * 4)], 3)


def chains(rng: np.random.Generator, n: int, length: int) -> UnsupervisedMargin:
    """Chains that mostly change and mostly show their state, as in the synthetic sets of the paper."""
    flips = rng.random((n, length)) < 0.9
    state = (np.cumsum(flips, axis=1) + rng.integers(0, 2, size=(n, 1))) % 2
    seen = np.where(rng.random(state.shape) < 0.1, 1 - state, state)
    return UnsupervisedMargin.read(list(seen), 2, beta=0.01, label_balance=0.1, pair_balance=0.3, n_symbols=2)


def symbols(seed: int, scale: int = 1) -> Instance:
    return seeded(97, chains, 3 * scale, 5)(seed)


def features(
    rng: np.random.Generator, lengths: Sequence[int], d: int, n_labels: int, beta: float, balances: tuple[float, float],
) -> UnsupervisedMargin:  # fmt: skip
    """Normal features of three decimals, so that they are the same on every machine."""
    rows = [np.round(rng.normal(size=(n, d)), 3) for n in lengths]
    return UnsupervisedMargin.read(rows, n_labels, beta=beta, label_balance=balances[0], pair_balance=balances[1])


def clusters(rng: np.random.Generator, centres: Any, each: int, beta: float, balance: float) -> UnsupervisedMargin:
    """Points around the centres (kappa, 2), as many near each."""
    centres = np.repeat(centres, each, axis=0)
    return UnsupervisedMargin.multiclass(
        np.round(rng.normal(size=centres.shape) + centres, 3), len(centres) // each, beta, balance
    )


def inverse_distances(rng: np.random.Generator, n: int, beta: float, balance: float) -> PermutationInvariantMargin:
    """(3) of the kernel 1 / (1 + |x - x'|^2) of normal points in the plane: of full rank, and the same everywhere."""
    x = np.round(rng.normal(size=(n, 2)), 3)
    kernel = 1.0 / (1.0 + ((x[:, None] - x) ** 2).sum(axis=2))
    return PermutationInvariantMargin(by_kernel(kernel, [1] * n, 2, (balance, 1.0), beta))


def drawn(rng: np.random.Generator, most: int, over: int) -> float:
    """A number of few bits."""
    return float(rng.integers(1, most)) / over


planted_chains = seeded(90, labelled, [[0, 1, 0, 1, 1], [1, 0, 0, 1]], 2, beta=0.5)
planted_three = seeded(91, labelled, [[0, 1, 2, 0, 1, 2, 2], [0, 1, 2]], 3, beta=0.1)
orthogonal = seeded(94, lambda rng: plant_diagonal(rng.integers(1, 9, size=8).astype(np.float64), 2, 0.25))
repeated = seeded(95, lambda rng: plant_constant(drawn(rng, 1000, 8), 9, 3, 0.125, 2.0))
centred = seeded(105, lambda rng: plant_centred(drawn(rng, 1000, 16), 12, 3, 0.25, 4.0))
transitions = seeded(
    96, lambda rng: plant_transitions(rng.permutation([4, 5, 3]).tolist(), 2, (0.4, 0.125), drawn(rng, 1000, 64))
)
#: Sequences of unequal lengths, one of a single row.
unequal = seeded(98, features, (4, 1, 5), 2, 3, 1.0, (0.15, 0.2))
#: kappa^2 is above p2, and eps2 just above 1/p2 - 1/kappa^2 = 5/36.
tight = seeded(99, features, (3, 3), 2, 3, 0.3, (0.05, 0.15))
two_classes = seeded(102, clusters, [[2.0, 0.0], [-2.0, 0.0]], 7, 1.0, 0.1)
three_classes = seeded(103, clusters, 3.0 * np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]]), 4, 0.1, 0.05)
#: (3): orthogonal rows, one row many times, corners around 0; points in the plane; and points that are all alike, so
#: that the balance is active at many rows.
two_orthogonal = seeded(106, lambda rng: plant_two_classes(np.diag([0, *rng.integers(1, 9, size=7)]), 0.25, 8.0))
two_alike = seeded(107, lambda rng: plant_two_classes(np.full((9, 9), drawn(rng, 1000, 8)), 0.125, 64.0))
two_centred = seeded(108, lambda rng: plant_two_classes(drawn(rng, 1000, 8) * (10 * np.eye(10) - 1), 0.25, 512.0))
two_clusters = seeded(
    109, lambda rng: PermutationInvariantMargin(clusters(rng, [[1.0, 0.0], [-1.0, 0.0]], 7, 4.0, 0.1))
)
two_similar = seeded(110, inverse_distances, 16, 1.0, 0.05)
#: Half the size of the synthetic sets of the paper: 40 rows, 35 pairs.
longer = seeded(104, chains, 5, 8)

#: Labellings whose loss the bound meets: the slack of a row at its most, and below it.
groups = seeded(130, plant_points, 3, 4, 3, 0.05, 1.0, 1.0)
points_apart = seeded(131, plant_points, 6, 1, 3, 0.01, 0.5, 2.0)
two_groups = seeded(132, plant_points, 2, 3, 2, 1.0, 2.0, 0.5)


def labelling(name: str, purpose: str, make: Make) -> Case:
    return Case(f"labelling-{name}", LABELS, "(5)", purpose, make, "labelled", arguments=best_labels)


def best_labels(instance: Instance) -> dict[str, Any]:
    """The labels that `plant_points` has put in."""
    assert instance.point is not None
    return {"labels": instance.point["labels"]}


#: All cases of the family.
CASES = (
    Case("planted-chains", NETWORK, "(9)-(11)", "(11) in one direction", planted_chains, "full"),
    Case("planted-three-labels", NETWORK, "(9)-(11)", "a wrong share 1/kappa^2", planted_three, "reduced"),
    Case("planted-points", POINTS, "section 2.2", "rows without neighbours", seeded(93, planted_points), "reduced"),
    Case("orthogonal-points", POINTS, "section 2.2", "every M is optimal", orthogonal, "reduced"),
    Case("repeated-point", POINTS, "(9)", "the balance of labels left out", repeated, "reduced"),
    Case("centred-points", POINTS, "(10)", "row sums of C left out", centred, "reduced"),
    Case("transitions-alone", NETWORK, "(9)", "the balance of pairs left out", transitions, "reduced"),
    Case("unsupervised-symbols", NETWORK, "(9)-(11)", "observed symbols, a small beta", symbols, "reduced"),
    Case("unsupervised-features", NETWORK, "(9)-(11)", "a sequence of length 1, three labels", unequal, "reduced"),
    Case("balance-tight", NETWORK, "(9)", "balances close to the smallest feasible ones", tight, "delta_cuts"),
    Case("two-clusters", POINTS, "section 2.2", "two labels", two_classes, "multiclass"),
    Case("three-clusters", POINTS, "section 2.2", "entries of M below 0", three_classes, "multiclass"),
    labelling("groups", "labels that copies do not share", groups),
    labelling("orthogonal", "labels out of balance", points_apart),
    labelling("two-groups", "labels as they come", two_groups),
    Case("two-class-orthogonal", TWO, "(3)", "every M is optimal, a row of 0", two_orthogonal, "two_class"),
    Case("two-class-alike", TWO, "(3)", "the balance left out", two_alike, "two_class"),
    Case("two-class-centred", TWO, "(3)", "the sign of the kernel", two_centred, "keep_or_flip"),
    Case("two-class-clusters", TWO, "(3)", "beta or its half", two_clusters, "two_class", "SCS"),
    Case("two-class-similar", TWO, "(3)", "a kernel of full rank, an active balance", two_similar, "two_class_dual"),
    Case("longer-symbols", NETWORK, "(9)-(11)", "half the paper's size", longer, "reduced", quick=False, open=False),
)  # fmt: skip
