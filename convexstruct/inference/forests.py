r"""The maximum over the local polytope of a graph with cycles, by splitting the graph's scores among forests.

Every edge of a graph belongs to one forest, every node to each forest that has an edge at it (and to the first if there
is none). If node scores are divided among these forests, sum_f node_f,v = node_v, then

    max over the local polytope = min over shares of  sum_f max_y score_f(y)

(Wainwright, Jaakkola, Willsky 2005; each forest's maximum is exact over its own local polytope). Any shares bound the
maximum from above. On a grid the forests are its rows and its columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from convexstruct.arrays import Index, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.graphs import starts
from convexstruct.inference.exact import ForestInference, forest_inference


@dataclass(frozen=True, eq=False)
class Forest:
    """Some edges without a cycle, tree by tree.

    nodes : (P_f,) the flat nodes of the forest, in its own order. edges : (Q_f,) its edges' places among all.
    example : (n_trees,) the example of each tree. trees : oracles over the trees.
    """

    nodes: Index
    edges: Index
    example: Index
    trees: ForestInference


@dataclass(frozen=True, eq=False)
class Forests:
    """The forests of all examples.

    start (k + 1,) : where the nodes of each of the k forests begin in arrays of shares (sum P_f, S). nodes (sum P_f,) :
    the flat node of each of their rows. copies (P,) : the number of forests that a node belongs to.
    """

    parts: tuple[Forest, ...]
    start: Index
    nodes: Index
    copies: Vector
    n_nodes: int
    n_examples: int

    def centred(self, shifts: Matrix) -> Matrix:
        """Shares (sum P_f, S) that sum to 0 at every node: ``shifts`` less their mean there. Symmetric as a matrix."""
        means = self.gather(shifts) / self.copies[:, None]
        return shifts - means[self.nodes]

    def shared(self, node: Matrix, shifts: Matrix) -> Matrix:
        """Node scores (P, S) split among the copies of each node: equal parts plus centred ``shifts``; (sum P_f, S)."""
        return (node / self.copies[:, None])[self.nodes] + self.centred(shifts)

    def gather(self, values: Matrix) -> Matrix:
        """Sums over the copies of each node; (P, S)."""
        total = np.empty((self.n_nodes, values.shape[1]))
        for s in range(values.shape[1]):
            total[:, s] = np.bincount(self.nodes, weights=values[:, s], minlength=self.n_nodes)
        return total

    def upper(self, node: Matrix, edge: Tensor, shifts: Matrix) -> Vector:
        """sum_f max score_f of each example: a bound on the maximum over its local polytope; (N,)."""
        shares = self.shared(node, shifts)
        total = np.zeros(self.n_examples)
        for f, forest in enumerate(self.parts):
            here = shares[self.start[f] : self.start[f + 1]]
            found = forest.trees.best(here, edge if edge.ndim == 2 else edge[forest.edges])
            total += np.bincount(forest.example, weights=found.scores, minlength=self.n_examples)
        return total

    def moved(self, shifts: Matrix) -> Vector:
        """4 times the sum of max_s |shifts|, over the copies of an example's nodes, on which the rounding of `upper`
        depends besides the scores; (N,)."""
        example = np.zeros(self.n_nodes, dtype=np.intp)
        for f, forest in enumerate(self.parts):
            lengths = np.diff(forest.trees.features.node_start)
            example[self.nodes[self.start[f] : self.start[f + 1]]] = np.repeat(forest.example, lengths)
        sizes = 4.0 * np.abs(shifts).max(axis=1, initial=0.0)
        return np.asarray(np.bincount(example[self.nodes], weights=sizes, minlength=self.n_examples), dtype=np.float64)


def forests(features: PairwiseFeatures) -> Forests:
    """Split the edges: by the distance of their ends in the order of nodes where each example has two such distances at
    most (rows and columns of a grid), else first fit."""
    first = features.edge_start
    distance = features.edges[:, 1] - features.edges[:, 0]
    place = np.zeros(features.n_edges, dtype=np.intp)
    for i in range(features.n_examples):
        these = slice(int(first[i]), int(first[i + 1]))
        kinds, kind = np.unique(distance[these], return_inverse=True)
        place[these] = kind if len(kinds) <= 2 and _acyclic(features, these, kind) else _first_fit(features, these)
    bare = np.setdiff1d(np.arange(features.n_nodes), features.edges.ravel())
    parts = [
        _forest(features, np.flatnonzero(place == f).astype(np.intp), bare if f == 0 else bare[:0])
        for f in range(int(place.max(initial=0)) + 1)
    ]
    start = starts([len(part.nodes) for part in parts])
    nodes = np.concatenate([part.nodes for part in parts])
    copies = np.bincount(nodes, minlength=features.n_nodes).astype(np.float64)
    return Forests(tuple(parts), start, nodes, copies, features.n_nodes, features.n_examples)


def _acyclic(features: PairwiseFeatures, these: slice, kind: Index) -> bool:
    return all(_is_forest(features.edges[these][kind == k]) for k in np.unique(kind))


def _is_forest(edges: Index) -> bool:
    return len(edges) == 0 or bool(nx.is_forest(nx.Graph(edges.tolist())))


def _first_fit(features: PairwiseFeatures, these: slice) -> Index:
    """For one edge after the other the first forest in which it closes no cycle."""
    joined: list[nx.utils.UnionFind] = []
    place = np.zeros(these.stop - these.start, dtype=np.intp)
    for e, (u, v) in enumerate(features.edges[these].tolist()):
        while place[e] < len(joined) and joined[place[e]][u] == joined[place[e]][v]:
            place[e] += 1
        if place[e] == len(joined):
            joined.append(nx.utils.UnionFind())
        joined[place[e]].union(u, v)
    return place


def _forest(features: PairwiseFeatures, edges: Index, bare: Index) -> Forest:
    """The trees that ``edges`` make, and ``bare`` nodes as trees of one."""
    graph = nx.Graph()
    graph.add_nodes_from(bare.tolist())
    graph.add_edges_from(features.edges[edges].tolist())
    trees = [sorted(tree) for tree in nx.connected_components(graph)]
    trees.sort()
    nodes = np.array([v for tree in trees for v in tree], dtype=np.intp)
    start = starts([len(tree) for tree in trees])
    own = np.zeros(features.n_nodes, dtype=np.intp)
    own[nodes] = np.arange(len(nodes))
    ends = own[features.edges[edges]].reshape(-1, 2)
    tree_of = np.repeat(np.arange(len(trees)), np.diff(start))
    order = np.argsort(tree_of[ends[:, 0]], kind="stable") if len(ends) else np.zeros(0, dtype=np.intp)
    shape = PairwiseFeatures(
        np.zeros((len(nodes), 1)), np.zeros(len(nodes), dtype=np.int64), features.n_labels, start, ends[order]
    )
    return Forest(nodes, edges[order], features.example[nodes[start[:-1]]], forest_inference(shape))
