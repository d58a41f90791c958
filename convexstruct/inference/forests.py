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
class Forests:
    """The forests of all examples, as trees over copies of the nodes: one for each forest that a node belongs to.

    nodes (sum P_f,) : the flat node of each copy, tree by tree. edges (Q,) : the edges' places among all, tree by tree.
    example (n_trees,) : the example of each tree. trees : the oracle over all trees at once. copies (P,) : the number
    of forests that a node belongs to.
    """

    nodes: Index
    edges: Index
    example: Index
    trees: ForestInference
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
        found = self.trees.best(self.shared(node, shifts), self.of_edges(edge))
        return np.asarray(np.bincount(self.example, weights=found.scores, minlength=self.n_examples), dtype=np.float64)

    def of_edges(self, edge: Tensor) -> Tensor:
        """Tables of edges in the order of the trees; the one that they share is itself."""
        return edge if edge.ndim == 2 else edge[self.edges]

    def moved(self, shifts: Matrix) -> Vector:
        """4 times the sum of max_s |shifts|, over the copies of an example's nodes, on which the rounding of `upper`
        depends besides the scores; (N,)."""
        of_copy = np.repeat(self.example, np.diff(self.trees.features.node_start))
        sizes = 4.0 * np.abs(shifts).max(axis=1, initial=0.0)
        return np.asarray(np.bincount(of_copy, weights=sizes, minlength=self.n_examples), dtype=np.float64)


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
    trees: list[list[int]] = []
    order, ends = [], []
    for f in range(int(place.max(initial=0)) + 1):
        edges = np.flatnonzero(place == f).astype(np.intp)
        found, tree_of = _trees(features, edges, bare if f == 0 else bare[:0])
        order.append(edges[np.argsort(tree_of, kind="stable")])
        own = np.zeros(features.n_nodes, dtype=np.intp)
        own[[v for tree in found for v in tree]] = sum(map(len, trees)) + np.arange(sum(map(len, found)))
        ends.append(own[features.edges[order[-1]]].reshape(-1, 2))
        trees += found
    nodes = np.array([v for tree in trees for v in tree], dtype=np.intp)
    start = starts([len(tree) for tree in trees])
    truth = np.zeros(len(nodes), dtype=np.int64)
    shape = PairwiseFeatures(np.zeros((len(nodes), 1)), truth, features.n_labels, start, np.concatenate(ends))
    copies = np.bincount(nodes, minlength=features.n_nodes).astype(np.float64)
    example = features.example[nodes[start[:-1]]]
    oracle = forest_inference(shape)
    return Forests(nodes, np.concatenate(order), example, oracle, copies, features.n_nodes, features.n_examples)


def _acyclic(features: PairwiseFeatures, these: slice, kind: Index) -> bool:
    """Whether each kind of these edges, at least one of each, closes no cycle."""
    return all(nx.is_forest(nx.Graph(features.edges[these][kind == k].tolist())) for k in np.unique(kind))


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


def _trees(features: PairwiseFeatures, edges: Index, bare: Index) -> tuple[list[list[int]], Index]:
    """The trees (their nodes) that ``edges`` make, and ``bare`` nodes as trees of one; and the tree of each edge."""
    graph = nx.Graph()
    graph.add_nodes_from(bare.tolist())
    graph.add_edges_from(features.edges[edges].tolist())
    trees = sorted(sorted(tree) for tree in nx.connected_components(graph))
    tree_of = {v: k for k, tree in enumerate(trees) for v in tree}
    return trees, np.array([tree_of[u] for u in features.edges[edges, 0].tolist()], dtype=np.intp)
