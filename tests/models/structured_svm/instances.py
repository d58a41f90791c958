"""Structural SVMs small enough to write out: chains with length 1, trees, cycles, edge features, associative networks,
weights, every kind of loss, kernels, ties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np

from convexstruct.families.structured_svm.problem import StructuredSVM


def svm(
    seed: int,
    lengths: tuple[int, ...] = (1, 3, 2, 4),
    n_labels: int = 3,
    n_features: int = 2,
    graphs: Sequence[nx.Graph] | str = "chain",
    n_edge_features: int = 0,
    weighted: bool = False,
    noise: float = 1.0,
    **options: Any,
) -> StructuredSVM:
    """Labels drawn at random; features that tell them, up to noise."""
    rng = np.random.default_rng(seed)
    if not isinstance(graphs, str):
        lengths = tuple(len(graph) for graph in graphs)
    labels = [rng.integers(n_labels, size=n) for n in lengths]
    labels[0][0] = n_labels - 1
    means = rng.normal(size=(n_labels, n_features))
    nodes = [means[y] + noise * rng.normal(size=(len(y), n_features)) for y in labels]
    if n_edge_features:
        shown = [nx.path_graph(n) for n in lengths] if isinstance(graphs, str) else list(graphs)
        sizes = [graph.number_of_edges() for graph in shown]
        drawn = [rng.normal(size=(q, n_edge_features)) for q in sizes]
        options["edge_features"] = [np.abs(z) for z in drawn] if options.get("associative") else drawn
    if weighted:
        options["weights"] = rng.uniform(0.5, 2.0, size=len(lengths))
    if isinstance(options.get("loss"), str) and options["loss"] == "random":
        options["loss"] = [rng.integers(1, 5, size=(n, n_labels)) * 0.5 for n in lengths]
        for table, y in zip(options["loss"], labels):
            table[np.arange(len(y)), y] = 0.0
    if options.pop("as_kernel", False):
        x = np.concatenate(nodes)
        options["kernel"] = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(axis=2))
        return StructuredSVM.read(None, labels, n_labels, edges=graphs, **{"C": 1.0, **options})
    if not {"C", "C_mean", "lam", "beta"} & set(options):
        options["C"] = 1.0
    return StructuredSVM.read(nodes, labels, n_labels, edges=graphs, **options)


def tree(seed: int, n: int = 5) -> nx.Graph:
    """A tree whose edges stand in no order."""
    rng = np.random.default_rng(seed)
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    order = rng.permutation(n)
    graph.add_edges_from((int(order[k]), int(order[rng.integers(k)])) for k in range(1, n))
    return graph


def ladder(n: int = 3) -> nx.Graph:
    """2 x n nodes, several cycles that share edges."""
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, n))


def frustrated(C: float = 1.0) -> StructuredSVM:
    """Paths teach that neighbours differ, a triangle cannot: half a label each beats every labelling there."""
    labels = [(np.arange(3) + j) % 2 for j in range(4)]
    nodes = [np.eye(3, 1) * np.eye(2)[y[0]] for y in labels]
    graphs = [nx.path_graph(3)] * 4 + [nx.cycle_graph(3)]
    return StructuredSVM.read([*nodes, np.zeros((3, 2))], [*labels, [0, 0, 1]], 2, edges=graphs, C=C)


def multiway(C: float = 0.3) -> StructuredSVM:
    """Associative, three labels: paths teach that neighbours agree; then three nodes between three terminals, the
    smallest graph on which a cut into three is fractional."""
    path = np.eye(4, 1)
    labels = [np.full(4, j) for j in range(3) for _ in range(4)]
    nodes = [path * np.eye(3)[y[0]] for y in labels]
    between = nx.Graph([(0, 3), (1, 3), (1, 4), (2, 4), (2, 5), (0, 5), (3, 4), (4, 5), (3, 5)])
    graphs = [nx.path_graph(4)] * 12 + [between]
    y = [0, 1, 2, 0, 1, 2]
    return StructuredSVM.read([*nodes, np.eye(6, 3)], [*labels, y], 3, edges=graphs, associative=True, C=C)


COSTS = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])
TWO_PARTS = nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(2))
LOOPY = (nx.cycle_graph(4), TWO_PARTS, nx.path_graph(1), nx.complete_graph(4))

#: Margin scaling, node losses, graphs with narrow junction trees.
DECOMPOSABLE: dict[str, Callable[[], StructuredSVM]] = {
    "chains, one of length 1, Hamming": lambda: svm(0),
    "chains, weighted, a cost matrix, C_mean": lambda: svm(1, loss=COSTS, weighted=True, C_mean=2.0),
    "chains, a cost table each, beta": lambda: svm(2, loss="random", beta=0.7),
    "chains, edge features, lam": lambda: svm(3, n_edge_features=2, lam=0.3),
    "associative chains, three labels": lambda: svm(4, associative=True, weighted=True, C=0.5),
    "repeated data: ties": lambda: svm(5, lengths=(2, 2, 2), n_labels=2, noise=0.0, C=3.0),
    "no edges: a multi-class SVM": lambda: svm(6, lengths=(1, 1, 2, 1), graphs="none"),
    "trees, weighted": lambda: svm(7, graphs=(tree(0), tree(1, 4), tree(2, 1)), n_labels=2, weighted=True),
    "a forest, edge features": lambda: svm(8, graphs=(nx.disjoint_union(tree(3, 3), tree(4, 2)),), n_edge_features=1),
    "cycles": lambda: svm(9, graphs=LOOPY, n_labels=2, loss="random", weighted=True, C=0.5),
    "a ladder, edge features": lambda: svm(10, graphs=(ladder(), nx.cycle_graph(3)), n_labels=2, n_edge_features=2),
    "associative cycles, two labels": lambda: svm(
        11, graphs=LOOPY, n_labels=2, associative=True, n_edge_features=2, C=0.4
    ),
    "a kernel": lambda: svm(12, lengths=(2, 3, 1), n_labels=2, as_kernel=True),
}

#: What does not decompose.
OTHER: dict[str, Callable[[], StructuredSVM]] = {
    "zero-one loss": lambda: svm(20, loss="zero_one", weighted=True),
    "zero-one loss on cycles": lambda: svm(21, graphs=LOOPY, n_labels=2, loss="zero_one"),
    "slack scaling, Hamming": lambda: svm(22, scaling="slack", C=0.7),
    "slack scaling, weighted, a cost matrix": lambda: svm(23, loss=COSTS, scaling="slack", weighted=True, C=0.5),
    "slack scaling on cycles, associative": lambda: svm(
        24, graphs=LOOPY, n_labels=2, scaling="slack", associative=True, C=0.3
    ),
}

INSTANCES = DECOMPOSABLE | OTHER
