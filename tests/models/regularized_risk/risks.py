"""Small regularised risks of every loss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk

SIGNS = np.array([1, -1, 1, 1, -1, -1])
COST = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 0.5, 0.0]])


def features(n: int = 6, d: int = 3, seed: int = 0) -> Vector:
    return np.asarray(np.random.default_rng(seed).normal(size=(n, d)))


def omega(n: int = 6) -> Vector:
    return np.asarray(np.random.default_rng(9).uniform(0.5, 2.0, size=n))


def binary(bias: bool = False, weighted: bool = False, lam: float = 0.1) -> RegularizedRisk:
    return RegularizedRisk.binary(features(), SIGNS, lam, bias=bias, weights=omega() if weighted else None)


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
