r"""The quadratic program over pools of labellings, by a primal-dual interior point method.

    minimise over w    lam/2 |w|^2 + sum_i c_i max_{j in pool i} (b_j - a_j'w),        w_k >= 0 where asked

Each pool holds the column of the truth, a = 0 and b = 0. With xi_i = the maximum, slacks s_j = xi_i - b_j + a_j'w >= 0
and multipliers alpha_j >= 0, sum_{j in i} alpha_j = c_i, a Newton step eliminates alpha and xi and leaves

    (lam I + sum_i sum_{j in i} D_j (a_j - m_i)(a_j - m_i)') dw = ...,     D = alpha / s,   m_i = mean of a under D,

a system of size d or, by Woodbury's formula, of the number of columns, whichever is smaller. Products of columns lose
all but their largest features, so the formula is for the others, S among the columns [S, L] of D^1/2 (a - m):

    dw_L = (lam I + lam L' (lam I + S S')^-1 L)^-1 (r_L - L'u),    u = (lam I + S S')^-1 S r_S,
    dw_S = (r_S - S' (u + lam (lam I + S S')^-1 L dw_L)) / lam,    r the right side.

The steps are Mehrotra's predictor and corrector. The dual value sum b_j alpha_j - 1/(2 lam) |(A'alpha)_+|^2 bounds the
whole problem from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dsyrk

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Matrix, Vector
from convexstruct.core.cholesky import solver
from convexstruct.tolerances import HIGH

#: A restricted problem counts as solved at this relative gap: a thousandth of the finest that users can name.
EXACT_GAP = 1e-3 * HIGH.gap
#: The most steps in a row in which neither the gap nor complementarity falls to this share: after these, rounding
#: allows no improvement. From a poor start a dozen steps may pass before anything improves.
PATIENCE, FALL = 20, 0.5
#: A step goes this share of the way to the boundary: nearer to it Mehrotra's directions can cycle.
STEP_SHARE = 0.9
#: The first state has this share of the multipliers that its slacks alone would give, and the rest of those of the
#: earlier optimum: at 1, without the earlier multipliers, rounds take two to four times the Newton steps.
SPREAD = 0.1
#: The least share of a multiplier that a restoration leaves.
LEAST_LEFT = 0.5
#: The most weights for which the system of size d is tried where the Gram matrix has failed: a second a step.
WIDEST = 2000


@dataclass(frozen=True, eq=False)
class PoolColumns:
    """The columns of all pools, grouped by owner; the first of each pool is the truth.

    a : (M, d), array or CSR. b : (M,). owner : (M,) non-decreasing, every owner 0 .. N - 1 occurs. gram : (M, M), a a'
    without the features ``large`` (k,), or None where the system of size d is the smaller one. alpha : (M,) the
    multipliers of an earlier optimum, 0 of new columns, to start from; or None.
    """

    a: Any
    b: Vector
    owner: Index
    gram: Matrix | None = None
    alpha: Vector | None = None
    large: Index = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


@dataclass(frozen=True)
class PoolSolution:
    """w (d,), alpha (M,) feasible, primal (of the restricted problem) and bound (of the whole), and the steps taken."""

    w: Vector
    alpha: Vector
    primal: float
    bound: float
    steps: int


@dataclass
class _State:
    """An interior point: w, xi_i, slacks s_j > 0, multipliers alpha_j > 0, and z_k > 0 of the entries w_k >= 0."""

    w: Vector
    xi: Vector
    s: Vector
    alpha: Vector
    z: Vector

    def moved(self, by: _State, size: float) -> _State:
        return _State(
            self.w + size * by.w, self.xi + size * by.xi, self.s + size * by.s, self.alpha + size * by.alpha,
            self.z + size * by.z,
        )  # fmt: skip


class _Newton:
    """The Newton system at one state, its matrix factored in the smaller of its two forms.

    means : (N, M) CSR, a row a pool; its numbers are overwritten by the weights of the columns in their mean.
    """

    def __init__(
        self, columns: PoolColumns, ceiling: Vector, lam: float, means: sp.csr_array, bounded: Index, at: _State
    ) -> None:
        a, owner = columns.a, columns.owner
        self.columns, self.ceiling, self.lam, self.bounded, self.at = columns, ceiling, lam, bounded, at
        self.start = means.indptr[:-1]
        self.weight = at.alpha / at.s
        self.total = np.add.reduceat(self.weight, self.start)
        means.data[:] = self.weight / self.total[owner]
        self.means = means @ a
        self.inside = at.w[bounded]
        self.gradient = lam * at.w - a.T @ at.alpha
        self.short = ceiling - np.add.reduceat(at.alpha, self.start)
        self.off = at.s - (at.xi[owner] - (columns.b - a @ at.w))
        self.complement = (float(at.alpha @ at.s) + float(at.z @ self.inside)) / (len(at.s) + len(at.z))
        if columns.gram is None or len(bounded):
            self._factor_by_parameters()
        else:
            self._factor_by_columns(columns.gram, means)

    def _factor_by_parameters(self) -> None:
        rows, means = self.columns.a, self.means
        if sp.issparse(rows):
            rows, means = rows.toarray(), means.toarray()
        centred = means[self.columns.owner]
        np.subtract(rows, centred, out=centred)
        centred *= np.sqrt(self.weight)[:, None]
        matrix = dsyrk(1.0, centred.T, lower=1)
        matrix.flat[:: len(matrix) + 1] += self.lam
        matrix[self.bounded, self.bounded] += self.at.z / self.inside
        self._root: Vector | None = None
        self._inverse = solver(matrix)

    def _factor_by_columns(self, gram: Matrix, means: sp.csr_array) -> None:
        owner = self.columns.owner
        centred = gram - (means @ gram)[owner]
        centred -= (means @ centred.T).T[:, owner]
        self._root = np.sqrt(self.weight)
        matrix = np.multiply(centred, self._root, out=centred)
        matrix *= self._root[:, None]
        matrix.flat[:: len(matrix) + 1] += self.lam
        self._inverse = solver(matrix)
        if len(self.columns.large):
            self._add_large_features(*self._dense())

    def _dense(self) -> tuple[Matrix, Matrix]:
        """The large features of the columns (M, k), and their means (N, k)."""
        rows, means = self.columns.a[:, self.columns.large], self.means[:, self.columns.large]
        return (rows.toarray(), means.toarray()) if sp.issparse(rows) else (rows, means)

    def _add_large_features(self, rows: Matrix, means: Matrix) -> None:
        """L, and its Schur complement lam I + lam L' (lam I + S S')^-1 L."""
        assert self._root is not None
        self._large = (rows - means[self.columns.owner]) * self._root[:, None]
        self._solved = np.zeros_like(self._large)
        for k, column in enumerate(self._large.T):
            self._solved[:, k] = self._inverse(column)
        corner = self.lam * (self._large.T @ self._solved)
        corner.flat[:: len(corner) + 1] += self.lam
        self._corner = solver(0.5 * (corner + corner.T))

    def _solve(self, right: Vector) -> Vector:
        if self._root is None:
            return self._inverse(right)
        a, owner, large = self.columns.a, self.columns.owner, self.columns.large
        small, at_large = right.copy(), np.zeros(0)
        small[large] = 0.0
        image = self._inverse((a @ small - (self.means @ small)[owner]) * self._root)
        if len(large):
            at_large = self._corner(right[large] - self._large.T @ image)
            image += self.lam * (self._solved @ at_large)
        inner = image * self._root
        back = a.T @ inner - self.means.T @ np.bincount(owner, weights=inner, minlength=self.means.shape[0])
        solved = np.asarray((small - back) / self.lam)
        solved[large] = at_large
        return solved

    def direction(self, target: Vector, bounded_target: Vector) -> _State:
        """The change that solves alpha s = alpha s - target and z w = z w - bounded_target to first order."""
        at, owner, a = self.at, self.columns.owner, self.columns.a
        scaled = target / at.s - self.weight * self.off
        shift = (-np.add.reduceat(scaled, self.start) - self.short) / self.total
        right = -self.gradient - a.T @ (scaled + self.weight * shift[owner])
        right[self.bounded] += at.z - bounded_target / self.inside
        dw = self._solve(right)
        dxi = shift - self.means @ dw
        ds = dxi[owner] + a @ dw - self.off
        dz = -(bounded_target + at.z * dw[self.bounded]) / self.inside
        return _State(dw, dxi, ds, -(target + at.alpha * ds) / at.s, dz)

    def restored(self, at: _State) -> _State:
        """A state whose multipliers have the sums c_i, and balance lam w = A'alpha at the large features.

        There the rounding of a multiplier, 1e-16 times a feature of 1e9, is an error that later steps cannot mend. A
        change of alpha_j by alpha_j (a_j - m_i)'y, m_i the mean of a in pool i under alpha, keeps the sums, and moves
        A'alpha at the large features by their covariance times y.
        """
        columns, owner, alpha = self.columns, self.columns.owner, at.alpha
        if self._root is None or not len(columns.large):
            return at
        rows = self._dense()[0]
        alpha = alpha * (self.ceiling / np.add.reduceat(alpha, self.start))[owner]
        short = self.lam * at.w[columns.large] - rows.T @ alpha
        means = np.add.reduceat(alpha[:, None] * rows, self.start) / self.ceiling[:, None]
        centred = rows - means[owner]
        root = np.sqrt(alpha)[:, None] * centred
        length = np.linalg.norm(root, axis=0)
        if not (np.isfinite(length).all() and np.isfinite(short).all()):
            return at
        unit = 1.0 / np.where(length > 0.0, length, 1.0)
        # features that add up to none, such as one that all labels share, leave the matrix singular
        y = unit * np.linalg.lstsq((root * unit).T @ (root * unit), unit * short)[0]
        return replace(at, alpha=alpha * np.maximum(1.0 + centred @ y, LEAST_LEFT))

    def reach(self, by: _State) -> float:
        """The largest step in (0, 1] along ``by`` that keeps everything positive that must be."""
        at = self.at
        pairs = ((at.s, by.s), (at.alpha, by.alpha), (self.inside, by.w[self.bounded]), (at.z, by.z))
        return 1.0 / max(float(np.fmax.reduce(-dx / x, initial=1.0)) for x, dx in pairs)

    def corrected(self) -> tuple[_State, float]:
        """Mehrotra's direction, and the size of the step along it."""
        at = self.at
        first = self.direction(at.alpha * at.s, at.z * self.inside)
        size = self.reach(first)
        inside = self.inside + size * first.w[self.bounded]
        ahead = float((at.alpha + size * first.alpha) @ (at.s + size * first.s)) + float(
            (at.z + size * first.z) @ inside
        )
        ratio = ahead / (len(at.s) + len(at.z)) / self.complement
        centre = self.complement * float(np.clip(ratio, 0.0, 1.0)) ** 3
        second = self.direction(
            at.alpha * at.s + first.alpha * first.s - centre,
            at.z * self.inside + first.z * first.w[self.bounded] - centre,
        )
        return second, STEP_SHARE * self.reach(second)


def solve_pools(
    columns: PoolColumns,
    ceiling: Vector,
    lam: float,
    w: Vector,
    tolerance: float,
    nonnegative: Flags | None = None,
) -> PoolSolution:
    """The optimum of the restricted problem, to an absolute gap of ``tolerance`` where rounding allows.

    Where the features of the Gram matrix are far apart or large, products lose all but the largest; the system of size
    d does not. It is solved where the Gram matrix has failed.

    Parameters
    ----------
    columns : the pools. ceiling : (N,) c. lam : positive. w : (d,) to start from.
    nonnegative : (d,) entries of w that must be >= 0, or None.
    """
    first = _solved(columns, ceiling, lam, w, tolerance, nonnegative)
    if columns.gram is None or first.primal - first.bound <= tolerance or len(w) > WIDEST:
        return first
    second = _solved(replace(columns, gram=None), ceiling, lam, first.w, tolerance, nonnegative)
    w, primal = min((first.w, first.primal), (second.w, second.primal), key=lambda pair: pair[1])
    alpha, bound = max((first.alpha, first.bound), (second.alpha, second.bound), key=lambda pair: pair[1])
    return PoolSolution(w, alpha, primal, bound, first.steps + second.steps)


def _solved(
    columns: PoolColumns, ceiling: Vector, lam: float, w: Vector, tolerance: float, nonnegative: Flags | None
) -> PoolSolution:
    """`solve_pools`, by one of the two systems."""
    a, b, owner = columns.a, columns.b, columns.owner
    start = np.searchsorted(owner, np.arange(len(ceiling))).astype(np.intp)
    bounded = np.flatnonzero(np.zeros(len(w), dtype=bool) if nonnegative is None else nonnegative)
    means = _of_pools(start, len(b))
    best_w, primal, best_alpha, bound, steps = w, np.inf, np.zeros(len(b)), -np.inf, 0
    at = _near(columns, ceiling, lam, w, start, bounded)
    since, last, least = 0, np.inf, np.inf
    while since <= PATIENCE:
        deadline.check()
        # feasible: the rounding of a step moves the sums of multipliers, the more the larger the features
        alpha = at.alpha * np.minimum(1.0, ceiling / np.add.reduceat(at.alpha, start))[owner]
        psi = np.asarray(a.T @ alpha)
        psi[bounded] = np.maximum(psi[bounded], 0.0)
        above = 0.5 * lam * float(at.w @ at.w) + float(ceiling @ np.maximum.reduceat(b - a @ at.w, start))
        below = float(b @ alpha) - 0.5 / lam * float(psi @ psi)
        if not (math.isfinite(above) and math.isfinite(below)):
            break
        complement = (float(at.alpha @ at.s) + float(at.z @ at.w[bounded])) / (len(at.s) + len(at.z))
        gap = min(primal, above) - max(bound, below)
        since = 0 if gap < min(FALL * last, last) or complement < FALL * least else since + 1
        last, least, steps = (last if since else gap), min(least, complement), steps + 1
        if above < primal:
            best_w, primal = at.w, above
        if below > bound:
            best_alpha, bound = alpha, below
        if primal - bound <= tolerance or not complement > 0:  # products and their mean may underflow
            break
        newton = _Newton(columns, ceiling, lam, means, bounded, at)
        by, size = newton.corrected()
        at = newton.restored(at.moved(by, size))
    return PoolSolution(best_w, best_alpha, primal, bound, steps)


def _of_pools(start: Index, m: int) -> sp.csr_array:
    """A row (m,) a pool, 1 at its columns, of which the first is at ``start`` (N,)."""
    return sp.csr_array((np.ones(m), np.arange(m), np.append(start, m)), (len(start), m))


def _near(columns: PoolColumns, ceiling: Vector, lam: float, w: Vector, start: Index, bounded: Index) -> _State:
    """An interior state at w: slacks of at least the gap of w and the earlier multipliers, an example; multipliers
    proportional to 1 / s_j, mixed with the earlier ones."""
    w, known = _positive(w, bounded), columns.alpha
    margin = columns.b - columns.a @ w
    top = np.maximum.reduceat(margin, start)
    gap = 0.5 * lam * float(w @ w) + float(ceiling @ top)
    if known is not None:
        psi = np.asarray(columns.a.T @ known)
        psi[bounded] = np.maximum(psi[bounded], 0.0)
        gap -= float(columns.b @ known) - 0.5 / lam * float(psi @ psi)
    least = 1e-6 * (1.0 + float(np.abs(columns.b).max(initial=0.0)))
    s = (top + max(gap / float(ceiling.sum()), least))[columns.owner] - margin
    alpha = (1.0 / s) * (ceiling / np.add.reduceat(1.0 / s, start))[columns.owner]
    if known is not None:
        alpha = SPREAD * alpha + (1.0 - SPREAD) * known * (ceiling / np.add.reduceat(known, start))[columns.owner]
    return _State(w, s[start] + margin[start], s, alpha, float(alpha @ s) / len(s) / w[bounded])


def _positive(w: Vector, bounded: Index) -> Vector:
    w = w.copy()
    w[bounded] = np.maximum(w[bounded], 1e-3 * (1.0 + np.abs(w).max(initial=0.0)))
    return w
