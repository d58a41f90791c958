r"""A primal-dual interior point method for the reduced SDP of few rows, with predictor and corrector (Mehrotra).

In the free entries x (`free_entries`), with slacks s = h - G x > 0 and S_M, S_N definite, and multipliers z > 0 and
Z_M, Z_N definite, the iterates follow, as mu falls, the solutions of

    c + A'Z - G'z = 0,      s_i z_i = mu,      S Z = mu I,

where A'Z collects 2 Z_ij at the places of x. The last is linearised so that dS = A(dx) keeps S symmetric (Helmberg,
Rendl, Vanderbei and Wolkowicz 1996, Kojima, Shindoh and Hara 1997, Monteiro 1997), which leaves

    (A'[S^-1 A(.) Z] + G' diag(z/s) G) dx = c + A'(mu S^-1) - G'(mu / s),      dZ = mu S^-1 - Z - sym(S^-1 dS Z).

**Start**: x is the point strictly inside (`interior`), so every iterate is strictly feasible, whatever the balances: a
band of (9) with hardly any room in it is no harder than a wide one, and nothing has to be repaired. The multipliers
mu/s and mu S^-1 are not stationary; mu stays as it is until a full dual step has made them so.

A step costs d^3 / 3 for d free entries, about (p1^2 + p2^2) / 2, and 10 to 20 of them suffice for most data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from convexstruct import deadline
from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.core.cholesky import solver
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.free_entries import FreeEntries

#: Share of the step to the border of the cones that is taken at most; 0.9 to 0.995 are customary.
SHORT_OF_BORDER = 0.95
#: Rows of the Newton matrix that are computed at once, so that what they are computed from stays in the cache.
BLOCK = 64


@dataclass(frozen=True)
class InteriorPoint:
    """Predictor and corrector with the HKM direction on the reduced SDP.

    barrier : mu at first, in units of the largest cost. steps : at most; after so many, only rounding is left.
    """

    barrier: float = 0.1
    steps: int = 100

    def __post_init__(self) -> None:
        read_options(self, barrier=positive, steps=at_least(1))

    def iterate(self, problem: UnsupervisedMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """A start is yielded with its bounds, and not used: points near the border are no good first ones."""
        point, witness = problem.trivial()
        if start is not None and start.dual_point is not None:
            point, witness = dict(problem.repair(start.point)), start.dual_point
        yield Iterate(point, witness, problem.primal(point).upper, problem.dual(witness).lower, 0)
        of = FreeEntries(problem)
        x, stationary = of.x, False
        try:
            cones = self._cones(problem, of)
            for step in range(1, self.steps + 1):
                deadline.check()
                dx, mu, primal, dual = _advance(of.c, cones, stationary)
                x, stationary = x + primal * dx, stationary or dual == 1.0
                point, witness = of.point(x), of.witness(*(cone.z for cone in cones))
                bounds = problem.primal(point).upper, problem.dual(witness).lower
                yield Iterate(point, witness, *bounds, step, message=f"{step} steps, mu {mu:.1e}")
        except np.linalg.LinAlgError:  # the border is nearer than rounding can tell
            return

    def _cones(self, problem: UnsupervisedMargin, of: FreeEntries) -> list[_Cone]:
        """The constraints at the point inside; that of N only where N has free entries."""
        found: list[_Cone] = [_Orthant(of.G, of.h - of.G @ of.x, self.barrier)]
        for name, (share, _), entries in zip("MN", problem.feasible.shares, of.entries):
            if len(entries[0]):
                found.append(_Semidefinite(problem.feasible.safe[name] - share, *entries, self.barrier))
        return found


def _advance(c: Vector, cones: Sequence[_Cone], predicted: bool) -> tuple[Vector, float, float, float]:
    """Move the cones by one step; the step of x, the mu aimed at, and the shares of the primal and the dual step that
    were taken. predicted : whether mu falls, by a prediction. LinAlgError where a cone would be left."""
    newton = np.zeros((len(c), len(c)))
    for cone in cones:
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


def _aim(c: Vector, cones: Sequence[_Cone], solve: Callable[[Vector], Vector], mu: float) -> Vector:
    """The step of x; those of the cones are set."""
    right = c.copy()
    for cone in cones:
        cone.add_pull(right, mu)
    dx = solve(right)
    for cone in cones:
        cone.aim(dx, mu)
    return dx


def _steps(cones: Sequence[_Cone], share: float) -> tuple[float, float]:
    """The primal and the dual step: at most 1, and at most ``share`` of the way to the border."""
    primal, dual = (max(share, *falls) for falls in zip(*(cone.falls() for cone in cones)))
    return share / primal, share / dual


class _Orthant:
    """s = h - G x > 0 with its multipliers z, and their steps; ``second`` is ds dz of the predictor.

    g (m, d). s (m,) : at the start.
    """

    def __init__(self, g: sp.csr_array, s: Vector, mu: float) -> None:
        self.g, self.transposed, self.s, self.z = g, g.T.tocsr(), s, mu / s
        self.ds = self.dz = self.second = np.zeros_like(s)

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


class _Semidefinite:
    """S > 0 (n, n) with its multipliers Z, and their steps; ``second`` is sym(S^-1 dS dZ) of the predictor.

    s : S at the start. rows, columns, places : the entries above its diagonal, and the place of each in x.
    """

    def __init__(self, s: Matrix, rows: Index, columns: Index, places: Index, mu: float) -> None:
        order = np.argsort(places)  # a triangle of the curvature is then one of Newton's matrix
        self.rows, self.columns, self.places = rows[order], columns[order], places[order]
        self.s, self.ds, self.dz = s, np.zeros_like(s), np.zeros_like(s)
        half = _inverse_factor(s)
        self.z = mu * (half.T @ half)
        self.move(0.0, 0.0)

    def add_curvature(self, newton: Matrix) -> None:
        """tr(A_v S^-1 A_w Z) for v >= w, where A_v = e_i e_j' + e_j e_i' for the entry (i, j) at place v."""
        i, j, at = self.rows, self.columns, self.places
        for low in range(0, len(at), BLOCK):
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


_Cone = _Orthant | _Semidefinite


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
