"""Random risks of every loss, and a point of each at which groups are free, at a vertex and at zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import SmoothedRisk

KINDS = ("sparse", "binary", "two classes", "multiclass", "multilabel", "ordinal", "pieces")


def random_problem(kind: str, n: int, d: int, lam: float, scale: float, seed: int) -> RegularizedRisk:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)), 1) * scale  # rounded, so that rows and ties repeat
    weights = rng.integers(1, 4, size=n) if seed % 2 else None
    codes = np.arange(n) % 3
    if kind == "sparse":
        return RegularizedRisk.binary(sp.csr_array(X), np.where(codes, 1, -1), lam, bias=True, weights=weights)
    if kind == "binary":
        return RegularizedRisk.binary(X, np.where(codes, 1, -1), lam, bias=seed % 3 == 0, weights=weights)
    if kind == "multiclass":
        return RegularizedRisk.multiclass(X, codes, lam, n_classes=4, weights=weights)
    if kind == "two classes":  # a box, though each piece takes two scores
        return RegularizedRisk.multiclass(X, codes > 0, lam, weights=weights)
    if kind == "multilabel":
        return RegularizedRisk.multilabel(sp.csr_array(X), np.eye(3)[codes] + np.eye(3)[(codes + seed) % 3] > 0, lam)
    if kind == "ordinal":
        return RegularizedRisk.ordinal(X, codes, lam, weights=weights)
    return RegularizedRisk.pieces(X, np.round(rng.normal(size=n), 1), lam, np.arange(n) // 2, floor=seed % 2 == 0)


def at_some_point(problem: RegularizedRisk, seed: int) -> tuple[SmoothedRisk, Vector, Vector, Vector, float]:
    """(whole, w, b, a, tau) with every kind of group: free, at a vertex, at zero."""
    rng = np.random.default_rng(seed)
    whole = SmoothedRisk.whole(problem)
    w, b = rng.normal(size=problem.dimension), rng.normal(size=problem.n_biases)
    return whole, w, b, problem.feasible(rng.random(problem.n_pieces)) / whole.share, 1.5


def outputs_problem(kind: str, X: Any, k: int = 6) -> RegularizedRisk:
    """Of k classes or labels, on given features."""
    y = np.arange(X.shape[0]) % k
    if kind == "multilabel":
        return RegularizedRisk.multilabel(X, np.eye(k)[y] + np.eye(k)[(y * y) % k] > 0, 0.1)
    return RegularizedRisk.multiclass(X, y, 0.1, weights=1.0 + y % 3)
