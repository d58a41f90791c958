r"""Projection onto the local marginal polytope of clique tables (paper 2, appendix E.3):

    minimise sum_c d_c^2 / 2 |a_c - m_c|^2     s.t.  a_c >= 0, sum of a_c = z of its component, all agreements.

With multipliers xi of the agreements, x_c = m_c + (what xi spreads on c) / d_c^2, the dual function is

    D(xi, lambda) = sum_c d_c^2 (|m_c|^2 / 2 - |a_c|^2 / 2 - lambda_c z_c),      a_c = max(0, x_c - lambda_c),

(33)-(34) with the sign of lambda turned and the multipliers of a >= 0 eliminated; its gradient in xi is minus the
disagreement of the tables a (35). It is maximal in lambda where a_c sums to z: each clique is projected onto its
simplex (appendix B). The remaining function of xi is smooth.

`ascend` (ours; the paper goes block by block, as `convexstruct.families.projection.solvers.block_ascent` does) takes
accelerated gradient steps in a diagonal metric, which each round computes from the entries of the tables that are not
0. A step is shorter where the last one met a curvature above 1 in that metric, and the momentum of each component is
set to 0 when it points against the gradient. D is a lower bound wherever the steps lead. `project_tables` works on the
components of a batch in blocks that fit into the cache, each of which stops on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Matrix, Vector
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Tables
from convexstruct.oracles.polytope.feasible_tables import feasible_tables
from convexstruct.oracles.polytope.table_columns import Columns
from convexstruct.rounding import EPS
from convexstruct.tolerances import ROUNDING

#: A table is scaled until its sum misses its scale by at most this, relative to the scale: some hundred roundings.
SUM_ACCURACY = 1e-13
#: The same while the tables still disagree, relative to their disagreement: more accuracy would be of no use in the
#: next round.
EARLY_ACCURACY = 0.1


@dataclass(frozen=True, eq=False)
class Ascent:
    """One round of `ascend`.

    columns, cells : a(xi), each table on its simplex, and xi, in the layout of `Columns`; ``tables`` and
    ``multipliers`` are the same in the layout of `CliqueTables`. value (n_components,) : D, a lower bound on each
    component's optimum. disagreement (n_components,) : the largest disagreement in each component.
    """

    layout: Columns
    columns: Tables
    cells: Tables
    value: Vector
    disagreement: Vector

    @property
    def tables(self) -> Tables:
        return self.layout.rows(self.columns)

    @property
    def multipliers(self) -> Tables:
        return self.layout.multipliers(self.cells)


class Weights(NamedTuple):
    """d_c^2 and z_c of each clique, for each group (n,)."""

    square: list[Vector]
    scale: list[Vector]


def read_weights(structure: CliqueTables, d: Sequence[ArrayLike], scale: ArrayLike) -> Weights:
    """`Weights` from d of each group, one number or (n,), and the scale, one number or (n_components,)."""
    each = np.broadcast_to(np.asarray(scale, dtype=np.float64), (structure.n_components,))
    square = [
        np.broadcast_to(np.square(np.asarray(x, dtype=np.float64)), len(c)) for x, c in zip(d, structure.component)
    ]
    return Weights(square, [each[component] for component in structure.component])


def evaluate(
    layout: Columns,
    tables: Tables,
    weights: Weights,
    cells: Tables,
    thresholds: list[Vector],
    slack: Vector | float = 0.0,
) -> tuple[Tables, Vector]:
    """(a, D - sum_c d_c^2 |m_c|^2 / 2) at xi, all in columns.

    ``thresholds`` holds starting values of lambda and is overwritten by the lambda found. lambda maximises D; to save
    time the tables may miss their sums by ``slack``, one number or (n_components,). D is a lower bound for any
    lambda.
    """
    structure = layout.structure
    found, value = [], np.zeros(structure.n_components)
    each_slack = np.broadcast_to(np.asarray(slack, dtype=np.float64), (structure.n_components,))
    for g, (m, shifts) in enumerate(zip(tables, layout.spread(cells))):
        deadline.check()
        component, square, scale = structure.component[g], weights.square[g], weights.scale[g]
        x = m
        for shift in shifts:
            x = np.add(x, shift / square, out=None if x is m else x)
        lam, a = simplex_thresholds(
            x.reshape(prod(m.shape[:-1]), m.shape[-1]), scale, thresholds[g], each_slack[component]
        )
        each = -0.5 * _squares(a) - lam * scale
        value += np.bincount(component, square * each, structure.n_components)
        thresholds[g] = lam
        found.append(a.reshape(m.shape))
    return found, value


def _base(structure: CliqueTables, tables: Tables, weights: Weights) -> Vector:
    """sum_c d_c^2 |m_c|^2 / 2 of each component."""
    total = np.zeros(structure.n_components)
    for m, square, component in zip(tables, weights.square, structure.component):
        total += np.bincount(
            component, 0.5 * square * _squares(m.reshape(prod(m.shape[:-1]), len(component))), structure.n_components
        )
    return total


def unknown(structure: CliqueTables) -> list[Vector]:
    """The thresholds that stand for no starting values of lambda: -inf."""
    return [np.full(len(rows), -np.inf) for rows in structure.component]


def ascend(structure: CliqueTables, tables: Tables, weights: Weights, start: Tables | None = None) -> Iterator[Ascent]:
    """Accelerated gradient ascent of D: yields one `Ascent` a round, without end; the caller decides when to stop."""
    n, components = structure.n_components, [each.component for each in structure.agreements]
    layout = Columns(structure)
    m = layout.tables(tables)
    base = _base(structure, m, weights)
    xi = layout.cells(structure.split_multipliers(np.zeros(structure.n_multipliers)) if start is None else start)
    thresholds = unknown(structure)
    ahead, momentum, off = xi, np.ones(n), np.zeros(n)
    before = xi, xi  # the point before, and its gradient, which is of no effect where nothing has moved
    while True:
        a, value = evaluate(layout, m, weights, ahead, thresholds, EARLY_ACCURACY * off)
        apart = layout.disagreement(a)
        off = np.zeros(n)
        for component, each in zip(components, apart):
            np.maximum.at(off, component, np.abs(each).max(axis=0, initial=0.0))
        yield Ascent(layout, a, ahead, base + value, off)
        metric = _active(layout, a, weights.square)
        moved = [x - old for x, old in zip(ahead, before[0])]
        bent = [g - old for g, old in zip(apart, before[1])]
        curvature = np.maximum(1.0, _curvature(components, moved, bent, metric, n))
        before = ahead, apart
        new = [x - g / (curvature[c] * k) for c, x, g, k in zip(components, ahead, apart, metric)]
        gone = [x - old for x, old in zip(new, xi)]
        push, momentum = _pushed(momentum, _inner(components, apart, gone, n) > 0)
        ahead = [x + push[c] * g for c, x, g in zip(components, new, gone)]
        xi = new


def _active(layout: Columns, tables: Tables, square: list[Vector]) -> Tables:
    """The diagonal of D's Hessian in xi at the tables, lambda held: for each agreement and cell the sum of 1 / d_c^2
    over the entries of both cliques in that cell that are not 0, at least the larger 1 / d_c^2; (cells, K)."""
    held = [(table > 0) / weight for table, weight in zip(tables, square)]
    known = [layout.marginal(held[port[0]], port) for port in layout.ports]
    found = []
    for (left, right), each in zip(layout.ends, layout.structure.agreements):
        least = np.maximum(
            1.0 / square[each.left.group][each.left.rows], 1.0 / square[each.right.group][each.right.rows]
        )
        found.append(np.maximum(known[left.port][:, left.columns] + known[right.port][:, right.columns], least))
    return found


def _curvature(components: Sequence[Index], moved: Tables, bent: Tables, metric: Tables, n: int) -> Vector:
    """The curvature of D along a step, in units of the metric: |bent|^2 in the inverse metric over <moved, bent>, bent
    being the change of the gradient; 0 where that is not positive."""
    along = _inner(components, moved, bent, n)
    squared = _inner(components, bent, [b / k for b, k in zip(bent, metric)], n)
    return np.asarray(squared / np.where(along > 0, along, np.inf))


def _pushed(momentum: Vector, against: Flags) -> tuple[Vector, Vector]:
    """(the share of the last step that is added to the next one, the next momentum), Nesterov's; the momentum is 1,
    which adds nothing, where it pointed ``against`` the gradient."""
    held = np.where(against, 1.0, momentum)
    longer = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * held**2))
    return (held - 1.0) / longer, longer


@dataclass(frozen=True, eq=False)
class Projected:
    """The result of `project_tables`.

    tables : one array for each group. multipliers : one array for each agreement, to start the next projection from.
    lower_bound : (n_components,) D. rounds : the number of rounds of the block that took most.
    """

    tables: Tables
    multipliers: Tables
    lower_bound: Vector
    rounds: int


def project_tables(
    structure: CliqueTables,
    tables: Tables,
    d: Sequence[ArrayLike] | None = None,
    scale: ArrayLike = 1.0,
    *,
    start: Tables | None = None,
    tol: float = 1e-8,
) -> Projected:
    """The projection of ``tables`` onto the local marginal polytope, in the norm sum d_c^2 |a_c|^2 / 2, feasible up to
    rounding: of chains the mappings (23), (25) of E.1, where scale is C / N.

    Parameters
    ----------
    structure : the cliques and agreements of all components.
    tables : one array for each group, of the shapes `CliqueTables.shapes`.
    d : for each group one number or (n,), positive; 1 by default.
    scale : the sum of each table of a component: one number or (n_components,), positive.
    start : multipliers to start from, such as those of a similar projection.
    tol : the disagreement, relative to the scale, at which a block of components stops.
    """
    weights = read_weights(structure, d or [1.0] * len(tables), scale)
    each = np.broadcast_to(np.asarray(scale, dtype=np.float64), (structure.n_components,))
    found = [np.empty(shape) for shape in structure.shapes]
    multipliers = structure.split_multipliers(np.empty(structure.n_multipliers))
    bounds = np.empty(structure.n_components)
    rounds = 0
    for block in structure.blocks:
        here, count = each[block.components], 0
        some = Weights(block.of(weights.square), block.of(weights.scale))
        first = None if start is None else block.between(start)
        for count, ascent in enumerate(ascend(block.structure, block.of(tables), some, first), start=1):
            # at most 10,000 rounds, so that it also ends where rounding keeps the tables apart
            if (ascent.disagreement <= tol * here).all() or count >= 10_000:
                break
        for target, table in zip(block.of(found), feasible_tables(block.structure, ascent.tables, here)):
            target[...] = table
        for target, piece in zip(block.between(multipliers), ascent.multipliers):
            target[...] = piece
        bounds[block.components] = ascent.value
        rounds = max(rounds, count)
    return Projected(found, multipliers, bounds, rounds)


def simplex_thresholds(x: Matrix, z: Vector, start: Vector, slack: Vector | float = 0.0) -> tuple[Vector, Matrix]:
    """(lambda, max(x - lambda, 0)) with sum_j max(x_j - lambda, 0) = z for each column, by Newton from ``start``.

    The sum is convex and falling in lambda: Newton's steps from the left of the root stay on the left, and a step from
    the right ends on the left, so that the set of positive terms is final after finitely many steps.

    Where the entries of x are so large that no double is close enough to lambda, the column's largest entry is
    subtracted first; then the returned lambda is rounded, but the second result is accurate.

    x : (k, n), one problem in each column. z : (n,) positive. start : (n,), -inf where no starting value is known.
        slack : the largest error of a sum, one number or (n,).
    """
    k, lam, ones = len(x), start, np.ones(len(x))
    far = ~np.isfinite(start)
    if far.any():
        lam = np.where(far, np.maximum(x.max(axis=0) - z, (ones @ x - z) / k), start)  # both left of the root
    over = np.empty_like(x)
    enough = np.maximum(slack, SUM_ACCURACY * z)
    for _ in range(2 * k + 10):
        deadline.check()
        np.maximum(np.subtract(x, lam, out=over), 0.0, out=over)
        excess = ones @ over - z
        if (np.abs(excess) <= enough).all():
            break
        count = ones @ np.sign(over)
        step = np.where(count > 0, excess / np.maximum(count, 1.0), x.max(axis=0) - z - lam)
        if (np.abs(step) <= 2 * EPS * np.abs(lam)).all():
            break
        lam = lam + step
    else:  # ``over`` must be that of the last lambda
        np.maximum(np.subtract(x, lam, out=over), 0.0, out=over)
    if (np.abs(excess) > np.maximum(enough, ROUNDING * z)).any():
        top = x.max(axis=0)
        if top.any():
            below, over = simplex_thresholds(x - top, z, np.full_like(z, -np.inf), slack)
            return top + below, over
    return lam, over


def _squares(columns: Matrix) -> Vector:
    """The squared norm of each column."""
    return np.asarray(np.einsum("ij,ij->j", columns, columns))


def _inner(components: Sequence[Index], left: Tables, right: Tables, n: int) -> Vector:
    """<left, right> within each component; (n,)."""
    total = np.zeros(n)
    for component, one, other in zip(components, left, right):
        total += np.bincount(component, np.einsum("ij,ij->j", one, other), n)
    return total
