"""Clique tables laid out for speed: cliques along the last axis, entries of a table along the first.

A group of n cliques is one array (labels of the first variable, .., n), and an agreement's values are (cells, K), so
that every operation runs over long rows, however small a table is. Apart from the order of axes, all names mean the
same as in `convexstruct.oracles.polytope.clique_tables`.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Index, Matrix, Tensor
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Port, Side, Tables


class End(NamedTuple):
    """One side of an agreement: the number of its port, and the columns of its cliques (a slice where these are
    consecutive)."""

    port: int
    columns: Index | slice


class Columns:
    """The column layout of one structure: conversions from and to rows, marginals and their adjoint."""

    def __init__(self, structure: CliqueTables) -> None:
        self.structure = structure
        self.ports = structure.ports
        self.ends = [(self._end(each.left), self._end(each.right)) for each in structure.agreements]

    def _end(self, side: Side) -> End:
        rows = side.rows
        follow = len(rows) > 0 and bool((np.diff(rows) == 1).all())
        columns = slice(int(rows[0]), int(rows[0]) + len(rows)) if follow else rows
        return End(self.ports.index((side.group, side.axes)), columns)

    @cached_property
    def repeated(self) -> list[tuple[bool, bool]]:
        """Whether a clique occurs more than once on either side of each agreement."""
        return [
            (not (np.diff(each.left.rows) > 0).all(), not (np.diff(each.right.rows) > 0).all())
            for each in self.structure.agreements
        ]

    # -- from rows and back --------------------------------------------------------------------------------------------

    def tables(self, rows: Tables) -> Tables:
        """The columns (labels ..., n) of tables given as rows (n, labels ...)."""
        return [np.ascontiguousarray(np.moveaxis(table, 0, -1), dtype=np.float64) for table in rows]

    def rows(self, columns: Tables) -> Tables:
        """The rows (n, labels ...) of tables given as columns (labels ..., n)."""
        return [np.ascontiguousarray(np.moveaxis(table, -1, 0)) for table in columns]

    def cells(self, multipliers: Tables) -> Tables:
        """Each agreement's values as (cells, K), from (K, labels ...)."""
        return [np.ascontiguousarray(each.reshape(len(each), prod(each.shape[1:])).T) for each in multipliers]

    def multipliers(self, cells: Tables) -> Tables:
        """Each agreement's values as (K, labels ...), from (cells, K)."""
        return [each.T.reshape(-1, *of.cards) for each, of in zip(cells, self.structure.agreements)]

    # -- marginals and their adjoint -----------------------------------------------------------------------------------

    def marginal(self, table: Tensor, port: Port) -> Matrix:
        """The marginals of a whole group at a port; (cells, n)."""
        group, axes = port
        gone = tuple(axis for axis in range(len(self.structure.cards[group])) if axis not in axes)
        n = table.shape[-1]
        kept = table.sum(axis=gone)
        order = np.argsort(np.argsort(axes))
        return np.asarray(kept.transpose(*order, len(axes)).reshape(prod(self.structure.kept(port)), n))

    def disagreement(self, tables: Tables) -> Tables:
        """left marginal - right marginal of each agreement; (cells, K)."""
        known = [self.marginal(tables[port[0]], port) for port in self.ports]
        return [known[left.port][:, left.columns] - known[right.port][:, right.columns] for left, right in self.ends]

    def spread(self, cells: Tables) -> list[list[Tensor]]:
        """For each group the arrays that the multipliers add to its tables, which broadcast to their shape."""
        structure = self.structure
        at = [np.zeros((prod(structure.kept(port)), len(structure.component[port[0]]))) for port in self.ports]
        for (left, right), repeated, values in zip(self.ends, self.repeated, cells):
            for end, often, sign in ((left, repeated[0], 1.0), (right, repeated[1], -1.0)):
                if often and not isinstance(end.columns, slice):
                    np.add.at(at[end.port].T, end.columns, sign * values.T)
                elif sign > 0:
                    at[end.port][:, end.columns] += values
                else:
                    at[end.port][:, end.columns] -= values
        shifts: list[list[Tensor]] = [[] for _ in structure.cards]
        for (group, axes), values in zip(self.ports, at):
            rising = values.reshape(*structure.kept((group, axes)), -1).transpose(*np.argsort(axes), len(axes))
            gone = tuple(axis for axis in range(len(structure.cards[group])) if axis not in axes)
            shifts[group].append(np.expand_dims(rising, gone))
        return shifts
