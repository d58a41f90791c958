r"""The central path of a semidefinite program, by a primal-dual method with predictor and corrector (Mehrotra).

    maximise c'x    s.t.   s = h - G x >= 0,    S(x) = S_0 + A(x) semidefinite, for one or more S.

With slacks s > 0, S definite and multipliers z > 0, Z definite, the iterates follow, as mu falls, the solutions of

    c + A'Z - G'z = 0,      s_i z_i = mu,      S Z = mu I,

where A' is the adjoint of the linear map A (`Linear`). The last is linearised where S and Z are the same diagonal
matrix, G'S G = G^-1 Z G^-T (Nesterov and Todd 1997; Todd, Toh and Tutuncu 1998), which leaves, with T = G G',

    (A'[T A(.) T] + G' diag(z/s) G) dx = c + A'(mu S^-1) - G'(mu / s),      dZ = mu S^-1 - Z - T dS T.

**Start**: x is strictly feasible, so every iterate is. Where no stationary multipliers are given, they are mu/s and
mu S^-1, and mu stays as it is until a full dual step has made them stationary. 10 to 20 steps suffice for most data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

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
#: Share of mu that the corrector aims at, at least: where it aims at less, steps leave the path, later ones are cut
#: short at the border, and optima below 1e-3 of the number of rows are not reached.
LEAST_FALL = 0.2


def follow(c: Vector, x: Vector, cones: Sequence[Cone], mu: float, steps: int) -> Iterator[tuple[Vector, float]]:
    """x and the mu aimed at after each step, from a strictly feasible x and the first ``mu``, which is not used where
    all cones know stationary multipliers; the ``cones``, made at x, move along. Ends after ``steps`` of them, or where
    the border is nearer than rounding can tell."""
    stationary = all(cone.known is not None for cone in cones)
    try:
        for cone in cones:
            cone.start(mu)
        for _ in range(steps):
            deadline.check()
            dx, mu, primal, dual = _advance(c, cones, stationary)
            x, stationary = x + primal * dx, stationary or dual == 1.0
            for cone in cones:
                cone.move(x, primal, dual)
            yield x, mu
    except np.linalg.LinAlgError:
        return


def _advance(c: Vector, cones: Sequence[Cone], predicted: bool) -> tuple[Vector, float, float, float]:
    """The next step of x and the cones: that of x, the mu aimed at, and the shares of the primal and the dual step to
    be taken. predicted : whether mu falls, by a prediction. LinAlgError where a matrix is singular."""
    newton = np.zeros((len(c), len(c)))
    for cone in cones:
        deadline.check()
        cone.add_curvature(newton)
    solve, degree = solver(newton), sum(len(cone.s) for cone in cones)
    mu = sum(cone.gap(0.0, 0.0) for cone in cones) / degree
    if predicted:
        _aim(c, cones, solve, 0.0)
        after = sum(cone.gap(*_steps(cones, 1.0)) for cone in cones) / degree
        mu *= max(LEAST_FALL, min(1.0, max(0.0, after / mu)) ** 3)
        for cone in cones:
            cone.correct()
    return _aim(c, cones, solve, mu), mu, *_steps(cones, SHORT_OF_BORDER)


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

    g (m, d). s (m,) : at the start. z (m,) : stationary multipliers at the start; by default mu/s.
    """

    def __init__(self, g: sp.csr_array, s: Vector, z: Vector | None = None) -> None:
        self.g, self.transposed, self.s, self.known = g, g.T.tocsr(), s, z
        self.z = self.ds = self.dz = self.second = np.zeros_like(s)

    def start(self, mu: float) -> None:
        self.z = mu / self.s if self.known is None else self.known

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

    def move(self, x: Vector, primal: float, dual: float) -> None:
        """By these steps, and not to h - G x, which near the border is nothing but rounding."""
        self.s, self.z = self.s + primal * self.ds, self.z + dual * self.dz
        self.second = np.zeros_like(self.s)


class Linear(Protocol):
    """The linear map A of a semidefinite constraint, by what the path needs of it; W and T are symmetric."""

    def image(self, dx: Vector) -> Matrix:
        """A(dx) (n, n)."""

    def add_adjoint(self, right: Vector, w: Matrix) -> None:
        """Add A'W to ``right`` (d,)."""

    def add_curvature(self, newton: Matrix, t: Matrix) -> None:
        """Add tr(A_v T A_w T) to the lower triangle of ``newton`` (d, d), where A_v is the image of a unit vector."""


class Entries:
    """S(x) whose entries above the diagonal are entries of x: rows, columns, places (m,), the last in x."""

    def __init__(self, n: int, rows: Index, columns: Index, places: Index) -> None:
        order = np.argsort(places)  # a triangle of the curvature is then one of Newton's matrix
        self.n, self.rows, self.columns, self.places = n, rows[order], columns[order], places[order]

    def image(self, dx: Vector) -> Matrix:
        found = np.zeros((self.n, self.n))
        found[self.rows, self.columns] = found[self.columns, self.rows] = dx[self.places]
        return found

    def add_adjoint(self, right: Vector, w: Matrix) -> None:
        right[self.places] += 2.0 * w[self.rows, self.columns]

    def add_curvature(self, newton: Matrix, t: Matrix) -> None:
        """A_v = e_i e_j' + e_j e_i' for the entry (i, j) at place v."""
        i, j, at = self.rows, self.columns, self.places
        for low in range(0, len(at), BLOCK):
            deadline.check()
            here, before = slice(low, low + BLOCK), slice(0, low + BLOCK)
            p, q = t[i[here]], t[j[here]]
            found = p[:, i[before]] * q[:, j[before]] + p[:, j[before]] * q[:, i[before]]
            newton[at[here, None], at[before]] += 2.0 * found


class Semidefinite:
    """S > 0 (n, n) with its multipliers Z and their steps. ``scaling`` is G with G'S G = G^-1 Z G^-T = Diag(root);
    ``near``, ``dual_near`` are the steps in that space, G'dS G and G^-1 dZ G^-T; ``second`` is the symmetric part of
    their product in the predictor.

    s : S at the start, ``x``. of : its map. z : stationary Z at the start; by default mu S^-1.
    """

    def __init__(self, s: Matrix, of: Linear, x: Vector, z: Matrix | None = None) -> None:
        self.s, self.of, self.known, self.origin = s, of, z, s - of.image(x)
        self.z, self.ds, self.dz = np.zeros((3, *s.shape))

    def start(self, mu: float) -> None:
        half = _inverse_factor(self.s)
        self.z = mu * (half.T @ half) if self.known is None else self.known
        self._scale()

    def add_curvature(self, newton: Matrix) -> None:
        self.of.add_curvature(newton, self.scaling @ self.scaling.T)

    def add_pull(self, right: Vector, mu: float) -> None:
        self.of.add_adjoint(right, self.z + self.scaling @ self._wanted(mu) @ self.scaling.T)

    def aim(self, dx: Vector, mu: float) -> None:
        self.ds = self.of.image(dx)
        self.near = _even(self.scaling.T @ self.ds @ self.scaling)
        self.dual_near = self._wanted(mu) - self.near
        self.dz = _even(self.scaling @ self.dual_near @ self.scaling.T)

    def _wanted(self, mu: float) -> Matrix:
        """The sum of the scaled steps that solves sym(root (dS + dZ)) = mu I - root^2 - second."""
        left = -self.second
        left[np.diag_indices_from(left)] += mu - self.root**2
        return np.asarray(2.0 * left / (self.root[:, None] + self.root))

    def correct(self) -> None:
        self.second = _even(self.near @ self.dual_near)

    def gap(self, primal: float, dual: float) -> float:
        """<S, Z> after these steps."""
        return float(np.vdot(self.s + primal * self.ds, self.z + dual * self.dz))

    def falls(self) -> tuple[float, float]:
        """The least t for which t S + dS is semidefinite, and the least for which t Z + dZ is."""
        scale = np.sqrt(self.root)
        one, other = (each / scale / scale[:, None] for each in (self.near, self.dual_near))
        return -float(np.linalg.eigvalsh(one)[0]), -float(np.linalg.eigvalsh(other)[0])

    def move(self, x: Vector, primal: float, dual: float) -> None:
        """To S(x): x may have come by way of values whose rounding a sum of steps keeps, such as u = 4e10 in the
        two-class SDP where the balance is 1e-8."""
        self.s, self.z = self.origin + self.of.image(x), self.z + dual * self.dz
        self._scale()

    def _scale(self) -> None:
        """Compute ``scaling`` and ``root`` at S and Z."""
        low = np.linalg.cholesky(self.z)
        _, self.root, right = np.linalg.svd(np.linalg.cholesky(self.s).T @ low)
        self.scaling = low @ (right.T / np.sqrt(self.root))
        self.second = np.zeros_like(self.s)


Cone = Orthant | Semidefinite


def _inverse_factor(matrix: Matrix) -> Matrix:
    """H lower triangular with H ``matrix`` H' = I; LinAlgError where the matrix is not definite."""
    low, failed = lapack.dpotrf(matrix, lower=True, clean=True)
    half, singular = lapack.dtrtri(low, lower=True)
    if failed or singular:
        raise np.linalg.LinAlgError
    return np.asarray(half)


def _even(matrix: Matrix) -> Matrix:
    return 0.5 * (matrix + matrix.T)
