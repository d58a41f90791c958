r"""The central path of a semidefinite program, by a primal-dual method with predictor and corrector (Mehrotra).

    maximise c'x    s.t.   s = h - G x >= 0,    S(x) = S_0 + A(x) semidefinite, for one or more S.

With slacks s > 0, S definite and multipliers z > 0, Z definite, the iterates follow, as mu falls, the solutions of

    c + A'Z - G'z = 0,      s_i z_i = mu,      S Z = mu I,

where A'Z collects 2 Z_ij at the place in x of the entry (i, j). The last is linearised so that dS = A(dx) keeps S
symmetric (Helmberg, Rendl, Vanderbei and Wolkowicz 1996, Kojima, Shindoh and Hara 1997, Monteiro 1997), which leaves

    (A'[S^-1 A(.) Z] + G' diag(z/s) G) dx = c + A'(mu S^-1) - G'(mu / s),      dZ = mu S^-1 - Z - sym(S^-1 dS Z).

**Start**: x is strictly feasible, so every iterate is. The multipliers mu/s and mu S^-1 are not stationary; mu stays as
it is until a full dual step has made them so. 10 to 20 steps suffice for most data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from convexstruct import deadline
from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.core.cholesky import solver

#: Share of the step to the border of the cones that is taken at most; 0.9 to 0.995 are customary.
SHORT_OF_BORDER = 0.95
#: Rows of the Newton matrix that are computed at once, so that what they are computed from stays in the cache.
BLOCK = 64


def follow(c: Vector, x: Vector, cones: Sequence[Cone], mu: float, steps: int) -> Iterator[tuple[Vector, float]]:
    """x and the mu aimed at after each step, from a strictly feasible x and the first ``mu``; the ``cones``, made at x,
    move along. Ends after ``steps`` of them, or where the border is nearer than rounding can tell."""
    stationary = False
    try:
        for cone in cones:
            cone.start(mu)
        for _ in range(steps):
            deadline.check()
            dx, mu, primal, dual = _advance(c, cones, stationary)
            x, stationary = x + primal * dx, stationary or dual == 1.0
            yield x, mu
    except np.linalg.LinAlgError:
        return


def _advance(c: Vector, cones: Sequence[Cone], predicted: bool) -> tuple[Vector, float, float, float]:
    """Move the cones by one step; the step of x, the mu aimed at, and the shares of the primal and the dual step that
    were taken. predicted : whether mu falls, by a prediction. LinAlgError where a cone would be left."""
    newton = np.zeros((len(c), len(c)))
    for cone in cones:
        deadline.check()
        cone.add_curvature(newton)
    solve, degree = solver(newton), sum(len(cone.s) for cone in cones)
    mu = sum(cone.gap(0.0, 0.0) for cone in cones) / degree
    if predicted:
        _aim(c, cones, solve, 0.0)
        after = sum(cone.gap(*_steps(cones, 1.0)) for cone in cones) / degree
        mu *= min(1.0, max(0.0, after / mu)) ** 3
        for cone in cones:
            cone.correct()
    dx = _aim(c, cones, solve, mu)
    steps = _steps(cones, SHORT_OF_BORDER)
    for cone in cones:
        cone.move(*steps)
    return dx, mu, *steps


def _aim(c: Vector, cones: Sequence[Cone], solve: Callable[[Vector], Vector], mu: float) -> Vector:
    """The step of x; those of the cones are set."""
    right = c.copy()
    for cone in cones:
        cone.add_pull(right, mu)
    dx = solve(right)
    for cone in cones:
        cone.aim(dx, mu)
    return dx


def _steps(cones: Sequence[Cone], share: float) -> tuple[float, float]:
    """The primal and the dual step: at most 1, and at most ``share`` of the way to the border."""
    primal, dual = (max(share, *falls) for falls in zip(*(cone.falls() for cone in cones)))
    return share / primal, share / dual


class Orthant:
    """s = h - G x > 0 with its multipliers z, and their steps; ``second`` is ds dz of the predictor.

    g (m, d). s (m,) : at the start.
    """

    def __init__(self, g: sp.csr_array, s: Vector) -> None:
        self.g, self.transposed, self.s = g, g.T.tocsr(), s
        self.z = self.ds = self.dz = self.second = np.zeros_like(s)

    def start(self, mu: float) -> None:
        self.z = mu / self.s

    def add_curvature(self, newton: Matrix) -> None:
        newton += ((self.transposed * (self.z / self.s)) @ self.g).toarray()

    def add_pull(self, right: Vector, mu: float) -> None:
        right -= self.transposed @ ((mu - self.second) / self.s)

    def aim(self, dx: Vector, mu: float) -> None:
        self.ds = -(self.g @ dx)
        self.dz = (mu - self.second - self.z * self.ds) / self.s - self.z

    def correct(self) -> None:
        self.second = self.ds * self.dz

    def gap(self, primal: float, dual: float) -> float:
        """<s, z> after these steps."""
        return float((self.s + primal * self.ds) @ (self.z + dual * self.dz))

    def falls(self) -> tuple[float, float]:
        """The least t >= 0 with t s + ds >= 0, and the least with t z + dz >= 0."""
        return float((-self.ds / self.s).max(initial=0.0)), float((-self.dz / self.z).max(initial=0.0))

    def move(self, primal: float, dual: float) -> None:
        self.s, self.z = self.s + primal * self.ds, self.z + dual * self.dz
        self.second = np.zeros_like(self.s)


class Semidefinite:
    """S > 0 (n, n) with its multipliers Z, and their steps; ``second`` is sym(S^-1 dS dZ) of the predictor.

    s : S at the start. rows, columns, places : the entries above its diagonal, and the place of each in x.
    """

    def __init__(self, s: Matrix, rows: Index, columns: Index, places: Index) -> None:
        order = np.argsort(places)  # a triangle of the curvature is then one of Newton's matrix
        self.rows, self.columns, self.places = rows[order], columns[order], places[order]
        self.s, self.z, self.ds, self.dz = s, *np.zeros((3, *s.shape))

    def start(self, mu: float) -> None:
        half = _inverse_factor(self.s)
        self.z = mu * (half.T @ half)
        self.move(0.0, 0.0)

    def add_curvature(self, newton: Matrix) -> None:
        """tr(A_v S^-1 A_w Z) for v >= w, where A_v = e_i e_j' + e_j e_i' for the entry (i, j) at place v."""
        i, j, at = self.rows, self.columns, self.places
        for low in range(0, len(at), BLOCK):
            deadline.check()
            here, before = slice(low, low + BLOCK), slice(0, low + BLOCK)
            for a, b in ((i, j), (j, i)):
                p, q = self.inverse[a[here]], self.z[b[here]]
                found = p[:, i[before]] * q[:, j[before]] + p[:, j[before]] * q[:, i[before]]
                newton[at[here, None], at[before]] += found

    def add_pull(self, right: Vector, mu: float) -> None:
        right[self.places] += 2.0 * (mu * self.inverse - self.second)[self.rows, self.columns]

    def aim(self, dx: Vector, mu: float) -> None:
        self.ds = np.zeros_like(self.s)
        self.ds[self.rows, self.columns] = self.ds[self.columns, self.rows] = dx[self.places]
        self.dz = mu * self.inverse - self.z - _even(self.inverse @ self.ds @ self.z) - self.second

    def correct(self) -> None:
        self.second = _even(self.inverse @ self.ds @ self.dz)

    def gap(self, primal: float, dual: float) -> float:
        """<S, Z> after these steps."""
        return float(np.vdot(self.s + primal * self.ds, self.z + dual * self.dz))

    def falls(self) -> tuple[float, float]:
        """The least t for which t S + dS is semidefinite, and the least for which t Z + dZ is."""
        return _fall(self.half, self.ds), _fall(self.dual_half, self.dz)

    def move(self, primal: float, dual: float) -> None:
        self.s, self.z = self.s + primal * self.ds, self.z + dual * self.dz
        self.half, self.dual_half = _inverse_factor(self.s), _inverse_factor(self.z)
        self.inverse, self.second = self.half.T @ self.half, np.zeros_like(self.s)


Cone = Orthant | Semidefinite


def _inverse_factor(matrix: Matrix) -> Matrix:
    """H lower triangular with H ``matrix`` H' = I; LinAlgError where the matrix is not definite."""
    low, failed = lapack.dpotrf(matrix, lower=True, clean=True)
    half, singular = lapack.dtrtri(low, lower=True)
    if failed or singular:
        raise np.linalg.LinAlgError
    return np.asarray(half)


def _fall(half: Matrix, change: Matrix) -> float:
    """The least t for which t X + ``change`` is semidefinite; ``half`` is X's `_inverse_factor`."""
    return -float(np.linalg.eigvalsh(_even(half @ change @ half.T))[0])


def _even(matrix: Matrix) -> Matrix:
    return 0.5 * (matrix + matrix.T)
