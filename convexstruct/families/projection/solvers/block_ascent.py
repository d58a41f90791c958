r"""Block coordinate ascent on the dual of the projection onto the local marginal polytope (paper 2, E.3, Algorithm 3).

With x_c = m_c + (the multipliers xi of c's agreements, on its entries) / d_c^2 and a_c = max(0, x_c - lambda_c), which
is (36) put into (33), the dual function (34) has two kinds of blocks of variables:

    lambda_c     the optimality condition (35a) is that a_c sums to z: a projection onto the simplex (appendix B)
    xi_cc'       (35b), (35c): in every cell of the shared variables the marginals of a_c and a_c' are equal.
                 With all else fixed the multiplier of each cell changes by its own delta, the root of

                     sum_i (delta - b_i)_+ / d_c^2 = sum_j (b_j - delta)_+ / d_c'^2,

                 over the entries i of c and j of c' in that cell, b_i = -(x_i - lambda_c) d_c^2 and
                 b_j = (x_j - lambda_c') d_c'^2: a rising piecewise linear function, whose root is found from the
                 breakpoints.

Every block is maximised exactly, so that D never falls. Agreements without a common clique do not depend on each other.
So agreements are coloured, and all of one colour, in all components, are one block; on chains the colours are the even
and the odd edges, (37)-(38).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Matrix, Tensor, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.projection.solvers.marginal_ascent import starting_multipliers
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Side
from convexstruct.oracles.polytope.feasible_tables import column
from convexstruct.oracles.polytope.local_polytope import evaluate, simplex_thresholds, unknown
from convexstruct.oracles.polytope.table_columns import Columns

#: Breakpoints that `balance` sorts at once: of so many it takes a tenth of a second.
BATCH_ENTRIES = 2**20


@dataclass(frozen=True)
class BlockAscent:
    """Sweeps over all agreements, and over all cliques after each colour.

    sweeps : sweeps in one round, between which the tables are made feasible and both bounds computed.
    """

    sweeps: int = 5

    def __post_init__(self) -> None:
        read_options(self, sweeps=at_least(1))

    def iterate(self, problem: MarginalProjection, start: Solution | None = None) -> Iterator[Iterate]:
        structure, weights = problem.structure, problem.weights
        xi = starting_multipliers(problem, start)
        multipliers = structure.split_multipliers(xi)  # views: adding to them changes xi
        blocks = colours(structure)
        lam = unknown(structure)
        x = [
            m + sum((shift / column(square, shift) for shift in shifts), np.zeros(m.shape))
            for m, square, shifts in zip(problem.groups, weights.square, structure.spread(multipliers))
        ]
        layout = Columns(structure)
        groups, zero = layout.tables(problem.groups), problem.primal({"a": np.zeros_like(problem.m)})
        done = 0
        while True:
            for _ in range(self.sweeps if blocks else 0):
                for number, pairs in blocks:
                    deadline.check()
                    lam = [_thresholds(table, scale, old) for table, scale, old in zip(x, weights.scale, lam)]
                    agreement = structure.agreements[number]
                    ends, parts = [], []
                    for side in (agreement.left, agreement.right):
                        rows = side.rows[pairs]
                        square = weights.square[side.group][rows]
                        excess = x[side.group][rows] - column(lam[side.group][rows], x[side.group])
                        ends.append(_cells(structure, side, excess) * square[:, None, None])
                        parts.append(1.0 / square)
                    delta = balance(-ends[0], ends[1], parts[0], parts[1]).reshape(-1, *agreement.cards)
                    multipliers[number][pairs] += delta
                    for side, sign, part in zip((agreement.left, agreement.right), (1.0, -1.0), parts):
                        change = sign * delta * column(part, delta)
                        x[side.group][side.rows[pairs]] += structure.broad((side.group, side.axes), change)
                done += 1
            a, value = evaluate(layout, groups, weights, layout.cells(multipliers), lam)
            point = problem.repair({"a": np.concatenate([table.ravel() for table in layout.rows(a)])})
            yield Iterate(
                point,
                {"xi": xi.copy()},
                problem.primal(point),
                zero + float(value.sum()),
                max(done, 1),
                done=not blocks,
            )


def colours(structure: CliqueTables) -> list[tuple[int, Index]]:
    """(agreement, some of its pairs): blocks in which no clique occurs twice, and which together hold every pair.

    Each pair has the first colour that neither of its cliques has; the colours of a clique are the bits of a number."""
    blocks = []
    for number, each in enumerate(structure.agreements):
        deadline.check()
        left, right = each.left.rows.tolist(), each.right.rows.tolist()
        of_left = [0] * (max(left, default=0) + 1)
        of_right = [0] * (max(right, default=0) + 1)
        if each.left.group == each.right.group:
            of_left = of_right = max(of_left, of_right, key=len)
        colour = np.zeros(len(left), dtype=np.intp)
        for k, (u, v) in enumerate(zip(left, right)):
            used = of_left[u] | of_right[v]
            free = ~used & (used + 1)
            colour[k] = free.bit_length()
            of_left[u] |= free
            of_right[v] |= free
        blocks += [(number, np.flatnonzero(colour == c)) for c in np.unique(colour).tolist()]
    return blocks


def balance(left: Tensor, right: Tensor, left_slope: Vector, right_slope: Vector) -> Matrix:
    """The root delta of left_slope sum_i (delta - left_i)_+ = right_slope sum_j (right_j - delta)_+ in each cell.

    left (K, cells, p), right (K, cells, q): breakpoints. left_slope, right_slope (K,), positive. Where both sums are 0
    on an interval, its point nearest to 0 is taken. Between batches of the K the deadline is asked.
    """
    given, found = (left, right, left_slope, right_slope), np.empty(left.shape[:2])
    step = max(BATCH_ENTRIES // max(prod(left.shape[1:]) + prod(right.shape[1:]), 1), 1)
    for low in range(0, len(left), step):
        deadline.check()
        found[low : low + step] = _balanced(*(each[low : low + step] for each in given))
    return found


def _balanced(left: Tensor, right: Tensor, left_slope: Vector, right_slope: Vector) -> Matrix:
    """`balance` of one batch."""
    rise, fall = left_slope[:, None, None], right_slope[:, None, None]
    at = np.concatenate((left, right), axis=2)
    order = np.argsort(at, axis=2)
    at = np.take_along_axis(at, order, axis=2)
    bends = np.concatenate((np.broadcast_to(rise, left.shape), np.broadcast_to(-fall, right.shape)), axis=2)
    slopes = right.shape[2] * fall + np.cumsum(np.take_along_axis(bends, order, axis=2), axis=2)
    first = -fall[:, :, 0] * (right - at[:, :, :1]).sum(axis=2)  # at the smallest breakpoint no left part is active
    values = first[:, :, None] + np.cumsum(
        np.concatenate((np.zeros_like(at[:, :, :1]), slopes[:, :, :-1] * np.diff(at, axis=2)), axis=2), axis=2
    )
    last = np.maximum(np.count_nonzero(values <= 0, axis=2) - 1, 0)[:, :, None]
    start, value, slope = (np.take_along_axis(some, last, axis=2)[:, :, 0] for some in (at, values, slopes))
    lowest, highest = right.max(axis=2), left.min(axis=2)  # between these both sums are 0
    root = start - np.where(slope > 0, value / np.where(slope > 0, slope, 1.0), 0.0)
    return np.where(lowest <= highest, np.clip(0.0, lowest, highest), root)


def _thresholds(table: Tensor, scale: Vector, start: Vector) -> Vector:
    return simplex_thresholds(np.ascontiguousarray(table.reshape(len(table), prod(table.shape[1:])).T), scale, start)[0]


def _cells(structure: CliqueTables, side: Side, tables: Tensor) -> Tensor:
    """Tables (K, labels ...) as (K, cells of the shared variables, the rest)."""
    rest = [axis for axis in range(tables.ndim - 1) if axis not in side.axes]
    cells = prod(structure.kept((side.group, side.axes)))
    ordered = tables.transpose(0, *(1 + axis for axis in (*side.axes, *rest)))
    return ordered.reshape(len(tables), cells, prod(tables.shape[1:]) // cells)
