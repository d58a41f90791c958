"""Score tables on any graph with pairwise terms, and the upper bound on scores that any messages give.

    score(y) = sum over nodes v of node[v, y_v]  +  sum over edges e = (u, v) of edge_e(y_u, y_v)

Graphs with cycles may have no narrow junction tree; `minimum_cut` and `linear_relaxation` take this description
instead. It can hold several graphs as *parts* that no edge joins; scores and bounds are then one number for each part.
Messages m_e,u (one number for each label of each end of each edge) move score between edges and nodes and leave the
score of every labelling unchanged, so that for any messages

    max over y of score(y) <= sum_v max_s [node[v, s] + sum_{e at v} m_e,v(s)]
                              + sum_e max_{s,t} [edge_e(s, t) - m_e,u(s) - m_e,v(t)].

The least such bound is the optimum over the local polytope, by linear programming duality.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Matrix, Tensor, Vector
from convexstruct.oracles.blocks import row_max


@dataclass(frozen=True, eq=False)
class Pairwise:
    """Scores of the labellings of P nodes that take S labels each, joined by Q edges; made by `pairwise`.

    Attributes
    ----------
    node : (P, S) scores of each label of each node.
    edges : (Q, 2) the nodes (u, v) of each edge.
    edge : (Q, S, S) scores of the labels of each edge's ends.
    part : (P,) the part, 0 .. n_parts - 1, that each node belongs to.
    n_parts : N, the number of parts.
    """

    node: Matrix
    edges: Index
    edge: Tensor
    part: Index
    n_parts: int

    @property
    def n_nodes(self) -> int:
        return len(self.node)

    @property
    def n_edges(self) -> int:
        return len(self.edges)

    @property
    def n_labels(self) -> int:
        return int(self.node.shape[1])

    @cached_property
    def edge_part(self) -> Index:
        """The part of each edge; shape (Q,)."""
        return np.asarray(self.part[self.edges[:, 0]])

    def by_part(self, of_nodes: Vector, of_edges: Vector) -> Vector:
        """Sums over the nodes (P,) and edges (Q,) of each part; shape (N,)."""
        nodes = np.bincount(self.part, weights=of_nodes, minlength=self.n_parts)
        return np.asarray(nodes + np.bincount(self.edge_part, weights=of_edges, minlength=self.n_parts))

    def score(self, labels: Labels) -> Vector:
        """The score of the labelling (P,), for each part; shape (N,)."""
        u, v = labels[self.edges[:, 0]], labels[self.edges[:, 1]]
        return self.by_part(self.node[np.arange(self.n_nodes), labels], self.edge[np.arange(self.n_edges), u, v])

    def upper(self, messages: Tensor | None = None) -> Vector:
        """The upper bound that ``messages`` (Q, 2, S), zero by default, give: valid up to the rounding of sums; shape
        (N,).

        messages[e, 0] is m_e,u and messages[e, 1] is m_e,v.
        """
        if messages is None:
            messages = np.zeros((self.n_edges, 2, self.n_labels))
        moved = self.node.copy()
        for end in range(2):
            ends = self.edges[:, end]
            for s in range(self.n_labels):
                moved[:, s] += np.bincount(ends, weights=messages[:, end, s], minlength=self.n_nodes)
        left = self.edge - messages[:, 0, :, None] - messages[:, 1, None]
        return self.by_part(row_max(moved), row_max(left.reshape(self.n_edges, self.n_labels**2)))

    def moved(self, messages: Tensor) -> Vector:
        """2 sum over edges of max_s |m_e,u(s)| + max_s |m_e,v(s)|: together with the sizes of the tables this bounds
        the rounding of `upper`; shape (N,)."""
        sizes = 2.0 * (row_max(np.abs(messages[:, 0])) + row_max(np.abs(messages[:, 1])))
        return np.asarray(np.bincount(self.edge_part, weights=sizes, minlength=self.n_parts), dtype=np.float64)


def pairwise(node: ArrayLike, edges: ArrayLike, edge: ArrayLike, part: ArrayLike | None = None) -> Pairwise:
    """A `Pairwise` of these scores; ``edge`` (S, S) is a table that all edges share, and ``part`` all 0 by default.
    ValueError if a score is not finite."""
    scores, table = np.asarray(node, dtype=np.float64), np.asarray(edge, dtype=np.float64)
    for name, array in (("node", scores), ("edge", table)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} contains NaN or infinity, wanted finite numbers")
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    parts = np.zeros(len(scores), dtype=np.intp) if part is None else np.asarray(part, dtype=np.intp)
    tables = np.broadcast_to(table, (len(pairs), *table.shape[-2:]))
    return Pairwise(scores, pairs, tables, parts, int(parts.max()) + 1)
