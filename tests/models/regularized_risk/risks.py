"""Small regularised risks of every loss, and some whose optimum is known: built backwards, or by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.hadamard import hadamard
from convexstruct.families.regularized_risk.problem import RegularizedRisk

SIGNS = np.array([1, -1, 1, 1, -1, -1])
COST = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 0.5, 0.0]])


class Known(NamedTuple):
    problem: RegularizedRisk
    optimum: float


def features(n: int = 6, d: int = 3, seed: int = 0) -> Vector:
    return np.asarray(np.random.default_rng(seed).normal(size=(n, d)))


def omega(n: int = 6) -> Vector:
    return np.asarray(np.random.default_rng(9).uniform(0.5, 2.0, size=n))


def binary(bias: bool = False, weighted: bool = False, lam: float = 0.1) -> RegularizedRisk:
    return RegularizedRisk.binary(features(), SIGNS, lam, bias=bias, weights=omega() if weighted else None)


def hinge_of_one() -> Known:
    """lam/2 w^2 + max(0, 1 - 2 w): the optimum is the kink w = 1/2 for lam <= 4."""
    return Known(RegularizedRisk.binary([[2.0]], [1], 1.0), 0.125)


def hinge_of_one_strongly_regularised() -> Known:
    """The same with lam = 8: w = 2/8, value 1 - 4/16."""
    return Known(RegularizedRisk.binary([[2.0]], [1], 8.0), 0.75)


def orthogonal_examples() -> Known:
    """x_i = e_i: n problems lam/2 w^2 + max(0, 1 - w)/n each: w = 1/(lam n) below the kink, or 1."""
    n, lam = 4, 0.5
    return Known(RegularizedRisk.binary(np.eye(n), np.array([1, -1, 1, -1]), lam), n * (1 / n - 1 / (2 * lam * n**2)))


def separable_classes() -> Known:
    """x_i = e_i, K classes: by symmetry the wrong classes share alpha, |A'alpha|^2 = alpha^2 K/(K-1)."""
    n, k, lam = 3, 4, 2.0
    share = 1 / n
    alpha = min(share, lam * (k - 1) / k)
    value = n * (alpha - alpha**2 * k / (k - 1) / (2 * lam))
    return Known(RegularizedRisk.multiclass(np.eye(n), [0, 2, 3], lam, n_classes=k), value)


def separable_labels() -> Known:
    """x_i = e_i, r labels of K: the pairs share alpha, |A'alpha|^2 = alpha^2 (1/r + 1/(K - r))."""
    lam, k = 0.3, 5
    has = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 1, 0]])
    value = 0.0
    for r in has.sum(axis=1):
        spread = 1 / r + 1 / (k - r)
        alpha = min(1 / 3, lam / spread)
        value += alpha - alpha**2 * spread / (2 * lam)
    return Known(RegularizedRisk.multilabel(np.eye(3), has, lam), value)


def two_levels_and_two_free_thresholds() -> Known:
    """x = -t, 0, t with a level each: w = 2/t puts every margin at 1, thresholds at -1 and 1; slope 0 at lam below."""
    t, lam = 2.0, 0.01
    return Known(RegularizedRisk.ordinal([[-t], [0.0], [t]], [0, 1, 2], lam), lam / 2 * (2 / t) ** 2)


def hadamard_14(d: int = 8, lam: float = 0.25) -> Known:
    return Known(RegularizedRisk.pieces(hadamard(d), np.zeros(d), lam), -1 / (2 * lam * d))


#: Of every loss, some with weights, ties, one example, sparse features.
INSTANCES: dict[str, Callable[[], RegularizedRisk]] = {
    "binary": binary,
    "binary, bias, weighted": lambda: binary(bias=True, weighted=True),
    "binary, sparse": lambda: RegularizedRisk.binary(sp.csr_matrix(np.round(features())), SIGNS, 0.05),
    "binary, ties": lambda: RegularizedRisk.binary(np.ones((6, 2)), SIGNS, 0.2, bias=True),
    "one class": lambda: RegularizedRisk.binary(features(), np.ones(6), 0.1),
    "one example": lambda: RegularizedRisk.multiclass(features(1), [1], 0.3, n_classes=3),
    "two classes": lambda: RegularizedRisk.multiclass(features(), SIGNS, 0.1, weights=omega()),
    "multiclass, cost": lambda: RegularizedRisk.multiclass(features(), [0, 1, 2, 1, 0, 2], 0.1, COST, weights=omega()),
    "multilabel": lambda: RegularizedRisk.multilabel(
        features(), np.array([[1, 0, 0], [0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 0, 1]]), 0.1
    ),
    "ordinal": lambda: RegularizedRisk.ordinal(features(), [0, 1, 2, 1, 0, 2], 0.1, weights=omega()),
    "ordinal, fixed": lambda: RegularizedRisk.ordinal(features(), [0, 1, 2, 1, 0, 2], 0.1, thresholds=[-0.5, 1.0]),
    "pieces": lambda: RegularizedRisk.pieces(
        features(), omega() - 1, 0.2, example=[0, 0, 0, 1, 2, 2], weights=[1.0, 2.0, 0.5]
    ),
    "pieces, floor": lambda: RegularizedRisk.pieces(features(), omega() - 1, 0.2, [0, 0, 1, 1, 1, 1], floor=True),
    "zero features": lambda: RegularizedRisk.binary(np.zeros((6, 2)), SIGNS, 0.3, bias=True),
}

KNOWN: dict[str, Callable[[], Known]] = {
    "hinge of one": hinge_of_one,
    "hinge of one, lam large": hinge_of_one_strongly_regularised,
    "orthogonal examples": orthogonal_examples,
    "separable classes": separable_classes,
    "separable labels": separable_labels,
    "free thresholds": two_levels_and_two_free_thresholds,
    "Hadamard": hadamard_14,
}
