r"""The best multipliers of the diagonal when all others are given: the dual of a maximum cut relaxation.

    minimise over y   1'y   subject to   Diag(y) - A positive semidefinite.

A is the costs minus the other multipliers of a witness (M~ or N~ of `..rounding`). The lower bound there shifts every
entry of y by the largest violation, n times in all. So a y that is only nearly feasible, as an augmented Lagrangian
method or ADMM returns it, may cause most of the gap between the bounds; the minimiser y needs no shift, and with it the
bound is the Lagrange dual function of the other multipliers.

**Barrier method** (Nesterov and Nemirovski; for this problem: Helmberg, Rendl, Vanderbei, Wolkowicz 1996): Newton's
steps on 1'y - t log det(Diag(y) - A), whose gradient is 1 - t diag(Z^-1) and whose Hessian is t Z^-1 o Z^-1 with
Z = Diag(y) - A, for decreasing t. A step whose decrement is below 1 stays inside (the barrier is self-concordant) and
is taken whole, and t falls after it; a longer one is damped. At the minimiser for t, 1'y exceeds its least value by at
most n t.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector

#: t is multiplied by ``BARRIER_FALL`` until it is at most ``LAST_BARRIER`` times the mean |y| of the lifted start; the
#: error that is left is far below the gaps wanted.
BARRIER_FALL, LAST_BARRIER = 0.05, 1e-8
#: Least eigenvalue of Z at the lifted start, at least, relative to the largest |entry| of A: Newton starts well inside.
LEAST_EIGENVALUE = 1e-2
#: Newton steps, at most; a start as far off as its costs are large needs nearly as many.
NEWTON_STEPS = 80


def best_diagonal(costs: Matrix, y: Vector) -> Vector:
    """The y (n,) of nearly least 1'y for symmetric A = ``costs`` (n, n), from any start y; the start itself where the
    costs are 0 or not finite, or a factorisation fails."""
    size = float(np.abs(costs).max(initial=0.0))
    if not 0.0 < size < np.inf:
        return y
    lift = max(0.0, -float(np.linalg.eigvalsh(np.diag(y) - costs)[0])) + LEAST_EIGENVALUE * size
    start, y, t = y, y + lift, lift
    last = LAST_BARRIER * float(np.abs(y).mean())
    for _ in range(NEWTON_STEPS):
        deadline.check()
        factor, failed = lapack.dpotrf(np.diag(y) - costs, lower=1, overwrite_a=1)
        if failed:
            return start
        inverse = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]  # its lower triangle
        gradient = 1.0 - t * np.diagonal(inverse)
        factor, failed = lapack.dpotrf(inverse * inverse, lower=1, overwrite_a=1)
        if failed:
            return start
        step = lapack.dpotrs(factor, gradient, lower=1)[0] / t
        decrement = float(np.sqrt(max(0.0, float(gradient @ step)) / t))
        y = y - (step if decrement < 1.0 else step / (1.0 + decrement))
        if decrement < 1.0:
            if t <= last:
                break
            t *= BARRIER_FALL
    return y
