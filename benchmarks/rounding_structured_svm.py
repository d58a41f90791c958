"""Bounds of structural SVMs against rational arithmetic: all labellings written out, in fractions.

Every kind of oracle and of dual witness, both scalings, every kind of loss; features, costs, weights, C and w of scales
from 1e-300 to 1e300. A primal value is held against the exact objective at the same w; a dual one against the exact
objective at points that are good and, where the data are so small that it is known, against the exact dual optimum of
the witness itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal

import networkx as nx
import numpy as np
import scipy.sparse as sp

from benchmarks.rounding import Trial
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.oracles.enumeration import labellings

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
#: Exponents of ten that adversarial data are drawn from.
SCALES = (-300.0, -160.0, -150.0, -30.0, -8.0, -1.0, 0.0, 0.0, 0.0, 1.0, 8.0, 12.0, 30.0, 150.0, 160.0, 300.0)


def trials(rng: np.random.Generator) -> Iterator[Trial]:
    """Instance after instance, a handful of bounds each."""
    while True:
        ordinary = bool(rng.random() < 0.3)
        kind, size, options = KINDS[rng.integers(len(KINDS))]
        made = instance(rng, kind, size, dict(options), ordinary)
        if made is None:
            continue
        problem, told = made
        exact = Exact(problem)
        for _ in range(3):
            w = problem.project(_numbers(rng, (problem.dimension,), ordinary))
            point: dict[str, Any] = {"w": w}
            if problem.oracle.relaxed and rng.random() < 0.5:
                shape = (len(problem.forests.nodes), size)
                point["shifts"] = _numbers(rng, shape, ordinary)
            scale = problem.trivial_value
            yield Trial("primal", problem.primal(point), exact.primal(w), ordinary, scale, told)
            witness = _witness(rng, problem, ordinary)
            bound = problem.dual(witness)
            # labellings: the exact dual value of shares that are scaled until they sum to 1; else weak duality alone
            truth = exact.least_above(witness, [w, *exact.good(witness)])
            yield Trial("dual", bound, truth, ordinary, scale, f"{told}, {', '.join(witness)}")


def instance(
    rng: np.random.Generator, kind: str, size: int, options: dict[str, Any], ordinary: bool
) -> tuple[StructuredSVM, str] | None:
    """Two examples of up to three nodes; None where the door refuses the data, as it should."""
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


class Exact:
    """A problem in fractions, every labelling written out: rows (features, loss) of each example."""

    def __init__(self, problem: StructuredSVM) -> None:
        self.problem = problem
        features = problem.features
        x = features.node_features
        self.x = _fractions(x.toarray() if sp.issparse(x) else x)
        z = np.ones((features.n_edges, 1)) if features.edge_features is None else features.edge_features
        self.z = _fractions(z)
        self.lam = Fraction(problem.lam)
        self.ceiling = [Fraction(problem.scale.C) * Fraction(float(omega)) for omega in problem.weights]
        self.costs = _fractions(problem.loss.costs)
        self.every = [labellings([features.n_labels] * int(n)) for n in features.lengths]
        self.parts = [self._parts(i) for i in range(problem.n_examples)]

    def _parts(self, i: int) -> tuple[list[Any], list[dict[int, Fraction]], list[Fraction]]:
        rows = [self.joint(i, y) for y in self.every[i].tolist()]
        losses = [self.loss(i, y) for y in self.every[i].tolist()]
        return self.every[i].tolist(), rows, losses

    def joint(self, i: int, y: list[int]) -> dict[int, Fraction]:
        """f(x_i, y), entries that are not 0."""
        features = self.problem.features
        first, size, width = int(features.node_start[i]), features.n_labels, features.n_node_features
        found: dict[int, Fraction] = {}
        for v, label in enumerate(y):
            for f in range(width):
                at = label * width + f
                found[at] = found.get(at, Fraction(0)) + self.x[first + v][f]
        for e in np.flatnonzero(features.edge_example == i):
            s, t = (y[int(v) - first] for v in features.edges[e])
            if features.associative and s != t:
                continue
            cell, block = (s, size) if features.associative else (s * size + t, size * size)
            for k, value in enumerate(self.z[e]):
                at = size * width + k * block + cell
                found[at] = found.get(at, Fraction(0)) + value
        return found

    def loss(self, i: int, y: list[int]) -> Fraction:
        features = self.problem.features
        first = int(features.node_start[i])
        if self.problem.loss.zero_one:
            return Fraction(int(y != features.truth[first : first + len(y)].tolist()))
        return sum((self.costs[first + v][label] for v, label in enumerate(y)), Fraction(0))

    def primal(self, w: Any) -> Fraction:
        """lam/2 |w|^2 + sum C omega H, over labellings: at most the objective of the relaxed problem."""
        exact = [Fraction(float(each)) for each in w]
        value = self.lam / 2 * sum((each * each for each in exact), Fraction(0))
        for i, (every, rows, losses) in enumerate(self.parts):
            scores = [sum((exact[at] * each for at, each in row.items()), Fraction(0)) for row in rows]
            truth = scores[self._truth(i, every)]
            worst = Fraction(0)
            for score, loss in zip(scores, losses):
                margin = truth - score
                worst = max(worst, loss * (1 - margin) if self.problem.scaling == "slack" else loss - margin)
            value += self.ceiling[i] * worst
        return value

    def relaxed(self, w: Any) -> Fraction:
        """The same with the maximum over labellings bounded from above, node by node and edge by edge: it bounds the
        maximum over the local polytope too."""
        features, exact = self.problem.features, [Fraction(float(each)) for each in w]
        size, width = features.n_labels, features.n_node_features
        value = self.lam / 2 * sum((each * each for each in exact), Fraction(0))
        for i, (every, rows, _) in enumerate(self.parts):
            truth = rows[self._truth(i, every)]
            worst = -sum((exact[at] * each for at, each in truth.items()), Fraction(0))
            first = int(features.node_start[i])
            for v in range(first, int(features.node_start[i + 1])):
                worst += max(
                    self.costs[v][s] + sum((exact[s * width + f] * self.x[v][f] for f in range(width)), Fraction(0))
                    for s in range(size)
                )
            for e in np.flatnonzero(features.edge_example == i):
                tables = [
                    sum(
                        (z * exact[size * width + k * size * size + cell] for k, z in enumerate(self.z[e])), Fraction(0)
                    )
                    for cell in range(size * size)
                ]
                worst += max(tables)
            value += self.ceiling[i] * max(worst, Fraction(0))
        return value

    def _truth(self, i: int, every: list[list[int]]) -> int:
        features = self.problem.features
        nodes = slice(int(features.node_start[i]), int(features.node_start[i + 1]))
        return every.index(features.truth[nodes].tolist())

    def psi(self, witness: dict[str, Any]) -> tuple[list[Fraction], Fraction, Fraction]:
        """(Psi, E) of a mixture of labellings as it stands, and the largest sum of shares."""
        features = self.problem.features
        psi, loss = [Fraction(0)] * self.problem.dimension, Fraction(0)
        most = Fraction(0)
        for i, (every, rows, losses) in enumerate(self.parts):
            nodes = slice(int(features.node_start[i]), int(features.node_start[i + 1]))
            truth, sums = rows[self._truth(i, every)], Fraction(0)
            for y, share in zip(witness["labels"][:, nodes].tolist(), witness["label_shares"][:, i].tolist()):
                at = every.index(y)
                sums += Fraction(share)
                alpha = Fraction(share) * self.ceiling[i]
                weight = alpha * losses[at] if self.problem.scaling == "slack" else alpha
                loss += alpha * losses[at]
                for entry, value in truth.items():
                    psi[entry] += weight * value
                for entry, value in rows[at].items():
                    psi[entry] -= weight * value
            most = max(most, sums)
        return psi, loss, most

    def good(self, witness: dict[str, Any]) -> list[Any]:
        """Points near which a dual value of the witness is attained: the Psi_+ / lam of its labellings, and 0."""
        points = [np.zeros(self.problem.dimension)]
        if "labels" in witness:
            psi, loss, _ = self.psi(witness)
            kept = self._kept(psi)
            square = sum((each * each for each in kept), Fraction(0))
            t = min(Fraction(1), self.lam * loss / square) if square else Fraction(1)
            with np.errstate(all="ignore"):
                point = np.array([_float(t * each / self.lam) for each in kept])
            if np.isfinite(point).all():
                points.append(point)
        return points

    def _kept(self, psi: list[Fraction]) -> list[Fraction]:
        """Psi_+."""
        only = self.problem.features.nonnegative
        return [max(each, Fraction(0)) if low else each for each, low in zip(psi, only)]

    def least_above(self, witness: dict[str, Any], points: list[Any]) -> Fraction:
        """An upper bound on what a valid lower bound may be: the exact objective at feasible points; where the witness
        is one of labellings, also the exact best of D on its ray, for shares that sum to 1 at most."""
        if self.problem.oracle.relaxed:
            return min(self.relaxed(point) for point in points)
        least = min(self.primal(point) for point in points)
        if "labels" in witness:
            psi, loss, most = self.psi(witness)
            square = sum((each * each for each in self._kept(psi)), Fraction(0))
            end = 1 / max(most, Fraction(1))
            t = min(end, self.lam * loss / square) if square else end
            alphas = [Fraction(x) * c for row in witness["label_shares"].tolist() for x, c in zip(row, self.ceiling)]
            # among the smallest numbers a share is rounded to another, which may prove more
            if most <= 1 and all(alpha == 0 or alpha > Fraction(1e-300) for alpha in alphas):
                least = min(least, t * loss - t * t * square / (2 * self.lam))
        return least


def _fractions(table: Any) -> list[list[Fraction]]:
    return [[Fraction(float(each)) for each in row] for row in np.asarray(table)]


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")
