r"""A risk with far more features than examples, in as many coordinates as it has examples.

The minimiser w = - A' alpha / lam is a combination of the rows of X, and its scores and |w| depend on the rows' inner
products alone. So with X X' = L L', L square and triangular, the problem with L in place of X has the same optimum and
the same optimal alpha; its products cost n^2 multiplications, not n d. X X' is summed in single precision, in half the
time. What that rounds away is corrected by the steps on X that start from the point found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from convexstruct import deadline
from convexstruct.families.regularized_risk.problem import RegularizedRisk

#: X is replaced where it is dense and has at least WIDE features an example, and at most MOST_ROWS examples, for X X'
#: takes as long as n / 30 products with X.
WIDE, MOST_ROWS = 2, 3000
#: Columns of X whose copy in single precision is made at a time.
COLUMNS = 2048
#: Added to the diagonal of X X', rows scaled to length 1: the rounding of its sums; and where that is not enough.
RIDGES = (1e-6, 1e-4)


def in_row_space(problem: RegularizedRisk) -> RegularizedRisk | None:
    """The problem with L (n, n) in place of X, L L' = X X' up to single precision and a ridge; None where that is no
    gain, or rounding leaves no L."""
    X = problem.X
    n, d = X.shape
    if n > MOST_ROWS or d < WIDE * n or sp.issparse(X) or problem.workers:
        return None
    length = problem.row_norms[:, None]  # above 0, of rows of zeros too
    square = np.zeros((n, n), dtype=np.float32, order="F")
    for j in range(0, d, COLUMNS):
        deadline.check()
        part = (X[:, j : j + COLUMNS] / length).astype(np.float32)
        square = blas.ssyrk(1.0, part.T, trans=1, lower=1, beta=1.0, c=square, overwrite_c=1)
    for ridge in RIDGES:
        np.fill_diagonal(square, np.float32(1.0 + ridge))
        lower, info = lapack.spotrf(square, lower=1, clean=1)
        if info == 0:
            return replace(problem, X=length * lower)
    return None
