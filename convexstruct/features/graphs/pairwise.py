r"""Joint features of labelled graphs: node features by label, edge features by pair of labels.

Example i has a graph with nodes v and edges (u, v); every node takes one of S labels. With node features x_v (F,) and
edge features z_e (E,),

    <w, f(x_i, y)> = sum_v <w_node[y_v], x_v> + sum_{e = (u, v)} sum_k z_ek w_edge[k, y_u, y_v]

and w = (w_node (S, F), w_edge (E, S, S)) stacked in C order. Without edge features every edge has z_e = 1: one
transition table for all (E = 1). In an *associative* network (Taskar, Chatalbashev, Koller 2004) an edge adds a score
only where its two ends have the same label, with z_e >= 0 and w_edge >= 0 of shape (E, S):

    ... + sum_e sum_k z_ek w_edge[k, y_u] [y_u = y_v].

Nodes of all examples stand one after the other ("flat"): example i owns the flat nodes from node_start[i] to
node_start[i + 1], and edges name flat nodes. A labelling of all examples is one array (P,).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Flags, Index, Labels, Matrix, Tensor, Vector
from convexstruct.graphs import chain_pairs, node_pairs, ranges, starts
from convexstruct.validation.arguments import choice, flag, refuse, sentence, sequence, sized, whole
from convexstruct.validation.arrays import NOT_KNOWN, chosen, frozen, real, wholes
from convexstruct.validation.sparse import matrix

#: (P, F): an array, or a sparse matrix in CSR format.
NodeFeatures = Any


@dataclass(frozen=True, eq=False)
class PairwiseFeatures:
    """The joint feature map of N labelled graphs; made by `read_pairwise`.

    Attributes
    ----------
    node_features : (P, F), array or CSR.
    truth : (P,) the true labels.
    n_labels : S.
    node_start : (N + 1,) flat node at which each example begins.
    edges : (Q, 2) flat nodes (u, v) of each edge, example after example.
    edge_features : (Q, E), or None where all edges share one table.
    associative : whether an edge adds a score, with a weight >= 0, only where its two ends have the same label.
    """

    node_features: NodeFeatures
    truth: Labels
    n_labels: int
    node_start: Index
    edges: Index
    edge_features: Matrix | None = None
    associative: bool = False

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @property
    def n_examples(self) -> int:
        return len(self.node_start) - 1

    @property
    def n_nodes(self) -> int:
        """P, the length of a labelling."""
        return len(self.truth)

    @property
    def n_edges(self) -> int:
        return len(self.edges)

    @property
    def n_node_features(self) -> int:
        return int(self.node_features.shape[1])

    @property
    def n_edge_features(self) -> int:
        """E; 0 if no example has an edge."""
        if self.edge_features is not None:
            return int(self.edge_features.shape[1])
        return 1 if self.n_edges else 0

    @property
    def shared(self) -> bool:
        """Whether all edges share one table of scores."""
        return self.edge_features is None

    @cached_property
    def edge_shape(self) -> tuple[int, ...]:
        """Shape of w_edge."""
        each = (self.n_labels,) if self.associative else (self.n_labels, self.n_labels)
        return (self.n_edge_features, *each)

    @cached_property
    def n_node_weights(self) -> int:
        return self.n_labels * self.n_node_features

    @property
    def dimension(self) -> int:
        """d, the length of w."""
        return self.n_node_weights + int(np.prod(self.edge_shape))

    @cached_property
    def example(self) -> Index:
        """The example of each node; shape (P,)."""
        return np.repeat(np.arange(self.n_examples), np.diff(self.node_start)).astype(np.intp)

    @cached_property
    def edge_example(self) -> Index:
        """The example of each edge; shape (Q,)."""
        return np.asarray(self.example[self.edges[:, 0]])

    @cached_property
    def edge_start(self) -> Index:
        """Edge at which each example begins; shape (N + 1,)."""
        return np.searchsorted(self.edge_example, np.arange(self.n_examples + 1))

    @property
    def lengths(self) -> Index:
        """Nodes of each example; shape (N,)."""
        return np.diff(self.node_start).astype(np.intp)

    @cached_property
    def nonnegative(self) -> Flags:
        """Entries of w that must be >= 0 (the edge weights of an associative network); shape (d,)."""
        entries = np.zeros(self.dimension, dtype=bool)
        entries[self.n_node_weights :] = self.associative
        return entries

    @cached_property
    def is_chain(self) -> bool:
        """Whether every example is a chain whose nodes stand in order."""
        return bool(np.array_equal(self.edges, chain_pairs(self.node_start)))

    @property
    def sample(self) -> PairwiseFeatures:
        """Features by which the sizes of all are judged: these; of examples in files, those of a few."""
        return self

    @property
    def largest(self) -> Vector:
        """The largest size of the feature of each weight, over all nodes or edges; (d,)."""
        node = abs(sp.csr_array(self.node_features)).max(axis=0).toarray().ravel()
        edge = np.ones(1) if self.edge_features is None else np.abs(self.edge_features).max(axis=0, initial=0.0)
        block = (self.dimension - self.n_node_weights) // max(self.n_edge_features, 1)
        return np.concatenate((np.tile(node, self.n_labels), np.repeat(edge[: self.n_edge_features], block)))

    # -- scores and their adjoint --------------------------------------------------------------------------------------

    def split(self, w: Vector) -> tuple[Matrix, Tensor]:
        """Views (w_node (S, F), w_edge (E, S, S) or (E, S))."""
        at = self.n_node_weights
        return w[:at].reshape(self.n_labels, -1), w[at:].reshape(self.edge_shape)

    def node_scores(self, w: Vector) -> Matrix:
        """<w_node[s], x_v> for each node and label; shape (P, S)."""
        return np.asarray(self.node_features @ self.split(w)[0].T)

    def edge_scores(self, w: Vector) -> Tensor:
        """Scores of label pairs: (S, S) where all edges share one table, else (Q, S, S)."""
        table = self.split(w)[1]
        if self.associative:
            table = table[:, :, None] * np.eye(self.n_labels)
        if self.shared:
            return np.asarray(table.sum(axis=0))
        assert self.edge_features is not None
        return np.tensordot(self.edge_features, table, axes=1)

    def adjoint(self, node: Matrix, edge: Tensor) -> Vector:
        """sum_i E f(x_i, y) from node marginals (P, S) and edge marginals, both already weighted; shape (d,).

        ``edge`` is (Q, S, S), or (S, S) summed over the edges where they share a table.
        """
        first = self.node_features.T @ node  # (F, S)
        if self.shared:
            summed = edge if edge.ndim == 2 else edge.sum(axis=0)
            second = summed[None][: self.n_edge_features]
        else:
            assert self.edge_features is not None
            second = np.tensordot(self.edge_features.T, edge, axes=1)
        if self.associative:
            second = np.diagonal(second, axis1=1, axis2=2)
        return np.concatenate((np.asarray(first).T.ravel(), second.ravel()))

    def joint(self, labels: Labels, share: Vector | None = None) -> Vector:
        """sum_i share_i f(x_i, y_i) of a labelling (P,); share (N,), 1 by default; shape (d,)."""
        node = np.zeros((self.n_nodes, self.n_labels))
        node[np.arange(self.n_nodes), labels] = 1.0 if share is None else share[self.example]
        return self.adjoint(node, self._edge_indicators(labels, share))

    def score(self, node: Matrix, edge: Tensor, labels: Labels) -> Vector:
        """The score of a labelling (P,) of all examples from score tables; shape (N,)."""
        each = node[np.arange(self.n_nodes), labels]
        total = np.bincount(self.example, weights=each, minlength=self.n_examples)
        if self.n_edges:
            u, v = labels[self.edges[:, 0]], labels[self.edges[:, 1]]
            of_edges = edge[u, v] if edge.ndim == 2 else edge[np.arange(self.n_edges), u, v]
            total = total + np.bincount(self.edge_example, weights=of_edges, minlength=self.n_examples)
        return np.asarray(total, dtype=np.float64)

    def _edge_indicators(self, labels: Labels, share: Vector | None) -> Tensor:
        first, second = labels[self.edges[:, 0]], labels[self.edges[:, 1]]
        each = np.ones(self.n_edges) if share is None else share[self.edge_example]
        size = self.n_labels
        if self.shared:
            counts = np.bincount(first * size + second, weights=each, minlength=size * size)
            return counts.reshape(size, size).astype(np.float64)
        edge = np.zeros((self.n_edges, size, size))
        edge[np.arange(self.n_edges), first, second] = each
        return edge

    def joint_each(self, labels: Labels, examples: Index | None = None) -> sp.csr_array:
        """f(x_i, y) of each example; sparse (N, d).

        With ``examples`` (m,), ``labels`` are those of these examples alone, one example after the other, and the rows
        (m, d) are theirs; an example may come several times.
        """
        rows = self.joint_rows(labels, examples)
        return rows if sp.issparse(rows) else sp.csr_array(rows)

    def joint_rows(self, labels: Labels, examples: Index | None = None) -> Matrix | sp.csr_array:
        """`joint_each`, as an array where that has no more cells than there are numbers to be added up in them: several
        times faster than to sort these by row and column."""
        wanted = np.arange(self.n_examples) if examples is None else examples
        node, begin = ranges(self.node_start, wanted)
        row = np.repeat(np.arange(len(wanted)), np.diff(begin))
        chosen = self.node_features[node]
        width = self.n_node_features
        if sp.issparse(chosen):
            part = chosen.tocoo()
            at, column, value = part.coords[0], part.coords[1], part.data
            rows, columns, values = row[at], labels[at] * width + column, value
        else:
            rows = np.repeat(row, width)
            columns = (labels[:, None] * width + np.arange(width)).ravel()
            values = np.asarray(chosen).ravel()
        of_edges, (row, place) = self._edge_entries(labels, wanted)
        rows, columns = np.concatenate((rows, row)), np.concatenate((columns, self.n_node_weights + place))
        values, shape = np.concatenate((values, of_edges)), (len(wanted), self.dimension)
        if shape[0] * shape[1] > len(values):
            return sp.csr_array((values, (rows, columns)), shape=shape)
        return np.bincount(rows * shape[1] + columns, values, shape[0] * shape[1]).reshape(shape)

    def edges_each(self, labels: Labels, wanted: Index) -> sp.csr_array:
        """The part of `joint_each` that belongs to w_edge, of the examples ``wanted`` (m,); sparse (m, d_edge)."""
        shape = len(wanted), self.dimension - self.n_node_weights
        return sp.csr_array(self._edge_entries(labels, wanted), shape=shape)

    def _edge_entries(self, labels: Labels, wanted: Index) -> tuple[Vector, tuple[Index, Index]]:
        """The entries of `edges_each`, whose sum is meant where one comes several times, and their (rows, columns)."""
        size, begin = self.n_labels, starts(self.lengths[wanted])
        edge, start = ranges(self.edge_start, wanted)
        row = np.repeat(np.arange(len(wanted)), np.diff(start))
        shift = begin[:-1][row] - self.node_start[wanted][row]
        u, v = labels[self.edges[edge, 0] + shift], labels[self.edges[edge, 1] + shift]
        if self.associative:
            kept = u == v
            edge, row, place = edge[kept], row[kept], u[kept]
            block = size
        else:
            place, block = u * size + v, size * size
        n = self.n_edge_features
        weights = np.ones((len(edge), 1)) if self.edge_features is None else self.edge_features[edge]
        columns = np.arange(n) * block + place[:, None]
        return weights[:, :n].ravel(), (np.repeat(row, n), columns.ravel())

    # -- the same data with other labels or fewer examples -------------------------------------------------------------

    def split_labels(self, labels: Labels) -> list[Labels]:
        """A labelling (P,) of all examples as arrays (n_i,), one for each; ValueError if it does not fit."""
        read = wholes("labels", labels, (self.n_nodes,), least=0, most=self.n_labels - 1, why="one a node", keep=False)
        return np.split(read, self.node_start[1:-1])

    def graph(self, i: int) -> nx.Graph:
        """Example i as a networkx graph on the nodes 0 .. n - 1; ValueError if there is no example i."""
        i = whole("i", i, least=0, most=self.n_examples - 1)
        low, high = int(self.node_start[i]), int(self.node_start[i + 1])
        graph = nx.Graph()
        graph.add_nodes_from(range(high - low))
        graph.add_edges_from((self.edges[self.edge_example == i] - low).tolist())
        return graph

    def some(self, examples: ArrayLike) -> PairwiseFeatures:
        """The feature map of some examples, in the order given, or of those of a mask (N,). ValueError if ``examples``
        are neither numbers from 0 to N - 1 nor a mask."""
        wanted = chosen("examples", examples, self.n_examples).astype(np.intp)
        node, start = ranges(self.node_start, wanted)
        edge, edge_start = ranges(self.edge_start, wanted)
        edges = self.edges[edge] + np.repeat(start[:-1] - self.node_start[wanted], np.diff(edge_start))[:, None]
        features = None if self.edge_features is None else self.edge_features[edge]
        return PairwiseFeatures(
            self.node_features[node], self.truth[node], self.n_labels, start, edges.reshape(-1, 2).astype(np.intp),
            features, self.associative,
        )  # fmt: skip


def read_pairwise(
    node_features: Any,
    labels: Sequence[ArrayLike],
    n_labels: int | None = None,
    edges: Sequence[ArrayLike] | Sequence[nx.Graph] | str = "chain",
    edge_features: Sequence[ArrayLike] | None = None,
    associative: bool = False,
) -> PairwiseFeatures:
    """Read and validate labelled graphs.

    Parameters
    ----------
    node_features : a list of arrays or sparse matrices (n_i, F), one an example; or one (P, F) for all of them.
    labels : a list of integer arrays (n_i,), the true labels, from 0.
    n_labels : S; by default one more than the largest label.
    edges : "chain", "none", a list of integer arrays (q_i, 2) of nodes of the example counted from 0, or a list of
        networkx graphs, whose nodes are 0 .. n_i - 1, or have names and stand in the order of ``graph.nodes``.
    edge_features : a list of arrays (q_i, E), in the order of the edges; None for one shared table of transitions.
    associative : see `PairwiseFeatures`.

    Raises
    ------
    ValueError
        If there is no example, an example is empty, shapes or lengths do not match, a label or a node of an edge is
        out of range, an edge joins a node with itself or comes twice, a feature is not finite, or an edge feature of
        an associative network is negative.
    """
    associative = flag("associative", associative)
    truth, lengths, size = _labels(labels, n_labels)
    start = starts(lengths)
    nodes = _node_features(node_features, lengths)
    sized("n_labels", size, size * max(nodes.shape[1], size, len(truth)))
    flat_edges, counts = _edges(edges, lengths, start)
    features = None
    if edge_features is not None:
        features = _edge_features(edge_features, counts)
        if associative and (features < 0).any():
            raise sentence(
                f"edge_features contains {features.min():g}, wanted values >= 0: a negative one turns an associative "
                "edge round"
            )
    return PairwiseFeatures(nodes, truth, size, start, flat_edges, features, associative)


def read_examples(
    node_features: Any,
    edges: Sequence[ArrayLike] | Sequence[nx.Graph] | str | None = None,
    edge_features: Sequence[ArrayLike] | None = None,
    *,
    like: PairwiseFeatures,
) -> PairwiseFeatures:
    """Read examples without labels, for prediction; their ``truth`` is 0 everywhere and means nothing.

    Parameters
    ----------
    node_features : a list of arrays or sparse matrices (n_i, F), one an example.
    edges, edge_features : as `read_pairwise` takes them. By default chains where those of ``like`` are, none where
        ``like`` has none.
    like : the examples of training: their labels, and whether the network is associative.

    Raises
    ------
    ValueError
        If edges are not given and ``like`` has other graphs than chains, or as `read_pairwise` says.
    """
    wanted = "a list of one table of at least one node for each of at least one example"
    tables = sequence("node_features", node_features, wanted, least=1)
    lengths = []
    for i, table in enumerate(tables):
        rows = matrix(f"node_features[{i}]", table, "nodes", like.n_node_features, why="the features of training")
        lengths.append(rows.shape[0])
    if edges is None:
        if like.n_edges and not like.is_chain:
            raise ValueError("edges is None, wanted a list of one graph for each example, as in training")
        edges = "chain" if like.n_edges else "none"
    truth = [np.zeros(length, dtype=np.int64) for length in lengths]
    return read_pairwise(tables, truth, like.n_labels, edges, edge_features, like.associative)


def _labels(labels: Sequence[ArrayLike], n_labels: int | None) -> tuple[Labels, Index, int]:
    given = sequence("labels", labels, "a list of one array for each of at least one example", least=1)
    most = None if n_labels is None else whole("n_labels", n_labels, least=1) - 1
    why = "one label for each of at least one node"
    arrays = [
        wholes(f"labels[{i}]", each, ("nodes",), least=0, most=most, why=why, minus_one=NOT_KNOWN)
        for i, each in enumerate(given)
    ]
    flat = np.concatenate(arrays)
    size = int(flat.max()) + 1 if most is None else most + 1
    return frozen(flat), np.array([array.size for array in arrays], dtype=np.intp), size


def _node_features(given: Any, lengths: Index) -> NodeFeatures:
    total = int(lengths.sum())
    if given is None:
        refuse("node_features", given, "a list of arrays, one for each example, or a kernel in its place")
    if not sp.issparse(given) and not (isinstance(given, np.ndarray) and given.ndim == 2):
        wanted = "a matrix, or a list of one for each of labels"
        parts: list[Any] = []
        for i, part in enumerate(sequence("node_features", given, wanted, length=len(lengths))):
            width = "features" if i == 0 else int(parts[0].shape[1])
            parts.append(matrix(f"node_features[{i}]", part, int(lengths[i]), width, why="one row a label"))
        given = sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else frozen(np.concatenate(parts))
    return matrix("node_features", given, total, "features", why="one row a label")


def _edges(given: Any, lengths: Index, start: Index) -> tuple[Index, Index]:
    """Flat edges (Q, 2), and how many each example has."""
    if isinstance(given, str):
        choice("edges", given, ("chain", "none"), "or a list of arrays of node pairs or networkx graphs")
        if given == "chain":
            return chain_pairs(start), lengths - 1
        return np.zeros((0, 2), dtype=np.intp), np.zeros_like(lengths)
    if given is None or isinstance(given, nx.Graph):
        came = "None" if given is None else "one graph"
        raise ValueError(f"edges is {came}, wanted 'chain', 'none', or a list of one graph for each example")
    wanted = "'chain', 'none', or a list of one graph for each of labels"
    parts = sequence("edges", given, wanted, length=len(lengths))
    arrays = []
    for i, part in enumerate(parts):
        if isinstance(part, nx.Graph):
            if len(part) != lengths[i]:
                raise ValueError(f"edges[{i}] has {len(part)} nodes, wanted {lengths[i]}: one for each label")
            part = node_pairs(f"edges[{i}]", part)
        pairs = wholes(f"edges[{i}]", part, what="pairs of nodes", least=0, most=int(lengths[i]) - 1)
        pairs = pairs.reshape(0, 2) if pairs.shape == (0,) else pairs
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise sentence(f"edges[{i}] has shape {pairs.shape}, wanted (edges, 2): the two nodes of each edge")
        if (pairs[:, 0] == pairs[:, 1]).any():
            raise ValueError(f"edges[{i}] joins node {int(pairs[pairs[:, 0] == pairs[:, 1]][0, 0])} with itself")
        if len(np.unique(np.sort(pairs, axis=1), axis=0)) < len(pairs):
            raise ValueError(f"edges[{i}] holds an edge twice, wanted each pair of nodes at most once")
        arrays.append(pairs.astype(np.intp) + start[i])
    flat = np.concatenate(arrays).astype(np.intp) if arrays else np.zeros((0, 2), dtype=np.intp)
    return flat, np.array([len(array) for array in arrays], dtype=np.intp)


def _edge_features(given: Sequence[ArrayLike], counts: Index) -> Matrix:
    listed = sequence("edge_features", given, "a list of one array for each of labels", length=len(counts))
    parts = [real(f"edge_features[{i}]", part) for i, part in enumerate(listed)]
    width = next((part.shape[1] for part in parts if part.ndim == 2), None)
    for i, part in enumerate(parts):
        if part.ndim != 2 or part.shape != (counts[i], width):
            raise sentence(f"edge_features[{i}] has shape {part.shape}, wanted ({counts[i]}, {width}), one row an edge")
    if not width:
        raise ValueError("edge_features has no columns, wanted at least one feature, or None for one shared table")
    return frozen(np.concatenate(parts))
