r"""A small regularised risk by a primal-dual interior point method, where features and rows differ much in size.

    minimise over x = (w, b, xi)   x'P x / 2 + q'x    s.t.  C x + s = h,  s >= 0,

        lam/2 |w|^2 + sum_g share_g xi_g,      xi_g >= (A w + s b + c)_p for p in g,   xi_g >= 0 with the zero piece

with multipliers z >= 0, of which the first m are alpha. Mehrotra's (1992) predictor and corrector solve, at D = s / z,

    [ P   C' ] [dx]
    [ C  - D ] [dz]  = right

as it stands, by LU. No product A'A is formed, whose entries would have the squares of the features' scales, and alpha
is a variable of the system, not a difference of scores over a small width: so the optimum is reached where proximal
point steps end in rounding. Products s z are the same whatever the units of an example are. The cost is that of dense
matrices with a row for each entry of w, each group and each piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.rounds import Clock, Patience
from convexstruct.families.regularized_risk.problem import RegularizedRisk

#: Problems up to so many rows of the matrix are solved: a step then takes about 0.06 s on one core.
LARGEST = 1000
#: `finished` ends after so many steps that improve neither bound; most problems take 10 to 50 in all. Newton's steps
#: are given up for these after as many. With 3, some problems stay unsolved.
IDLE_STEPS = 10
#: Where the lengths of rows or columns of a small problem differ by more than this, Newton's steps may end in rounding,
#: and these follow. Newton's iterates then carry the bounds of certificates: a point may look best by its rounding
#: alone, and its certificate would fall short.
SPREAD = 1e3
#: A step goes this share of the way to the boundary.
STEP_SHARE = 0.99


def is_small(problem: RegularizedRisk) -> bool:
    """Whether the matrix has at most `LARGEST` rows."""
    groups = problem.loss.n_groups * (1 + problem.loss.floor)
    return problem.dimension + problem.n_biases + groups + problem.n_pieces <= LARGEST


def interior_points(problem: RegularizedRisk) -> Iterator[tuple[Vector, Vector, Vector]]:
    """(w, b, alpha) after each step, without end; alpha is above 0, but in Q only in the limit."""
    P, q, C, h = _program(problem)
    m, n = C.shape
    x, z = np.split(_solver(P, C, np.ones(m))(np.concatenate((-q, h))), [n])
    s, z = _inside(-z), _inside(z)
    while True:
        deadline.check()
        slope, off, mean = P * x + q + C.T @ z, C @ x + s - h, float(s @ z) / m
        solve = partial(_direction, _solver(P, C, s / z), slope, off, s, z)
        _, ds, dz = solve(s * z)
        centre = (1.0 - _reach(s, ds, z, dz)) ** 3
        dx, ds, dz = solve(s * z + ds * dz - centre * mean)
        length = STEP_SHARE * _reach(s, ds, z, dz)
        x, s, z = x + length * dx, s + length * ds, z + length * dz
        if not (np.isfinite(x).all() and np.isfinite(z).all()):
            return
        w, b, _ = np.split(x, [problem.dimension, problem.dimension + problem.n_biases])
        yield w, b, z[: problem.n_pieces]


def finished(
    given: RegularizedRisk, problem: RegularizedRisk, unit: float, calls: int, clock: Clock
) -> Iterator[Iterate]:
    """Iterates of `interior_points`, until the bounds that certificates compute end in rounding.

    given : the problem whose points and bounds they are. problem : the same with X / unit in place of X, w unit for w.
    calls, clock : the products with X and the seconds of the whole run so far.
    """
    best, lower, patience = np.inf, -np.inf, Patience(IDLE_STEPS, least_unit(given))
    points = interior_points(problem)
    while not patience.ended(best, lower):
        with clock("interior point"):
            step = next(points, None)
            if step is None:
                return
            w, b, alpha = step
            point = {"w": (w / unit).reshape(given.shape)} | ({"b": b} if given.n_biases else {})
            found = certified(given, Iterate(point, partial(dict, alpha=alpha), np.inf, -np.inf, calls, clock.parts))
        best, lower = min(best, found.primal), max(lower, found.lower_bound)
        yield replace(found, message="Newton's steps gained too little, and a dense interior point method went on")


def certified(problem: RegularizedRisk, found: Iterate) -> Iterate:
    """``found`` with the bounds that a certificate computes, which allow for their rounding."""
    dual_point = found.dual_point() if callable(found.dual_point) else found.dual_point
    assert dual_point is not None
    primal, lower = problem.primal(found.point).upper, problem.dual(dual_point).lower
    return replace(found, primal=primal, lower_bound=lower)


def sizes_differ(problem: RegularizedRisk) -> bool:
    """Whether the lengths of the rows of X that are not 0, or those of its columns, differ by more than `SPREAD`."""
    X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
    for squares in ((X * X).sum(axis=1), (X * X).sum(axis=0)):
        filled = squares[squares > 0]
        if len(filled) and filled.max() > SPREAD**2 * filled.min():
            return True
    return False


def _direction(
    solve: Callable[[Vector], Vector], slope: Vector, off: Vector, s: Vector, z: Vector, product: Vector
) -> tuple[Vector, Vector, Vector]:
    """(dx, ds, dz) that take s z to s z - ``product``, to first order, and ``slope`` and ``off`` to 0."""
    dx, dz = np.split(solve(np.concatenate((-slope, product / z - off))), [len(slope)])
    return dx, -(product + s * dz) / z, dz


def _program(problem: RegularizedRisk) -> tuple[Vector, Vector, Matrix, Vector]:
    """(the diagonal of P, q, C, h)."""
    loss, A = problem.loss, problem.matrix()
    offsets = np.zeros((problem.n_pieces, problem.n_biases))
    if problem.n_biases:
        offsets[np.arange(problem.n_pieces), loss.bias_of] = loss.bias_sign
    groups = np.eye(loss.n_groups)
    C = np.hstack((A.toarray() if sp.issparse(A) else A, offsets, -groups[problem.group]))
    h = -loss.offset
    if loss.floor:
        C = np.vstack((C, np.hstack((np.zeros((len(groups), C.shape[1] - len(groups))), -groups))))
        h = np.concatenate((h, np.zeros(len(groups))))
    free = np.zeros(problem.n_biases)
    P = np.concatenate((np.full(problem.dimension, problem.lam), free, np.zeros(len(groups))))
    return P, np.concatenate((np.zeros(problem.dimension), free, problem.shares)), C, h


def _solver(P: Vector, C: Matrix, D: Vector) -> Callable[[Vector], Vector]:
    """right -> the solution of the system of the module's head."""
    factor, pivots, _ = lapack.dgetrf(np.block([[np.diag(P), C.T], [C, -np.diag(D)]]))
    return lambda right: np.asarray(lapack.dgetrs(factor, pivots, right)[0])


def _inside(values: Vector) -> Vector:
    """``values``, raised by one number so that the least is 1 where it is below that."""
    return values + max(1.0 - float(values.min()), 0.0)


def _reach(s: Vector, ds: Vector, z: Vector, dz: Vector) -> float:
    """The largest step in (0, 1] that keeps s and z from falling below 0."""
    return min(float(np.min(x[dx < 0] / -dx[dx < 0], initial=1.0)) for x, dx in ((s, ds), (z, dz)))
