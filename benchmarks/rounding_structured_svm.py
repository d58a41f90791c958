"""Bounds of structural SVMs against rational arithmetic: all labellings written out, in fractions.

Every kind of oracle and of dual witness, kernels, both scalings, every kind of loss; features, costs, weights, C and w
of scales from 1e-300 to 1e300.

A primal value is held against the exact objective at the same w; that of the relaxed problem is a maximum over the
vertices of the local polytope, which are half-integral where there are two labels. A dual value is held against the
exact best of D on the witness's own ray: labellings as they stand, Gibbs measures by enumeration with 50 digits, and
marginals as the distribution they are read as. Where rounding leads to another distribution than exact arithmetic, a
bound on the difference is added. Where data or shares are so large or small that no such bound is useful, it is held
against the exact objective at two points (weak duality).

With a kernel, bounds are those of the kernel as given, not of its computed features: D is taken with the kernel, and
the truth of a primal value at the optimum is D at the optimal witness.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import networkx as nx
import numpy as np
import scipy.sparse as sp

from benchmarks.exact_structured_svm import Exact
from benchmarks.rounding import Trial
from convexstruct.core.driver import solve
from convexstruct.families.structured_svm import StructuredSVM

#: Graph, number of labels, options of `StructuredSVM.read`.
KINDS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("chain", 2, {}),
    ("chain", 3, {}),
    ("none", 3, {}),
    ("tree", 2, {}),
    ("tree", 3, {"n_edge_features": 2}),
    ("cycle", 2, {}),
    ("cycle", 2, {"n_edge_features": 1}),
    ("cycle", 2, {"associative": True, "inference": "minimum_cut", "n_edge_features": 1}),
    ("cycle", 3, {"associative": True, "inference": "expansion"}),
    ("tree", 2, {"inference": "relaxed"}),
    ("cycle", 2, {"inference": "relaxed"}),
)
#: Share of the instances that come with a kernel.
KERNELS = 0.1
#: Exponents of ten that adversarial data are drawn from.
SCALES = (-300.0, -160.0, -150.0, -30.0, -8.0, -1.0, 0.0, 0.0, 0.0, 1.0, 8.0, 12.0, 30.0, 150.0, 160.0, 300.0)


def trials(rng: np.random.Generator) -> Iterator[Trial]:
    """Instance after instance, a handful of bounds each."""
    while True:
        ordinary = bool(rng.random() < 0.3)
        if rng.random() < KERNELS:
            yield from _kernel_trials(rng, ordinary)
            continue
        kind, size, options = KINDS[rng.integers(len(KINDS))]
        made = instance(rng, kind, size, dict(options), ordinary)
        if made is None:
            continue
        problem, told = made
        exact, scale = Exact(problem), problem.trivial_value
        for _ in range(3):
            w = problem.project(_numbers(rng, (problem.dimension,), ordinary))
            point: dict[str, Any] = {"w": w}
            if problem.oracle.relaxed and rng.random() < 0.5:
                shape = (len(problem.forests.nodes), size)
                point["shifts"] = _numbers(rng, shape, ordinary)
            yield Trial("primal", problem.primal(point), exact.primal(point), ordinary, scale, told)
            witness = _witness(rng, problem, ordinary)
            truth = exact.dual(witness)
            if truth is None:  # weak duality
                truth = min(exact.primal({"w": at}) for at in (w, np.zeros_like(w)))
            yield Trial("dual", problem.dual(witness), truth, ordinary, scale, f"{told}, {', '.join(witness)}")


def _kernel_trials(rng: np.random.Generator, ordinary: bool) -> Iterator[Trial]:
    """Bounds near the optimum of a problem whose kernel is exactly positive semidefinite, often singular."""
    lengths, size = rng.integers(1, 4, size=2).tolist(), int(rng.integers(2, 4))
    n = sum(lengths)
    root = rng.integers(-9, 10, size=(n, int(rng.integers(1, n + 1))))  # small whole numbers: the products are exact
    scale = 2.0 ** (-4 if ordinary else rng.integers(-40, 40, size=n))
    kernel = (root @ root.T) * scale * np.reshape(scale, (-1, 1))
    if not kernel.any():
        return
    options: dict[str, Any] = {
        "scaling": ("margin", "slack")[rng.integers(2)],
        "edges": ("chain", "none")[rng.integers(2)],
    }
    options["loss"] = ("hamming", "zero_one")[rng.integers(2)]
    options["C"] = float(rng.uniform(0.1, 10.0)) if ordinary else float(10.0 ** rng.uniform(-8.0, 8.0))
    labels = [rng.integers(size, size=length) for length in lengths]
    problem = StructuredSVM.read(None, labels, size, kernel=kernel, **options)
    exact, unit, told = Exact(problem, kernel), problem.trivial_value, f"kernel, {options}"
    best = solve(problem, tol=1e-9, max_iterations=60)
    assert best.dual_point is not None
    truth, below = exact.dual(best.dual_point), exact.dual(best.dual_point, above=False)
    if truth is None or below is None:
        return
    yield Trial("dual", problem.dual(best.dual_point), truth, ordinary, unit, told)
    for by in (0.0, 1e-9, 1e-6, 1e-3):
        w = best.point["w"] * (1.0 + by * rng.normal(size=problem.dimension))
        yield Trial("primal", problem.primal({"w": w}), below, ordinary, unit, told)
    witness = _witness(rng, problem, ordinary)
    of_witness = exact.dual(witness)
    if of_witness is not None:
        yield Trial("dual", problem.dual(witness), of_witness, ordinary, unit, f"{told}, {', '.join(witness)}")


def instance(
    rng: np.random.Generator, kind: str, size: int, options: dict[str, Any], ordinary: bool
) -> tuple[StructuredSVM, str] | None:
    """Two examples of up to three nodes; None where `StructuredSVM.read` refuses the data, as it should."""
    lengths = [int(n) for n in rng.integers(1, 4, size=2)]
    if kind == "cycle":
        lengths = [3, 3]
    labels = [rng.integers(size, size=n) for n in lengths]
    width = int(rng.integers(1, 4))
    columns = np.ones(width) if ordinary else 10.0 ** rng.choice(SCALES, size=width)
    with np.errstate(all="ignore"):
        nodes: list[Any] = [np.nan_to_num(_numbers(rng, (n, width), True) * columns) for n in lengths]
    if rng.random() < 0.2:
        nodes = [sp.csr_array(x) for x in nodes]
    edges: Any = kind
    if kind in ("tree", "cycle"):
        edges = [nx.path_graph(n) if kind == "tree" else nx.cycle_graph(n) for n in lengths]
    n_edge_features = options.pop("n_edge_features", 0)
    if n_edge_features:
        sizes = [graph.number_of_edges() for graph in edges]
        options["edge_features"] = [np.abs(_numbers(rng, (q, n_edge_features), ordinary)) for q in sizes]
    loss: Any = ["hamming", "zero_one", "matrix", "tables"][rng.integers(4)]
    scaling: Literal["margin", "slack"] = "slack" if rng.random() < 0.4 else "margin"
    if options.get("inference"):
        loss, scaling = ("hamming" if loss == "zero_one" else loss), "margin"
    if loss == "matrix":
        loss = np.abs(_numbers(rng, (size, size), ordinary))
        np.fill_diagonal(loss, 0.0)
    elif loss == "tables":
        loss = [np.abs(_numbers(rng, (n, size), ordinary)) for n in lengths]
        for table, y in zip(loss, labels):
            table[np.arange(len(y)), y] = 0.0
    scale = ("C", "lam", "C_mean", "beta")[rng.integers(4)]
    options[scale] = float(rng.uniform(0.1, 10.0)) if ordinary else float(10.0 ** rng.choice(SCALES))
    if rng.random() < 0.3:
        options["weights"] = np.abs(_numbers(rng, (2,), ordinary)) + (0.1 if ordinary else 1e-300)
    told = f"{kind}, {size} labels, {scaling}, {loss if isinstance(loss, str) else 'costs'}, {sorted(options)}"
    try:
        return StructuredSVM.read(nodes, labels, size, edges=edges, loss=loss, scaling=scaling, **options), told
    except ValueError as refused:
        if "multiples of one" not in str(refused):
            raise
        return None


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], ordinary: bool) -> Any:
    """Ordinary: normal. Else each of its own scale, or all of one, some equal, some 0."""
    values = rng.normal(size=shape)
    if ordinary:
        return values
    scale = 10.0 ** (rng.choice(SCALES, size=shape) if rng.random() < 0.5 else rng.choice(SCALES))
    values = values * scale
    if rng.random() < 0.3:
        values = np.where(rng.random(shape) < 0.3, 0.0, values)
    if rng.random() < 0.2:
        values = np.round(values)
    return np.nan_to_num(values, posinf=1.7e308, neginf=-1.7e308)


def _witness(rng: np.random.Generator, problem: StructuredSVM, ordinary: bool) -> dict[str, Any]:
    """Labellings; or where the problem takes them Gibbs measures or marginals."""
    features, n = problem.features, problem.n_examples
    plain = problem.scaling == "margin" and not problem.loss.zero_one
    kinds = ["labels", "labels"]
    if plain and problem.oracle.summable:
        kinds.append("gibbs")
    try:
        nx.find_cycle(nx.Graph(features.edges.tolist()))
        acyclic = False
    except nx.NetworkXNoCycle:
        acyclic = True
    if plain and (acyclic or problem.oracle.relaxed):
        kinds.append("marginals")
    kind = kinds[rng.integers(len(kinds))]
    m = int(rng.integers(1, 6))
    shares = rng.dirichlet(np.full(m, 0.3), size=n).T
    if rng.random() < 0.3:
        shares = shares * rng.random()
    if not ordinary and rng.random() < 0.3:
        shares = shares * 10.0 ** rng.choice(SCALES[:9], size=shares.shape)
    if kind == "labels":
        return {"labels": rng.integers(features.n_labels, size=(m, features.n_nodes)), "label_shares": shares}
    if kind == "gibbs":
        thetas = _numbers(rng, (m, problem.dimension), ordinary)
        return {"gibbs": thetas, "gibbs_loss": np.abs(_numbers(rng, (m,), ordinary)), "gibbs_shares": shares}
    node = rng.dirichlet(np.full(features.n_labels, 0.3), size=features.n_nodes)
    edge = rng.dirichlet(np.full(features.n_labels**2, 0.3), size=features.n_edges)
    edge = edge.reshape(-1, features.n_labels, features.n_labels)
    return {"node_marginals": node, "edge_marginals": edge, "marginal_shares": shares.sum(axis=0).clip(0, 1)}
