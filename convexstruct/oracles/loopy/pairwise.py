"""Score tables on any graph with pairwise terms, and the upper bound on scores that any messages give.

    score(y) = sum over nodes v of node[v, y_v]  +  sum over edges e = (u, v) of edge_e(y_u, y_v)

Graphs with cycles may have no narrow junction tree; `minimum_cut` and `linear_relaxation` take this description instead. It can hold several graphs as *parts* that no edge joins; scores and bounds are then one number for
each part. Messages m_e,u (one number for each label of each end of each edge) move score between edges and nodes and
leave the score of every labelling unchanged, so that for any messages

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

#: Up to this many labels a loop over the labels, each with one long array, is faster in NumPy than one operation on an
#: array of short rows.
LOOPED_LABELS = 4


@dataclass(frozen=True, eq=False)
class Pairwise:
    """Scores of the labellings of P nodes that take S labels each, joined by Q edges; made by `pairwise`.

    Attributes
    ----------
    node : (P, S) scores of each label of each node.
    edges : (Q, 2) the nodes (u, v) of each edge.
    edge : scores of the edges' labels: (Q, S, S), (S, S) where all edges share one table, or (Q,) Potts weights: the
        score where both ends agree, beside 0 where they do not.
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

    @property
    def potts(self) -> bool:
        """Whether ``edge`` holds weights of agreement."""
        return self.edge.ndim == 1

    @cached_property
    def edge_part(self) -> Index:
        """The part of each edge; shape (Q,)."""
        return np.asarray(self.part[self.edges[:, 0]])

    @cached_property
    def tables(self) -> Tensor:
        """The table of each edge; shape (Q, S, S), a view where they share one."""
        if self.potts:
            return self.edge[:, None, None] * np.eye(self.n_labels)
        return np.broadcast_to(self.edge, (self.n_edges, self.n_labels, self.n_labels))

    def at(self, u: Labels | int, v: Labels | int) -> Vector:
        """The score of each edge where its first end is labelled ``u`` and its second ``v``; each (Q,) or one label."""
        if self.potts:
            return np.asarray(self.edge * np.equal(u, v))
        if self.edge.ndim == 2:
            return np.broadcast_to(self.edge[u, v], (self.n_edges,))
        return np.asarray(self.edge[np.arange(self.n_edges), u, v])

    def by_part(self, of_nodes: Vector, of_edges: Vector) -> Vector:
        """Sums over the nodes (P,) and edges (Q,) of each part; shape (N,)."""
        nodes = np.bincount(self.part, weights=of_nodes, minlength=self.n_parts)
        return np.asarray(nodes + np.bincount(self.edge_part, weights=of_edges, minlength=self.n_parts))

    def score(self, labels: Labels) -> Vector:
        """The score of the labelling (P,), for each part; shape (N,)."""
        u, v = labels[self.edges[:, 0]], labels[self.edges[:, 1]]
        return self.by_part(self.node[np.arange(self.n_nodes), labels], self.at(u, v))

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
        first, second = messages[:, 0], messages[:, 1]
        if self.n_labels <= LOOPED_LABELS:
            of_edges = np.full(self.n_edges, -np.inf)
            for s in range(self.n_labels):
                for t in range(self.n_labels):
                    np.maximum(of_edges, self.at(s, t) - first[:, s] - second[:, t], out=of_edges)
        elif self.potts:  # over pairs that agree, and over pairs that do not
            of_edges = np.maximum(self.edge + (-first - second).max(axis=1), _best_unequal(-first, -second))
        else:
            of_edges = (self.tables - first[:, :, None] - second[:, None, :]).max(axis=(1, 2))
        return self.by_part(row_max(moved), of_edges)

    def moved(self, messages: Tensor) -> Vector:
        """2 sum over edges of max_s |m_e,u(s)| + max_s |m_e,v(s)|: together with the sizes of the tables this bounds
        the rounding of `upper`; shape (N,)."""
        sizes = 2.0 * (row_max(np.abs(messages[:, 0])) + row_max(np.abs(messages[:, 1])))
        return np.asarray(np.bincount(self.edge_part, weights=sizes, minlength=self.n_parts), dtype=np.float64)


def _best_unequal(left: Matrix, right: Matrix) -> Vector:
    """max over s != t of left[e, s] + right[e, t]; at least two labels."""
    rows = np.arange(len(left))
    s, t = left.argmax(axis=1), right.argmax(axis=1)
    without_s, without_t = left.copy(), right.copy()
    without_s[rows, t] = -np.inf
    without_t[rows, s] = -np.inf
    return np.asarray(np.maximum(left[rows, s] + without_t.max(axis=1), without_s.max(axis=1) + right[rows, t]))


def pairwise(node: ArrayLike, edges: ArrayLike, edge: ArrayLike, part: ArrayLike | None = None) -> Pairwise:
    """A `Pairwise` of these scores. ``part`` is all 0 by default. ValueError if a score is not finite."""
    scores, table = np.asarray(node, dtype=np.float64), np.asarray(edge, dtype=np.float64)
    for name, array in (("node", scores), ("edge", table)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} contains NaN or infinity, wanted finite numbers")
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    parts = np.zeros(len(scores), dtype=np.intp) if part is None else np.asarray(part, dtype=np.intp)
    return Pairwise(scores, pairs, table, parts, int(parts.max()) + 1)
