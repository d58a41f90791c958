r"""The inner problem of BMRM, (10) of paper 2 for the planes found so far, by an active set.

    maximise  <b, beta> - beta' G beta / (2 lam)      s.t.  beta >= 0,  sum of beta = 1,      G = A A', planes as rows

On a support S the maximiser subject to the equality alone solves K x = b, K y = 1, K = G_SS / lam, and is
beta = x + y (1 - 1'x) / (1'y). Where it lies outside the simplex, beta moves towards it until the first entry is 0,
which leaves S. Where it lies inside, the plane with the largest g_j joins S, g = b - G beta / lam the gradient. The
maximum is above the present value by at most max_j g_j - <beta, g>; at 0, up to rounding, beta is returned.
Each solve starts from the support at which the last one ended.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector
from convexstruct.rounding import EPS

#: Ridge, relative to the mean diagonal of G / lam, where planes repeat and rounding has made G indefinite.
RIDGE = 1e-13
#: Most changes of the support in one solve, for each plane.
EXCHANGES = 10


def maximise(gram: Matrix, b: Vector, lam: float, beta: Vector) -> Vector:
    """beta (t,), as near to the maximum as rounding allows.

    gram (t, t), b (t,) : of the planes. beta (t,) : a member of the simplex to start from.
    """
    beta = np.array(beta)
    support = np.flatnonzero(beta > 0.0)
    scale = EPS * (1.0 + len(b) ** 0.5)
    best, kept = -np.inf, beta
    for _ in range(EXCHANGES * len(b) + EXCHANGES):
        deadline.check()
        target = _on_support(gram[np.ix_(support, support)] / lam, b[support])
        falling = target < 0.0
        if falling.any():
            here = beta[support]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(falling, here / (here - target), np.inf)
            first = int(ratio.argmin())
            here = np.maximum(here + min(max(float(ratio[first]), 0.0), 1.0) * (target - here), 0.0)
            here[first] = 0.0
            beta[:] = 0.0
            beta[support] = here / here.sum()
            support = np.flatnonzero(beta > 0.0)
            continue
        beta[:] = 0.0
        beta[support] = np.maximum(target, 0.0)
        beta /= beta.sum()
        pull = gram[:, support] @ beta[support] / lam
        slope = b - pull
        value = float(b @ beta) - 0.5 * float(pull @ beta)
        if value > best:
            best, kept = value, beta.copy()
        elif not np.isfinite(value) or value < best - scale * (abs(best) + float(np.abs(b).max())):
            break  # the value fell, by rounding: supports would repeat
        entering = int(slope.argmax())
        rounding = scale * (float(np.abs(b).max()) + float(np.abs(pull).max()))
        if slope[entering] - float(beta @ slope) <= rounding or entering in support:
            break
        support = np.append(support, entering)
    return kept


def _on_support(K: Matrix, b: Vector) -> Vector:
    """argmax of <b, beta> - beta' K beta / 2 over sum of beta = 1; K may be singular."""
    size = len(b)
    if size == 1:
        return np.ones(1)
    b = b - b.mean()  # changes the objective by a constant on the simplex
    scale = float(np.trace(K)) / size
    if scale == 0:
        return np.asarray(np.eye(size)[b.argmax()])
    lifted = K + scale  # changes the objective by a constant there too, and makes K regular along 1
    ridge = 0.0
    while True:
        deadline.check()
        lower, info = lapack.dpotrf(lifted + ridge * np.eye(size) if ridge else lifted, lower=1)
        if info == 0 and float(np.diagonal(lower).min()) ** 2 > RIDGE * scale:
            break
        ridge = max(100.0 * ridge, RIDGE * scale)
    both, _ = lapack.dpotrs(lower, np.column_stack((b, np.ones(size))), lower=1)
    return np.asarray(both[:, 0] + both[:, 1] * (1.0 - both[:, 0].sum()) / both[:, 1].sum())
