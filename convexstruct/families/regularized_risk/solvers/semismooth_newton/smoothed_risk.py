r"""A piecewise linear risk smoothed around a dual point: its minimum is a proximal point step on the adjoint.

With shares p_g, unit simplices S_g (with the zero piece: sum <= 1, without: = 1), piece values v = A w + s b + c,
multipliers a0 and width tau > 0, a proximal point step on the adjoint of paper 2, (10) and (22), minimises over w, b

    F = lam/2 |w|^2 + sum_g p_g max_{a in S_g} [<v_g, a> - tau/2 |a - a0_g|^2]  +  <fixed, w> + <fixed_b, b> + const

The maximiser is a = proj_S(a0 + v/tau), so alpha = p a; F is once differentiable, its gradient is lam w + A' alpha +
fixed, and a generalised Hessian is lam I + sum_g (p_g / tau) A_g' P_g A_g with P_g the derivative of the projection:
the free entries (0 < a), less their mean where the sum of the group is at its bound 1 (the group is "tight"). Where
groups have one piece, a = clip(a0 + v/tau, 0, 1), and the sum is over the rows with 0 < a < 1. The last terms are of
groups whose alpha is held (`restrict`); with them the dual value is that of the whole problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Matrix, Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.semismooth_newton.cells import Cells
from convexstruct.graphs import starts
from convexstruct.oracles.box.simplices import onto_groups
from convexstruct.rounding import EPS

#: A of pieces of several scores is written out where it has at most so many entries (400 kB): SciPy's calls on sparse
#: matrices would take most of the time.
WRITTEN_OUT = 50_000
#: Most steps of the search for the free offsets that minimise F (`best_lift`).
SCALAR_STEPS = 100


@dataclass(frozen=True, eq=False)
class Smoothed:
    """F at a point.

    z (m,) : a0 + v / tau. a (m,) : the maximiser, z projected. free (m,) : entries that move with v. tight (G,) :
    groups whose sum is at its bound 1, None for a box. slope_w, slope_b : the gradient of F.
    """

    z: Vector
    a: Vector
    free: Flags
    tight: Flags | None
    slope_w: Vector
    slope_b: Vector


@dataclass(frozen=True, eq=False)
class SmoothedRisk:
    """The risk of the groups that move, with the linear terms of those that are held.

    Attributes
    ----------
    X : (n, d) the rows of features used. combine : (m, n K) pieces of the scores, or None where piece p is
        ``factor[p]`` times the score of row ``rows[p]`` (None: rows in order).
    offset : c, (m,). share : of each piece's group, (m,). start (G + 1,), group (m,) : as in `PiecewiseLoss`.
    floor, box, n_outputs, lam : as in the problem.
    sign, of : (m,) of the free offsets, empty without them. n_biases : how many there are.
    fixed (dimension,), fixed_b (n_biases,), constant : A' alpha, s' alpha and <c, alpha> of the groups left out.
    sharded : the whole problem, where its products with A are computed by shards; else None.
    cells : A, where these pieces take few of the scores of X; else None.
    table : (m, dimension) A written out, where pieces take several scores and it is small; else None.
    """

    X: Any
    combine: sp.csr_array | None
    factor: Vector
    rows: Index | None
    offset: Vector
    share: Vector
    start: Index
    group: Index
    floor: bool
    box: bool
    n_outputs: int
    lam: float
    sign: Vector
    of: Index
    n_biases: int
    fixed: Vector
    fixed_b: Vector
    constant: float
    sharded: RegularizedRisk | None = None
    cells: Cells | None = None
    table: Matrix | None = None

    @classmethod
    def whole(cls, problem: RegularizedRisk) -> SmoothedRisk:
        """All groups of ``problem``."""
        loss = problem.loss
        factor, rows = problem.single if problem.single is not None else (np.zeros(0), None)
        table = None
        if problem.single is None and problem.n_pieces * problem.dimension <= WRITTEN_OUT:
            matrix = problem.matrix()
            table = np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)
        return cls(
            problem.X, None if problem.single is not None else loss.combine, factor, rows, loss.offset,
            problem.shares[problem.group], loss.start, problem.group, loss.floor, problem.is_box, loss.n_outputs,
            problem.lam, loss.bias_sign, loss.bias_of, loss.n_biases,
            np.zeros(problem.dimension), np.zeros(loss.n_biases), 0.0,
            problem if problem.workers else None, table=table,
        )  # fmt: skip

    @property
    def dimension(self) -> int:
        return int(self.X.shape[1]) * self.n_outputs

    @cached_property
    def first(self) -> Index:
        return self.start[:-1]

    @cached_property
    def share_each(self) -> Vector:
        """The share of each group; (G,)."""
        return self.share[self.first]

    # -- the linear map, w flat ----------------------------------------------------------------------------------------

    def forward(self, w: Vector) -> Vector:
        """A w; (m,)."""
        deadline.check()
        if self.sharded is not None:
            return np.asarray(self.sharded.forward(w))
        if self.table is not None:
            return np.asarray(self.table @ w)
        if self.cells is not None:
            return self.cells.forward(w)
        if self.combine is not None:
            return np.asarray(self.combine @ np.asarray(self.X @ w.reshape(self.n_outputs, -1).T).ravel())
        scores = self.X @ w
        return np.asarray(self.factor * (scores if self.rows is None else scores[self.rows]))

    def adjoint(self, alpha: Vector) -> Vector:
        """A' alpha; (dimension,)."""
        deadline.check()
        if self.sharded is not None:
            return np.ravel(self.sharded.adjoint(alpha))
        if self.table is not None:
            return np.asarray(alpha @ self.table)
        if self.cells is not None:
            return self.cells.adjoint(alpha)
        if self.combine is not None:
            part = np.asarray(self.combine.T @ alpha).reshape(-1, self.n_outputs)
            return np.asarray(self._columns @ part).T.ravel()
        part = self.factor * alpha
        if self.rows is not None:
            part = np.bincount(self.rows, weights=part, minlength=self.X.shape[0])
        return np.asarray(self._columns @ part)

    @cached_property
    def _columns(self) -> Any:
        """X', made once: SciPy checks a sparse matrix anew at every transposition."""
        return self.X.T

    def lift(self, b: Vector) -> Vector | float:
        """s b, what the free offsets add to the pieces."""
        return self.sign * b[self.of] if self.n_biases else 0.0

    def balance(self, alpha: Vector) -> Vector:
        """s' alpha; (n_biases,)."""
        if not self.n_biases:
            return np.zeros(0)
        return self._total(self.sign * alpha)

    # -- values --------------------------------------------------------------------------------------------------------

    def values(self, w: Vector, b: Vector) -> Vector:
        """v = c + A w + s b; (m,)."""
        scores = self.forward(w) if w.any() else 0.0
        return np.asarray(self.offset + self.lift(b) + scores)

    def losses(self, v: Vector) -> Vector:
        """The unsmoothed losses of the groups; (G,)."""
        if self.box:
            return np.clip(v, 0.0, np.inf)  # faster than np.maximum with a number
        top = np.maximum.reduceat(v, self.first)
        return np.maximum(top, 0.0) if self.floor else np.asarray(top)

    def primal(self, w: Vector, b: Vector, v: Vector) -> float:
        """J at (w, b), with the held groups replaced by their linear terms; v are the values of the pieces there."""
        smooth = 0.5 * self.lam * float(w @ w) + float(self.fixed @ w) + float(self.fixed_b @ b) + self.constant
        return smooth + float(self.share_each @ self.losses(v))

    def dual(self, a: Vector, total: Vector) -> float:
        """D of the whole problem at alpha = share a and the alpha held; ``total`` = A' alpha of both."""
        return self.constant + float(self.offset @ (self.share * a)) - float(total @ total) / (2.0 * self.lam)

    # -- F -------------------------------------------------------------------------------------------------------------

    def projection(self, z: Vector) -> Vector:
        """proj_S(z)."""
        return np.clip(z, 0.0, 1.0) if self.box else onto_groups(z, self.start, self.group, self.floor)[0]

    def maximiser(self, z: Vector) -> tuple[Vector, Flags, Flags | None]:
        """proj_S(z), its free entries, and the tight groups."""
        if self.box:
            return self.projection(z), (z > 0.0) & (z < 1.0), None
        a, tight = onto_groups(z, self.start, self.group, self.floor)
        return a, a > 0.0, tight

    def at(self, w: Vector, z: Vector) -> tuple[Smoothed, Vector]:
        """F's derivatives at w where a0 + v/tau = z; and A' alpha, that of held groups included."""
        a, free, tight = self.maximiser(z)
        alpha = self.share * a
        total = self.adjoint(alpha) + self.fixed
        return Smoothed(z, a, free, tight, self.lam * w + total, self.balance(alpha) + self.fixed_b), total

    def derivative(self, free: Flags, tight: Flags | None, u: Vector) -> Vector:
        """P u: the free entries of u, less their mean in tight groups; (m,)."""
        kept = np.where(free, u, 0.0)
        if tight is None:
            return kept
        count = np.maximum(np.add.reduceat(free, self.first, dtype=np.float64), 1.0)
        mean = np.where(tight, np.add.reduceat(kept, self.first) / count, 0.0)
        return np.where(free, kept - mean[self.group], 0.0)

    def best_lift(self, z: Vector, tau: float) -> Vector:
        """The change of b that minimises F over b where a0 + v/tau = z: s' alpha + fixed_b = 0; (n_biases,).

        The slope rises with each offset, piecewise linear with kinks at - s tau z and - s tau (z - 1): Newton's steps
        inside a bracket, bisection where they leave it or do not halve the slope.
        """
        shift = np.zeros(self.n_biases)
        low, high = self._ends(np.minimum(-self.sign * z, self.sign - self.sign * z) * tau, tau)
        whole = self._total(self.share)
        whole[whole == 0] = np.inf  # all pieces of the offset are held: nothing to balance
        before = np.full(self.n_biases, np.inf)
        for _ in range(SCALAR_STEPS):
            moved = z + self.lift(shift) / tau
            slope = self.balance(self.share * np.minimum(np.maximum(moved, 0.0), 1.0)) + self.fixed_b
            bend = self._total(self.share * ((moved > 0.0) & (moved < 1.0))) / tau
            going = np.abs(slope) > EPS * whole
            if not going.any():
                return shift + np.where(bend == 0, self._middle(moved, tau), 0.0) if (bend == 0).any() else shift
            low, high = np.where(going & (slope < 0), shift, low), np.where(going & (slope > 0), shift, high)
            wanted = shift - slope / np.where(bend > 0, bend, np.inf)
            out = (np.abs(slope) > 0.5 * before) | (wanted <= low) | (wanted >= high) | (bend == 0)
            shift, before = np.where(going, np.where(out, 0.5 * (low + high), wanted), shift), np.abs(slope)
        return shift

    def _total(self, values: Vector) -> Vector:
        """The sum over the pieces of each free offset; (n_biases,)."""
        if self.n_biases == 1:
            return np.array([values.sum()])
        return np.asarray(np.bincount(self.of, values, self.n_biases), dtype=np.float64)

    def _ends(self, kinks: Vector, width: float) -> tuple[Vector, Vector]:
        """For each free offset an interval that holds its ``kinks`` and what lies ``width`` after each; (n_biases,)."""
        low, high = np.zeros(self.n_biases), np.zeros(self.n_biases)
        np.minimum.at(low, self.of, kinks)
        np.maximum.at(high, self.of, kinks + width)
        return low - width, high + width

    def _middle(self, z: Vector, tau: float) -> Vector:
        """The change of each free offset to the middle of the interval in which none of its pieces is free. F is flat
        there; from an end of the interval the next step of w would meet a kink at once."""
        up, on = self.sign > 0, z >= 0.5
        least, most = np.full(self.n_biases, -np.inf), np.full(self.n_biases, np.inf)
        room = tau * np.where(on, z - 1.0, -z)
        np.minimum.at(most, self.of[up != on], room[up != on])
        np.maximum.at(least, self.of[up == on], -room[up == on])
        ended = np.isfinite(least) & np.isfinite(most) & (least < most)
        return np.where(ended, 0.5 * (np.where(ended, least, 0.0) + np.where(ended, most, 0.0)), 0.0)

    # -- fewer groups --------------------------------------------------------------------------------------------------

    def near(self, v: Vector, a: Vector, margin: float) -> Flags:
        """The pieces that may move: those with a > 0 or within ``margin`` of the highest of their group, but for groups
        whose a is the vertex of a piece that leads by more than ``margin``; (m,)."""
        if self.box:
            return ~(((v > margin) & (a >= 1.0)) | ((v < -margin) & (a <= 0.0)))
        top = np.maximum.reduceat(v, self.first)
        found = (a > 0.0) | (v > (np.maximum(top, 0.0) if self.floor else top)[self.group] - margin)
        alone = np.add.reduceat(found, self.first, dtype=np.intp) == 1
        return np.asarray(found & ~(alone[self.group] & (a >= 1.0) & ((v > margin) | (not self.floor))))

    def restrict(self, moving: Flags, a: Vector, total: Vector) -> tuple[SmoothedRisk, Index]:
        """The problem on the pieces ``moving``, the others held at ``a``, where A' alpha and the fixed part are
        ``total``; and the places of these pieces."""
        pieces = np.flatnonzero(moving)
        held = self.share * a
        held[pieces] = 0.0
        sizes = np.add.reduceat(moving, self.first, dtype=np.intp)
        sizes = sizes[sizes > 0]
        start = starts(sizes)
        factor, rows, combine, cells = self.factor, self.rows, self.combine, None
        if combine is None:
            factor = factor[pieces]
            X = self.X[pieces if rows is None else rows[pieces]]
            rows = None
        else:
            combine = combine[pieces]
            cells = None if self.table is not None else Cells.of(self.X, combine, self.n_outputs)
            example, output = np.divmod(combine.indices, self.n_outputs)
            used, place = np.unique(example, return_inverse=True)
            X = self.X[used]
            shape = (len(pieces), len(used) * self.n_outputs)
            combine = sp.csr_array((combine.data, place * self.n_outputs + output, combine.indptr), shape=shape)
        part = SmoothedRisk(
            X, combine, factor, rows, self.offset[pieces], self.share[pieces], start,
            np.repeat(np.arange(len(sizes)), sizes), self.floor, self.box, self.n_outputs, self.lam,
            self.sign[pieces] if self.n_biases else self.sign, self.of[pieces] if self.n_biases else self.of,
            self.n_biases, total, self.balance(held) + self.fixed_b, float(self.offset @ held) + self.constant,
            cells=cells, table=None if self.table is None else self.table[pieces],
        )  # fmt: skip
        return replace(part, fixed=total - part.adjoint(part.share * a[pieces])), pieces
