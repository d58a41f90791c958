"""The tables whose marginals agree, of labelled graphs of any kind, as `convexstruct.oracles.polytope` projects them.

On forests, and for the local polytope of any graph: a table for each node and for each edge, which agrees with its two
nodes. Else a table for each clique of the examples' junction trees, which agrees with its parent on what they share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Index, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import tree_inference
from convexstruct.marginals.pairwise_polytope import CliquePolytope, clique_polytope
from convexstruct.oracles.polytope.clique_tables import Agreement, CliqueTables, Side, Tables


@dataclass(frozen=True, eq=False)
class PairwiseTables:
    """The tables of all examples.

    structure : the tables in groups; by node and edge the group of nodes (P, S) and that of edges (Q, S, S).
    polytope : the same tables as variables z of a convex program; None by node and edge. order : the entry of z at each
        entry of the groups, one after the other.
    """

    features: PairwiseFeatures
    structure: CliqueTables
    polytope: CliquePolytope | None = None
    order: Index | None = None

    def scores(self, node: Matrix, edge: Tensor) -> Tables:
        """Tables whose product with any that agree is the expected score, from the scores of nodes (P, S) and of edges
        (S, S) or (Q, S, S): the adjoint of `marginals`."""
        edge = np.broadcast_to(edge, (self.features.n_edges, *node.shape[1:], *node.shape[1:]))
        if self.polytope is None:
            return [node, edge]
        each = self.polytope.node.T @ node.ravel() + self.polytope.edge.T @ edge.ravel()
        return self.structure.split(np.asarray(each)[self.order])

    def marginals(self, tables: Tables) -> tuple[Matrix, Tensor]:
        """The tables of nodes (P, S) and of edges (Q, S, S)."""
        if self.polytope is None:
            return tables[0], tables[1]
        z, size = self.flat(tables), self.features.n_labels
        return (self.polytope.node @ z).reshape(-1, size), (self.polytope.edge @ z).reshape(-1, size, size)

    def flat(self, tables: Tables) -> Vector:
        """z, in the order of the polytope's variables."""
        z = np.empty(self.structure.n_entries)
        z[self.order] = np.concatenate([table.ravel() for table in tables])
        return z


def node_and_edge_tables(features: PairwiseFeatures) -> PairwiseTables:
    """The tables of nodes and edges: exact on forests, the local polytope on other graphs."""
    s, every, of = features.n_labels, np.arange(features.n_edges), features.edge_example
    ends = tuple(
        Agreement(Side(1, (axis,), every), Side(0, (0,), features.edges[:, axis]), (s,), of) for axis in (0, 1)
    )
    return PairwiseTables(features, CliqueTables(((s,), (s, s)), (features.example, of), ends, features.n_examples))


def clique_tables(features: PairwiseFeatures) -> PairwiseTables:
    """The tables of the junction trees' cliques, grouped by the number of their nodes: exact on all graphs. ValueError
    if a table would be too large for `clique_polytope`."""
    polytope, s = clique_polytope(features), features.n_labels
    first = np.searchsorted(polytope.columns.example, np.arange(features.n_examples))
    found: list[tuple[int, int, int, int]] = []  # example, clique, its number of nodes, its first entry of z
    pairs: list[tuple[int, int, int, tuple[int, ...], tuple[int, ...]]] = []  # example, child, parent, their axes
    for batch in tree_inference(features).batches:
        tree = batch.tree
        begins = np.cumsum([0, *(s ** len(clique) for clique in tree.cliques)])
        for i in batch.examples.tolist():
            found += [(i, c, len(clique), int(first[i] + begins[c])) for c, clique in enumerate(tree.cliques)]
            for c in range(1, tree.n_cliques):
                up, shared = tree.parent[c], tree.separators[c]
                if shared:  # else the graph is in several parts, and both tables have the same sum anyway
                    axes = [tuple(tree.cliques[of].index(v) for v in shared) for of in (c, up)]
                    pairs.append((i, c, up, axes[0], axes[1]))
    found.sort()
    sizes = sorted({size for _, _, size, _ in found})
    rows: dict[tuple[int, int], tuple[int, int]] = {}  # example, clique: its group, and its row there
    groups: list[list[tuple[int, int]]] = [[] for _ in sizes]  # for each row of a group its example, its first entry
    for i, c, size, begin in found:
        group = groups[sizes.index(size)]
        rows[i, c] = sizes.index(size), len(group)
        group.append((i, begin))
    agreements: dict[tuple[int, tuple[int, ...], int, tuple[int, ...]], list[tuple[int, int, int]]] = {}
    for i, c, up, own, above in sorted(pairs):
        (g, row), (h, other) = rows[i, c], rows[i, up]
        agreements.setdefault((g, own, h, above), []).append((row, other, i))
    tied = []
    for (g, own, h, above), each in agreements.items():
        left, right, component = _columns(each)
        tied.append(Agreement(Side(g, own, left), Side(h, above, right), (s,) * len(own), component))
    cards = tuple((s,) * size for size in sizes)
    columns = [_columns(group) for group in groups]
    order = [(begin[:, None] + np.arange(s**size)).ravel() for size, (_, begin) in zip(sizes, columns)]
    structure = CliqueTables(cards, tuple(of for of, _ in columns), tuple(tied), features.n_examples)
    return PairwiseTables(features, structure, polytope, np.concatenate(order))


def _columns(rows: Iterable[tuple[int, ...]]) -> tuple[Index, ...]:
    return tuple(np.array(rows, dtype=np.intp).T)
