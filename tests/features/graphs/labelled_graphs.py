"""Labelled graphs drawn for tests, and the score of a labelling by the definition, node by node and edge by edge."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from convexstruct.arrays import Labels, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.oracles.enumeration import Factor

KINDS = ("chain", "none", "path", "forest", "graph")


def drawn_graph(rng: np.random.Generator, kind: str, n: int) -> nx.Graph:
    """A graph on n nodes; its edges are in random order, their two ends too."""
    if kind == "path":
        edges = [(v, v + 1) for v in range(n - 1)]
    elif kind == "forest":
        edges = [(int(rng.integers(v)), v) for v in range(1, n) if rng.random() < 0.8]
    else:
        edges = [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.6]
    turned = [edge if rng.random() < 0.5 else edge[::-1] for edge in edges]
    graph = nx.empty_graph(n)
    graph.add_edges_from(turned[at] for at in rng.permutation(len(turned)))
    return graph


def labelled(
    rng: np.random.Generator, kind: str = "graph", n_examples: int = 3, most: int = 4, n_labels: int = 3,
    n_features: int = 2, n_edge_features: int = 0, **options: Any,
) -> PairwiseFeatures:  # fmt: skip
    """Examples of 1 to ``most`` nodes."""
    lengths = rng.integers(1, most + 1, size=n_examples)
    labels = [rng.integers(n_labels, size=n) for n in lengths]
    nodes: list[Any] = [rng.normal(size=(n, n_features)) for n in lengths]
    if options.pop("sparse", False):
        nodes = [sp.csr_array(np.where(np.abs(x) < 0.7, 0.0, x)) for x in nodes]
    if kind in ("chain", "none"):
        given: Any = kind
        sizes = [n - 1 if kind == "chain" else 0 for n in lengths]
    else:
        graphs = [drawn_graph(rng, kind, int(n)) for n in lengths]
        arrays = [np.array(list(graph.edges)).reshape(-1, 2)[:, :: rng.choice([-1, 1])] for graph in graphs]
        given, sizes = (graphs if rng.random() < 0.5 else arrays), [graph.size() for graph in graphs]
    if n_edge_features:
        options["edge_features"] = [np.abs(rng.normal(size=(q, n_edge_features))) for q in sizes]
    return read_pairwise(nodes, labels, n_labels, given, **options)


@st.composite
def labelled_graphs(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, n_labels: int | None = None) -> PairwiseFeatures:
    """Graphs of every kind: sparse or dense, with edge features or a shared table, associative or not, of one label."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return labelled(
        rng,
        draw(st.sampled_from(kinds)),
        draw(st.integers(1, 4)),
        draw(st.sampled_from([1, 4])),
        draw(st.integers(1, 3)) if n_labels is None else n_labels,
        draw(st.integers(1, 2)),
        draw(st.integers(0, 2)),
        associative=draw(st.booleans()),
        sparse=draw(st.booleans()),
    )


def by_definition(features: PairwiseFeatures, w: Vector, i: int, y: Labels) -> float:
    """<w, f(x_i, y)>, summed as the docstring of `convexstruct.features.graphs.pairwise` states it."""
    size, first = features.n_labels, int(features.node_start[i])
    x = features.node_features
    dense = x.toarray() if sp.issparse(x) else x
    w_node = w[: size * dense.shape[1]].reshape(size, dense.shape[1])
    rest = w[size * dense.shape[1] :]
    total = sum(float(w_node[label] @ dense[first + v]) for v, label in enumerate(y))
    for e, (u, v) in enumerate(features.edges):
        if features.edge_example[e] != i:
            continue
        z = np.ones(1) if features.edge_features is None else features.edge_features[e]
        a, b = int(y[u - first]), int(y[v - first])
        if features.associative:
            total += float(z @ rest.reshape(len(z), size)[:, a]) if a == b else 0.0
        else:
            total += float(z @ rest.reshape(len(z), size, size)[:, a, b])
    return total


def drawn_scores(features: PairwiseFeatures, rng: np.random.Generator, whole: bool = False) -> tuple[Vector, Vector]:
    """Score tables as inference takes them, not computed from weights; whole numbers, so that there are ties."""
    size = features.n_labels
    shapes = (features.n_nodes, size), ((size, size) if features.shared else (features.n_edges, size, size))
    tables = [rng.integers(-1, 2, size=s).astype(float) if whole else 2.0 * rng.normal(size=s) for s in shapes]
    return tables[0], tables[1]


def truth_of(features: PairwiseFeatures, node: Vector, edge: Vector, i: int) -> tuple[list[int], list[Factor]]:
    """Cards and factors of example i with these scores, for brute force."""
    low, high = int(features.node_start[i]), int(features.node_start[i + 1])
    factors: list[Factor] = [((v - low,), node[v]) for v in range(low, high)]
    for e in np.flatnonzero(features.edge_example == i):
        u, v = (int(end) - low for end in features.edges[e])
        factors.append(((u, v), edge if edge.ndim == 2 else edge[e]))
    return [features.n_labels] * (high - low), factors
