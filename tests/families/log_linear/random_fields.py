"""Small conditional random fields of every kind, also with partial labels, and the sums over their labellings."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Labels, Vector
from convexstruct.families.log_linear import ConditionalRandomField, HiddenField


def field(seed: int = 0, kind: str = "chains", n_labels: int = 3, **options: Any) -> ConditionalRandomField:
    """kind : "chains", "stars", "cycles", each perhaps "with features" of edges; "sparse"; "forbidden"."""
    rng = np.random.default_rng([7, seed])
    lengths = [4, 1, 3, 2] if kind != "cycles with features" else [4, 3, 3]
    labels = [np.sort(rng.integers(n_labels, size=n)) for n in lengths]
    x: list[Any] = [rng.normal(size=(n, 2)) for n in lengths]
    shapes = {
        "stars": lambda n: nx.star_graph(n - 1),
        "cycles": lambda n: nx.cycle_graph(n) if n > 2 else nx.path_graph(n),
    }
    if (shape := kind.split()[0]) in shapes:
        options["edges"] = graphs = [shapes[shape](n) for n in lengths]
        if kind.endswith("features"):
            options["edge_features"] = [rng.normal(size=(graph.number_of_edges(), 2)) for graph in graphs]
    if kind == "sparse":
        x = [sp.csr_array(one * (rng.random(one.shape) < 0.6)) for one in x]
    if kind == "forbidden":
        options["forbidden"] = np.tri(n_labels, k=-1, dtype=bool)
    return ConditionalRandomField.read(
        x, labels, n_labels, weights=rng.uniform(0.5, 2.0, len(lengths)), **({"C": 1.5} | options)
    )


KINDS = ["chains", "sparse", "forbidden", "stars", "stars with features", "cycles", "cycles with features"]


class Written(NamedTuple):
    """loss : L(theta). gradient : its gradient. entropy : C sum_i omega_i H_i. best : the best labellings, flat.
    node (P, S) : probabilities of labels. logs (N,) : ln P of the truth."""

    loss: float
    gradient: Vector
    entropy: float
    best: Labels
    node: Vector
    logs: Vector


def written_out(problem: ConditionalRandomField, theta: Vector) -> Written:
    """All sums over labellings, one labelling after the other."""
    features = problem.features
    gradient, logs, loss, entropy = np.zeros(problem.dimension), [], 0.0, 0.0
    best, node = [], np.zeros((features.n_nodes, features.n_labels))
    for i, ceiling in enumerate(problem.ceiling.tolist()):
        nodes = np.arange(features.node_start[i], features.node_start[i + 1])
        ends = features.edges[features.edge_example == i] - nodes[0]
        every = np.array(list(product(range(features.n_labels), repeat=len(nodes))))
        if problem.forbidden is not None:
            every = every[~problem.forbidden[every[:, ends[:, 0]], every[:, ends[:, 1]]].any(axis=1)]
        joint = np.array([features.joint_each(y, np.array([i])).toarray()[0] for y in every])
        scores = joint @ theta
        log_z = np.logaddexp.reduce(scores)
        p = np.exp(scores - log_z)
        true = int(np.flatnonzero((every == features.truth[nodes]).all(axis=1))[0])
        logs.append(scores[true] - log_z)
        loss -= ceiling * logs[-1]
        gradient += ceiling * (p @ joint - joint[true])
        entropy -= ceiling * float(p[p > 0] @ np.log(p[p > 0]))
        best.append(every[scores.argmax()])
        for y, share in zip(every, p):
            node[nodes, y] += share
    return Written(loss, gradient, entropy, np.concatenate(best), node, np.array(logs))


SHAPES = {"chain": nx.path_graph, "star": lambda n: nx.star_graph(n - 1), "cycle": nx.cycle_graph}


def partly(
    seed: int, shape: str = "chain", features: int = 0, forbid: bool = False, all_known: bool = False, **options: Any
) -> tuple[HiddenField, list[Flags], Flags]:
    """Three labels, two node features; each node allows from one to three labels, 0 among them where pairs are
    forbidden: 0 may be beside all labels, so that every example has a labelling."""
    rng = np.random.default_rng(seed)
    graphs = [SHAPES[shape](n) for n in (3, 4, 3)]
    allowed = [rng.random((len(graph), 3)) < 0.5 for graph in graphs]
    for part in allowed:
        part[np.arange(len(part)), 0 if forbid else rng.integers(3, size=len(part))] = True
    if all_known:
        allowed = [np.eye(3, dtype=bool)[part.argmax(axis=1)] for part in allowed]
    forbidden = (rng.random((3, 3)) < 0.4) & forbid
    forbidden[0, :] = forbidden[:, 0] = False
    edges: Any = "chain" if shape == "chain" else graphs
    problem = HiddenField.conditional(
        [rng.normal(size=(len(graph), 2)) for graph in graphs], allowed, edges=edges, forbidden=forbidden,
        edge_features=[rng.normal(size=(graph.number_of_edges(), features)) for graph in graphs] if features else None,
        weights=rng.uniform(0.5, 2.0, 3), **(options or {"lam": 0.3}),
    )  # fmt: skip
    return problem, allowed, forbidden
