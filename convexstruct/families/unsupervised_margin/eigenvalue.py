"""A proved lower bound on the least eigenvalue of a symmetric matrix.

If the Cholesky factorisation of A - s I runs to its end in floating point, whatever the order of its sums, it is exact
for A - s I + D with |D_ij| <= g sqrt(b_ii b_jj), where b is the diagonal of A - s I, n its size and
g = gamma(n + 1) / (1 - gamma(n + 1)) (Higham, Accuracy and Stability of Numerical Algorithms, theorem 10.3; Rump,
Verification of positive definiteness, 2006). So the least eigenvalue of A is at least s - g (sum of b).
"""

from __future__ import annotations

import math

import numpy as np

from convexstruct.arrays import Matrix
from convexstruct.rounding import OUTWARD, TINY, UNIT, gamma

#: Factorisations tried, each with four times the step of the one before; then the bound of Gershgorin's circles is
#: used.
TRIALS = 12


def least_eigenvalue(matrix: Matrix, error: float = 0.0) -> float:
    """A lower bound on the least eigenvalue of every symmetric matrix that is within ``error`` of ``matrix`` in the
    spectral norm; -inf where the matrix is not finite.

    matrix : (n, n) symmetric; its lower triangle is read.
    """
    n = len(matrix)
    with np.errstate(all="ignore"):
        rows = np.abs(matrix).sum(axis=1)
        size = float(rows.max(initial=0.0))
        if not math.isfinite(size * n):
            return -math.inf
        if size == 0.0:
            return -error
        diagonal = np.diagonal(matrix)
        relative = gamma(n + 1) / (1.0 - gamma(n + 1))
        computed = float(np.linalg.eigvalsh(matrix)[0])
        step = 2.0 * relative * (float(np.abs(diagonal).sum()) + n * abs(computed)) + n * UNIT * size
        for _ in range(TRIALS):
            shift = computed - step
            moved = matrix.copy()
            lifted = diagonal - shift
            np.fill_diagonal(moved, lifted)
            if (lifted > 0).all():
                try:
                    np.linalg.cholesky(moved)
                except np.linalg.LinAlgError:
                    pass
                else:
                    trace = float(lifted.sum()) * OUTWARD
                    lost = (relative * trace + UNIT * float(np.abs(lifted).max()) + n * n * TINY + error) * OUTWARD
                    return math.nextafter(shift - lost, -math.inf)
            step *= 4.0
        circles = float((diagonal - (rows - np.abs(diagonal))).min())
        return math.nextafter(circles - gamma(n + 3) * size - error * OUTWARD, -math.inf)
