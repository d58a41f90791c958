"""The entries of junction trees' clique tables, which the marginal polytopes have as variables.

Tables stand clique after clique, root first, each in C order of the axes that
`convexstruct.junction_trees.JunctionTree.cliques` lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Index, Labels
from convexstruct.graphs import starts
from convexstruct.junction_trees import JunctionTree
from convexstruct.marginals.triplets import Triplets


@dataclass(frozen=True, eq=False)
class Columns:
    """What each variable of a polytope of marginals stands for.

    example (n,) : its example, non-decreasing. step (n,) : its edge or clique, counted from 0 within the example,
        parents first.
    position (n, w), label (n, w) : it is the probability that these variables (places in a flat labelling) have these
        labels; where an edge or clique has fewer than w variables, one is repeated.
    """

    example: Index
    step: Index
    position: Index
    label: Labels


class Layout(NamedTuple):
    """Where the tables of N examples stand, root first, one example after the other.

    start (N,) : the first variable of each. row (N,) : its first agreement. n_rows : the number of all agreements.
    """

    start: Index
    row: Index
    n_rows: int
    columns: Columns


@dataclass(frozen=True, eq=False)
class TreeTables:
    """Where the tables of one junction tree stand, and what its entries are of."""

    tree: JunctionTree

    @cached_property
    def start(self) -> Index:
        """The first entry of each clique's table, and the number of all entries at the end."""
        return starts([rows * columns for rows, columns in self.tree.shapes])

    @cached_property
    def labels(self) -> list[dict[int, Index]]:
        """For each clique the label of each of its variables at every entry of its table."""
        found = []
        for clique in self.tree.cliques:
            grid = np.indices([self.tree.cards[v] for v in clique]).reshape(len(clique), -1)
            found.append(dict(zip(clique, grid.astype(np.intp))))
        return found

    @property
    def n_agreements(self) -> int:
        """How many equations say that cliques agree with their parents."""
        return sum(rows for rows, _ in self.tree.shapes[1:])

    def entries(self, clique: int) -> Index:
        """The entries of a clique's table."""
        return np.arange(self.start[clique], self.start[clique + 1])

    def joint(self, clique: int, scope: tuple[int, ...]) -> Index:
        """The joint label of ``scope`` at each entry of a clique's table; C order."""
        at = np.zeros(int(self.start[clique + 1] - self.start[clique]), dtype=np.intp)
        for v in scope:
            at = at * self.tree.cards[v] + self.labels[clique][v]
        return at

    def agree(self, equations: Triplets, rows: Index, columns: Index) -> None:
        """For each clique but the root, and each labelling of its separator: the clique's sum less its parent's, into
        ``equations``, for examples whose first equations and first entries are rows and columns (examples,)."""
        below = rows[:, None]
        for c in range(1, self.tree.n_cliques):
            for clique, sign in ((c, 1.0), (self.tree.parent[c], -1.0)):
                at = self.joint(clique, self.tree.separators[c])
                equations.add(below + at, columns[:, None] + self.entries(clique), sign)
            below = below + self.tree.shapes[c][0]


def laid_out(batches: Sequence[tuple[JunctionTree, Index, Index]], n_examples: int) -> Layout:
    """batches : for each junction tree the examples (m,) that share it, and the places of their variables in a flat
    labelling (m, variables)."""
    entries, rows = np.zeros((2, n_examples), dtype=np.intp)
    for tree, examples, _ in batches:
        entries[examples], rows[examples] = tree.n_entries, TreeTables(tree).n_agreements
    wide = max(tree.width for tree, _, _ in batches) + 1
    start, n = np.cumsum(entries) - entries, int(entries.sum())
    step, (position, label) = np.empty(n, dtype=np.intp), np.empty((2, n, wide), dtype=np.intp)
    for tree, examples, places in batches:
        tables = TreeTables(tree)
        for c, clique in enumerate(tree.cliques):
            axes, place = clique + clique[:1] * (wide - len(clique)), start[examples][:, None] + tables.entries(c)
            step[place] = c
            position[place] = places[:, list(axes)][:, None, :]
            label[place] = np.stack([tables.labels[c][v] for v in axes], axis=1)
    columns = Columns(np.repeat(np.arange(n_examples), entries), step, position, label)
    return Layout(start, np.cumsum(rows) - rows, int(rows.sum()), columns)
