r"""Features from a Gram matrix: K = Phi Phi', so that every method that wants features serves a kernel too.

Phi is a Cholesky factor with pivots, of K scaled to a diagonal of about 1 (by powers of two, which is exact). So inputs
with a small norm are represented as accurately as those with a large one. The factorisation stops when the remainder of
K is no larger than the rounding of its own rows and columns,

    |K - Phi Phi'|_pq <= dropped sqrt(K_pp K_qq),     dropped about n times the unit of rounding.

(Features from those eigenvalues of K that exceed the rounding of the largest one would lose the inputs with a small
norm.) With w = sum_p a_p phi(x_p), new inputs enter through k(x, x_p) alone. The features of the pivots span the space,
so those of new inputs are the solution of k(x, pivots) = Phi_pivots phi(x), a triangular system.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.rounding import EPS, gamma
from convexstruct.tolerances import ROUNDING
from convexstruct.validation.arrays import real


@dataclass(frozen=True, eq=False)
class Factor:
    """L (n, r) with L L' = K up to rounding, r the rank.

    rows : L. pivots : (r,) rows of L that are a lower triangular matrix, with a positive diagonal.
    dropped : a bound on |K - L L'|_pq / sqrt(K_pp K_qq).
    """

    rows: Matrix
    pivots: Index
    dropped: float

    def solve(self, v: Matrix) -> Matrix:
        """A u (n, m) with L'u = v (r, m): 0 in all rows but the pivots."""
        u = np.zeros((len(self.rows), *v.shape[1:]))
        if len(self.pivots):
            u[self.pivots] = scipy.linalg.solve_triangular(self.rows[self.pivots], v, lower=True, trans="T")
        return u

    @property
    def inverse(self) -> Matrix:
        """J (n, r) with K J = L, which maps kernel values (m, n) to features (m, r)."""
        return self.solve(np.eye(len(self.pivots)))


def factor(matrix: Matrix) -> Factor:
    """The Cholesky factor, with pivots, of a symmetric positive semidefinite matrix."""
    n = len(matrix)
    diagonal = np.diagonal(matrix)
    half = np.zeros(n, dtype=np.int64)  # K_pp is about 4^half_p
    half[diagonal > 0] = np.round(0.5 * np.log2(diagonal[diagonal > 0])).astype(np.int64)
    scaled = np.ldexp(np.ldexp(matrix, -half), -half[:, None])
    # a pivot counts as 0 below 4 units of rounding times n, relative to its own entry of the diagonal
    low, order, rank, _ = scipy.linalg.lapack.dpstrf(scaled, tol=4.0 * n * EPS, lower=1)
    rows = np.empty((n, rank))
    rows[order - 1] = np.tril(low)[:, :rank]
    apart = np.abs(scaled - rows @ rows.T)
    size = np.sqrt(np.maximum(np.diagonal(scaled), np.finfo(float).tiny))
    dropped = float((apart / size / size[:, None]).max(initial=0.0)) + gamma(rank + 8)  # L L' was rounded itself
    dropped = math.ldexp(1.0, math.frexp(dropped)[1])  # up to a power of two: the same on machines that round otherwise
    return Factor(np.ascontiguousarray(np.ldexp(rows, half[:, None])), np.asarray(order[:rank] - 1, np.intp), dropped)


def symmetric(name: str, matrix: Matrix) -> Matrix:
    """The square ``matrix`` made exactly symmetric. ValueError if two entries that should be equal differ by more than
    rounding of the largest row sum; ``name`` says whose."""
    apart = float(np.abs(matrix - matrix.T).max())
    if apart > ROUNDING * _row_sum(matrix):
        raise ValueError(f"{name} is not symmetric, entries differ by {apart:.3g}, wanted a symmetric matrix")
    return np.asarray(0.5 * (matrix + matrix.T))


def check_semidefinite(name: str, matrix: Matrix) -> None:
    """ValueError, with the smallest eigenvalue, unless all eigenvalues of a symmetric matrix are above -1e-9
    (`ROUNDING`) of its largest row sum: by one Cholesky factorisation of the matrix moved up by as much."""
    scale = _row_sum(matrix)
    if scale == 0.0:
        return
    shifted = matrix.copy()
    shifted[np.diag_indices_from(shifted)] += ROUNDING * scale
    try:
        scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        smallest = float(scipy.linalg.eigvalsh(matrix, subset_by_index=[0, 0])[0])
        raise ValueError(
            f"{name} has the eigenvalue {smallest:.6g}, wanted a positive semidefinite matrix (up to rounding)"
        ) from None


def _row_sum(matrix: Matrix) -> float:
    """The largest sum of absolute values in a row: no eigenvalue is larger."""
    return float(np.abs(matrix).sum(axis=1).max())


@dataclass(frozen=True, eq=False)
class GramFeatures:
    """features (P, r) with features features' = K, and the matrix inverse (P, r) that maps new inputs to that space.

    sizes : (P,) sqrt(K_pp). dropped : a bound on |K - features features'|_pq / (sizes_p sizes_q): how far the problem
        in these features is from the problem of the kernel given.
    """

    features: Matrix
    inverse: Matrix
    sizes: Vector
    dropped: float

    def map(self, kernel: ArrayLike) -> Matrix:
        """Features (n, r) of new inputs from their kernel values (n, P) with the training inputs. ValueError if the
        shape is wrong."""
        values = real("kernel", kernel, ("n", len(self.features)), why="one column an input")
        return np.asarray(values @ self.inverse)


def gram_features(kernel: Any, n: int) -> GramFeatures:
    """Factor a Gram matrix. ValueError if it is not (n, n), finite, symmetric, or positive semidefinite (its smallest
    eigenvalue is named, or the pair of inputs whose products no features have)."""
    matrix = real("kernel", kernel, (n, n), why="one row and column a node")
    if not matrix.any():
        raise ValueError("kernel is zero, wanted at least one positive eigenvalue")
    matrix = symmetric("kernel", matrix)
    found = factor(matrix)
    if not found.dropped <= ROUNDING * n:
        check_semidefinite("kernel", matrix)
        rest = np.abs(matrix - found.rows @ found.rows.T)
        scale = np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(float).tiny))
        p, q = np.unravel_index(int(np.argmax(rest / scale / scale[:, None])), rest.shape)
        raise ValueError(
            f"kernel[{p}, {q}] is {matrix[p, q]:g}, which no features have beside the rest of its rows: wanted a "
            "positive semidefinite matrix"
        )
    return GramFeatures(found.rows, found.inverse, np.sqrt(np.diagonal(matrix)), found.dropped)
