"""Solving with a symmetric matrix that should be positive definite, but may not be because of rounding or estimation.

Where Cholesky's factorisation fails, a multiple of each entry of the diagonal is added to it, ten times as much at each
failure, until it succeeds. A Newton step computed so is shorter, but still a descent direction. So the result does not
depend on the units of the variables: with a ridge in proportion to the largest entry, a variable in units of 1e-9 would
fix all others. A far smaller multiple of the diagonal's mean is added too, for entries that are too small or 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector

#: Matrices of more rows than `LARGE` are factored in blocks of `BLOCK` rows, and the deadline is checked before each
#: block: a matrix of ten thousand rows takes half a minute, one of its blocks about a second.
LARGE, BLOCK = 2000, 256
#: The ridges that are tried, as powers of ten times the diagonal; of its mean times the square of the power.
RIDGES = range(-14, 3)


def solver(matrix: Matrix) -> Callable[[Vector], Vector]:
    """right (n,) -> matrix^-1 right, by the Cholesky factor of ``matrix`` (n, n) plus the smallest of the ridges tried
    with which it exists; NaN where it exists with none, as where the matrix is not finite.

    Only the lower triangle is read; the diagonal of ``matrix`` is changed in place where a ridge is needed.
    """
    diagonal = np.arange(len(matrix))
    sizes = np.abs(matrix[diagonal, diagonal])
    mean = float(sizes.sum()) / max(len(matrix), 1)
    for power in RIDGES:
        try:
            factor, lower = _factored(matrix)
        except scipy.linalg.LinAlgError:
            matrix[diagonal, diagonal] += 10.0**power * (sizes + 10.0**power * mean)
            continue
        return lambda right: np.asarray(lapack.dpotrs(factor, right, lower=lower)[0]).reshape(right.shape)
    return lambda right: np.full(right.shape, np.nan)


def _factored(matrix: Matrix) -> tuple[Matrix, bool]:
    """The Cholesky factor, in the column order that LAPACK solves with, and whether it is the lower triangular one;
    computed block by block where the matrix is large."""
    n = len(matrix)
    if n <= LARGE:
        lower = bool(matrix.flags.f_contiguous)
        factor, info = lapack.dpotrf(matrix if lower else matrix.T, lower=lower)
        if info:
            raise scipy.linalg.LinAlgError
        return np.asarray(factor), lower
    found = np.array(matrix, order="C")
    for low in range(0, n, BLOCK):
        deadline.check()
        high = low + BLOCK
        if low:
            found[low:, low:high] -= found[low:, :low] @ found[low:high, :low].T
        corner = scipy.linalg.cholesky(found[low:high, low:high], lower=True, check_finite=False)
        found[low:high, low:high] = corner
        below = found[high:, low:high]
        below[:] = scipy.linalg.solve_triangular(corner, below.T, lower=True, check_finite=False).T
    return found.T, False
