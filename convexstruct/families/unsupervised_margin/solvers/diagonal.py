r"""The multipliers of the diagonal that are best for given other ones: the dual of a maximum cut relaxation.

    minimise over y   1'y   subject to   Diag(y) - A positive semidefinite.

A is what the other multipliers of a witness leave of the costs (M~ or N~ of `..rounding`). There y is shifted by its
largest violation, times the number of rows; so a y that is nearly feasible, as an augmented Lagrangian or ADMM has it,
may cost most of the bracket, and the least one costs nothing. It is the value of the Lagrange function at the others.

**Barrier method** (Nesterov and Nemirovski; for this problem: Helmberg, Rendl, Vanderbei, Wolkowicz 1996): Newton's
steps on 1'y - t log det(Diag(y) - A), whose gradient is 1 - t diag(Z^-1) and whose Hessian is t Z^-1 o Z^-1 with
Z = Diag(y) - A, damped until they are short, for t that falls. At the minimum 1'y is too large by at most n t.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector

#: t falls by this factor, to this share of the mean |y| of the start: what is left is far below the gaps wanted.
FALL, LAST = 0.05, 1e-8
#: How far inside the start lies at least, in shares of the largest |entry| of A.
INSIDE = 1e-2
#: Newton's steps have been short where their decrement is below this; at most so many are taken.
SHORT, STEPS = 0.5, 80


def best_diagonal(costs: Matrix, y: Vector) -> Vector:
    """The least 1'y for symmetric ``costs`` (n, n), from any start y (n,), nearly; the start where rounding ends it."""
    size = float(np.abs(costs).max(initial=0.0))
    if not 0.0 < size < np.inf:
        return y
    lift = max(0.0, -float(np.linalg.eigvalsh(np.diag(y) - costs)[0])) + INSIDE * size
    start, y, t = y, y + lift, lift
    last = LAST * float(np.abs(y).mean())
    for _ in range(STEPS):
        deadline.check()
        try:
            factor = scipy.linalg.cho_factor(np.diag(y) - costs, lower=True, overwrite_a=True, check_finite=False)
            inverse = scipy.linalg.cho_solve(factor, np.eye(len(y)), overwrite_b=True, check_finite=False)
            gradient = 1.0 - t * np.diagonal(inverse)
            step = np.linalg.solve(inverse * inverse, gradient) / t
        except scipy.linalg.LinAlgError:
            return start
        decrement = float(np.sqrt(max(0.0, float(gradient @ step)) / t))
        y = y - (step if decrement < SHORT else step / (1.0 + decrement))
        if decrement < SHORT:
            if t <= last:
                break
            t *= FALL
    return y
