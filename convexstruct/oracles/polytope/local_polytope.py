r"""Projection onto the local marginal polytope of clique tables (paper 2, appendix E.3):

    minimise sum_c d_c^2 / 2 |a_c - m_c|^2     s.t.  a_c >= 0, sum of a_c = z of its component, all agreements.

With multipliers xi of the agreements, x_c = m_c + (what xi spreads on c) / d_c^2, the dual function is

    D(xi, lambda) = sum_c d_c^2 (|m_c|^2 / 2 - |a_c|^2 / 2 - lambda_c z_c),      a_c = max(0, x_c - lambda_c),

(33)-(34) with the sign of lambda turned and the multipliers of a >= 0 eliminated; its gradient in xi is minus the
disagreement of the tables a (35). It is maximal in lambda where a_c sums to z: each clique is projected onto its
simplex (appendix B). What is left is smooth in xi.

`ascend` (ours; the paper goes block by block, as `convexstruct.families.projection.solvers.block_ascent` does) takes
accelerated gradient
steps. In the metric of `CliqueTables.stiffness` the gradient has the Lipschitz constant 1; the steps are longer. Now
and then the metric becomes what the entries that are not at 0 make of it, the step's length follows the curvature met
on the way, and each component restarts its momentum where that turns against the gradient. A component whose bound does
not rise for long goes back to the steps that are certain. Components of a batch are taken in blocks that stay in cache,
and each block stops by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Tables
from convexstruct.oracles.polytope.feasible_tables import feasible_tables
from convexstruct.oracles.polytope.table_columns import Columns
from convexstruct.rounding import EPS
from convexstruct.tolerances import ROUNDING

#: Rounds between two choices of the metric.
METRIC = 10
#: A curvature met along a step may be this small against the metric.
LEAST_CURVATURE = 1e-3
#: How fast an estimate of curvature is forgotten, a step.
FORGET = 1.1
#: Rounds without a better bound after which the steps are those of the bound on the curvature, for good.
PATIENCE = 50
#: What the sum of a table is brought to its scale within, relative.
SUMS = 1e-13
#: The same while the tables still disagree, relative to their disagreement.
LOOSE = 0.1


@dataclass(frozen=True, eq=False)
class Ascent:
    """One round of `ascend`.

    columns, cells : a(xi), each on its simplex, and xi, as `Columns` has them; ``tables`` and ``multipliers`` are the
    same as `CliqueTables` has them. value : D, a lower bound of each component's optimum. disagreement : the largest
    of each component. Both (n_components,).
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
    """d_c^2 of each clique and z_c, for each group (n,)."""

    square: list[Vector]
    scale: list[Vector]


def read_weights(structure: CliqueTables, d: Sequence[ArrayLike], scale: ArrayLike) -> Weights:
    """d of each group, one number or (n,), and the scale, one number or (n_components,), as arrays a clique."""
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

    ``thresholds`` holds where to begin with lambda and is overwritten; lambda maximises D, or the tables may miss their
    sums by ``slack``, (n_components,). D is a lower bound whatever lambda is.
    """
    structure = layout.structure
    found, value = [], np.zeros(structure.n_components)
    each_slack = np.broadcast_to(np.asarray(slack, dtype=np.float64), (structure.n_components,))
    for g, (m, shifts) in enumerate(zip(tables, layout.spread(cells))):
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


def dual_value(structure: CliqueTables, tables: Tables, weights: Weights, multipliers: Tables) -> Vector:
    """D at xi, maximised over lambda: a lower bound of each component's optimum, whatever xi; (n_components,)."""
    layout = Columns(structure)
    m = layout.tables(tables)
    return _base(structure, m, weights) + evaluate(layout, m, weights, layout.cells(multipliers), unknown(structure))[1]


def _base(structure: CliqueTables, tables: Tables, weights: Weights) -> Vector:
    """sum_c d_c^2 |m_c|^2 / 2 of each component."""
    total = np.zeros(structure.n_components)
    for m, square, component in zip(tables, weights.square, structure.component):
        total += np.bincount(
            component, 0.5 * square * _squares(m.reshape(prod(m.shape[:-1]), len(component))), structure.n_components
        )
    return total


def unknown(structure: CliqueTables) -> list[Vector]:
    """Thresholds of which nothing is known yet."""
    return [np.full(len(rows), -np.inf) for rows in structure.component]


def ascend(structure: CliqueTables, tables: Tables, weights: Weights, start: Tables | None = None) -> Iterator[Ascent]:
    """Accelerated ascent of D, an iterate a round; it goes on as long as it is asked."""
    n, components = structure.n_components, [each.component for each in structure.agreements]
    layout = Columns(structure)
    m = layout.tables(tables)
    base = _base(structure, m, weights)
    xi = [np.zeros((prod(each.cards), len(each.component))) for each in structure.agreements]
    if start is not None:
        xi = layout.cells(start)
    bound = structure.stiffness(weights.square)
    metric = [np.broadcast_to(each, x.shape) for each, x in zip(bound, xi)]
    thresholds = unknown(structure)
    ahead, curvature, momentum = [x.copy() for x in xi], np.ones(n), np.ones(n)
    before: tuple[Tables, Tables] | None = None
    off = np.zeros(n)
    best, waited, cautious = np.full(n, -np.inf), np.zeros(n), np.zeros(n, dtype=bool)
    for count in itertools.count():
        a, value = evaluate(layout, m, weights, ahead, thresholds, LOOSE * off)
        value += base
        apart = layout.disagreement(a)
        off = np.zeros(n)
        for component, each in zip(components, apart):
            np.maximum.at(off, component, np.abs(each).max(axis=0, initial=0.0))
        yield Ascent(layout, a, ahead, value, off)
        waited = np.where(value > best, 0, waited + 1)
        best = np.maximum(best, value)
        if count % METRIC == METRIC // 2:
            metric = [np.minimum(held, each) for held, each in zip(_active(layout, a, weights.square), bound)]
            before, curvature = None, np.ones(n)
        cautious |= waited > PATIENCE
        if cautious.any():
            metric = [np.where(cautious[c], each, k) for c, each, k in zip(components, bound, metric)]
        if before is not None:
            moved = [x - old for x, old in zip(ahead, before[0])]
            bent = [g - old for g, old in zip(apart, before[1])]
            along = _inner(components, moved, bent, n)
            squared = _inner(components, bent, [b / k for b, k in zip(bent, metric)], n)
            met = np.where(along > 0, squared / np.where(along > 0, along, 1.0), 1.0)
            curvature = np.maximum(np.maximum(met, curvature / FORGET), LEAST_CURVATURE)
            curvature[cautious] = 1.0
        before = ahead, apart
        new = [x - g / (curvature[c] * k) for c, x, g, k in zip(components, ahead, apart, metric)]
        gone = [x - old for x, old in zip(new, xi)]
        against = _inner(components, apart, gone, n) > 0
        momentum[against] = 1.0
        longer = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        push = np.where(against, 0.0, (momentum - 1.0) / longer)
        ahead = [x + push[c] * g for c, x, g in zip(components, new, gone)]
        xi, momentum = new, longer


def _active(layout: Columns, tables: Tables, square: list[Vector]) -> Tables:
    """For each agreement and cell the sum of 1 / d_c^2 over the entries that are not at 0, at least one on the side
    where that is most: the diagonal of D's curvature, sums left aside; (cells, K)."""
    held = [(table > 0) / weight for table, weight in zip(tables, square)]
    known = [layout.marginal(held[port[0]], port) for port in layout.ports]
    found = []
    for (left, right), each in zip(layout.ends, layout.structure.agreements):
        least = np.maximum(
            1.0 / square[each.left.group][each.left.rows], 1.0 / square[each.right.group][each.right.rows]
        )
        found.append(np.maximum(known[left.port][:, left.columns] + known[right.port][:, right.columns], least))
    return found


@dataclass(frozen=True, eq=False)
class Projected:
    """What `project_tables` finds.

    tables : one array a group. multipliers : one array an agreement, to start the next projection from.
    lower_bound : (n_components,) D. disagreement : (n_components,) the largest before repair, relative to the scale.
    rounds : of the block that took most.
    """

    tables: Tables
    multipliers: Tables
    lower_bound: Vector
    disagreement: Vector
    rounds: int


def project_tables(
    structure: CliqueTables,
    tables: Tables,
    d: Sequence[ArrayLike] | None = None,
    scale: ArrayLike = 1.0,
    *,
    start: Tables | None = None,
    tol: float = 1e-8,
    max_rounds: int = 10_000,
    repair: bool = True,
) -> Projected:
    """The projection of ``tables`` onto the local marginal polytope, in the norm sum d_c^2 |a_c|^2 / 2.

    Parameters
    ----------
    structure : the cliques and agreements of all components.
    tables : one array a group, shaped as `CliqueTables.shapes`.
    d : for each group one number or (n,), positive; 1 by default.
    scale : what the tables of a component sum to: one number or (n_components,), positive.
    start : multipliers of a projection nearby.
    tol : the disagreement, relative to the scale, at which a block of components stops.
    max_rounds : rounds of the ascent, a block, after which it stops in any case.
    repair : whether the tables are made feasible exactly; otherwise they agree up to ``tol``.
    """
    weights = read_weights(structure, d or [1.0] * len(tables), scale)
    each = np.broadcast_to(np.asarray(scale, dtype=np.float64), (structure.n_components,))
    found = [np.empty(shape) for shape in structure.shapes]
    multipliers = structure.split_multipliers(np.empty(structure.n_multipliers))
    bounds, apart = np.empty((2, structure.n_components))
    rounds, low = 0, 0
    for part, rows, pairs in structure.blocks:
        here = slice(low, low + part.n_components)
        some = Weights([x[r] for x, r in zip(weights.square, rows)], [x[r] for x, r in zip(weights.scale, rows)])
        first = None if start is None else [x[p] for x, p in zip(start, pairs)]
        count = 0
        for count, ascent in enumerate(ascend(part, [x[r] for x, r in zip(tables, rows)], some, first), start=1):
            if (ascent.disagreement <= tol * each[here]).all() or count >= max_rounds:
                break
        final = feasible_tables(part, ascent.tables, each[here]) if repair else ascent.tables
        for whole, piece, r in zip(found, final, rows):
            whole[r] = piece
        for whole, piece, p in zip(multipliers, ascent.multipliers, pairs):
            whole[p] = piece
        bounds[here], apart[here] = ascent.value, ascent.disagreement / each[here]
        rounds, low = max(rounds, count), low + part.n_components
    return Projected(found, multipliers, bounds, apart, rounds)


class ProjectedChains(NamedTuple):
    """node (P, S) and edge (Q, S, S) marginals, chain after chain, and the multipliers to start from next time."""

    node: Matrix
    edge: Tensor
    multipliers: Tables


def project_chains(
    structure: CliqueTables,
    node: Matrix,
    edge: Tensor,
    scale: ArrayLike = 1.0,
    start: Tables | None = None,
    tol: float = 1e-8,
) -> ProjectedChains:
    """The projection of node and edge tables onto the marginals of (scaled) distributions over chains' labellings:
    the mappings (23), (25) of E.1, where scale is C / N.

    Parameters
    ----------
    structure : `chain_tables(chains, n_labels)`, made once.
    node, edge : (P, S) and (Q, S, S), chain after chain as the caller has them; edge k joins neighbouring nodes.
    scale, start, tol : as `project_tables` has them.
    """
    found = project_tables(structure, [node, edge], None, scale, start=start, tol=tol)
    return ProjectedChains(found.tables[0], found.tables[1], found.multipliers)


def simplex_thresholds(x: Vector, z: Vector, start: Vector, slack: Vector | float = 0.0) -> tuple[Vector, Vector]:
    """(lambda, max(x - lambda, 0)) with sum_j max(x_j - lambda, 0) = z for each column, by Newton from ``start``.

    From the left Newton never passes the root, and from the right it is left of it after one step, so that the active
    sets settle after finitely many.

    Where x is so far from 0 that no double is close enough to lambda, each column's largest entry is taken from it
    first, and what is returned is exact: lambda alone is rounded.

    x : (k, n), a column a problem. z : (n,) positive. start : (n,), -inf where nothing is known. slack : how far a sum
        may be off.
    """
    k, lam, ones = len(x), start, np.ones(len(x))
    far = ~np.isfinite(start)
    if far.any():
        lam = np.where(far, np.maximum(x.max(axis=0) - z, (ones @ x - z) / k), start)  # both left of the root
    over = np.empty_like(x)
    enough = np.maximum(slack, SUMS * z)
    for _ in range(2 * k + 10):
        np.maximum(np.subtract(x, lam, out=over), 0.0, out=over)
        excess = ones @ over - z
        if (np.abs(excess) <= enough).all():
            break
        count = ones @ np.sign(over)
        step = np.where(count > 0, excess / np.maximum(count, 1.0), x.max(axis=0) - z - lam)
        if (np.abs(step) <= 2 * EPS * np.abs(lam)).all():
            break
        lam = lam + step
    if (np.abs(excess) > np.maximum(enough, ROUNDING * z)).any():
        top = x.max(axis=0)
        if top.any():
            below, over = simplex_thresholds(x - top, z, np.full_like(z, -np.inf), slack)
            return top + below, over
    return lam, over


def _squares(columns: Vector) -> Vector:
    """The squared norm of each column."""
    return np.asarray(np.einsum("ij,ij->j", columns, columns))


def _inner(components: Sequence[NDArray[np.intp]], left: Tables, right: Tables, n: int) -> Vector:
    """<left, right> within each component; (n,)."""
    total = np.zeros(n)
    for component, one, other in zip(components, left, right):
        total += np.bincount(component, np.einsum("ij,ij->j", one, other), n)
    return total
