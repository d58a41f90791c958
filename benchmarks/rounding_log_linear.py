"""Trials of `benchmarks/rounding.py` for conditional random fields: all labellings written out, scores as fractions.

P(theta) is a rational number plus logarithms of sums of exponentials, in 50 digits. The optimum is bounded from above
by P at the best point that a solver found, and at some near it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import networkx as nx
import numpy as np

from benchmarks.exact import DIGITS, Exactly, exactly, log_sum, number
from benchmarks.rounding import Trial
from convexstruct.arrays import Point, Vector
from convexstruct.core.driver import solve
from convexstruct.families.log_linear import ConditionalRandomField, Penalty
from convexstruct.oracles.enumeration import labellings

#: Dual points, and points, that are tried on each instance.
EACH = 20


@dataclass
class Exact:
    """The joint features of every allowed labelling less those of the truth, as fractions, example by example."""

    problem: ConditionalRandomField
    each: list[Exactly]

    @classmethod
    def of(cls, problem: ConditionalRandomField) -> Exact:
        features, each = problem.features, []
        size = features.n_labels
        x = exactly(features.node_features)
        z = exactly(np.ones((features.n_edges, 1)) if features.edge_features is None else features.edge_features)
        for i, truth in enumerate(features.split_labels(features.truth)):
            low, edges, rows = features.node_start[i], np.flatnonzero(features.edge_example == i), []
            for labels in (truth, *labellings([size] * len(truth))):
                node, edge = (
                    np.zeros((size, x.shape[1]), dtype=object),
                    np.zeros((z.shape[1], size, size), dtype=object),
                )
                pairs = labels[features.edges[edges] - low]
                if problem.forbidden is not None and problem.forbidden[pairs[:, 0], pairs[:, 1]].any():
                    continue
                for v, label in enumerate(labels):
                    node[label] += x[low + v]
                for e, (s, t) in zip(edges, pairs):
                    edge[:, s, t] += z[e]
                rows.append(np.concatenate((node.ravel(), edge.ravel()))[: problem.dimension])
            each.append(np.array(rows)[1:] - rows[0])
        return cls(problem, each)

    def value(self, theta: Vector) -> mpmath.mpf:
        """P(theta): off by 1e-50 of the logarithms at most."""
        at, scale = exactly(theta), self.problem.scale
        total = number((exactly(scale.lam) / 2 * at * at + exactly(self.problem.l1) * abs(at)).sum())
        for ceiling, rows in zip(self.problem.ceiling.tolist(), self.each):
            scores = rows @ at
            total += ceiling * (log_sum(scores) + number(scores.max()))
        return total


def instance(rng: np.random.Generator, ordinary: bool) -> ConditionalRandomField:
    """A few nodes on chains, stars or cycles; features, weights and penalties of any scale unless ``ordinary``."""
    s = int(rng.integers(1, 4))
    lengths = rng.integers(1, 5 if s < 3 else 4, size=int(rng.integers(1, 4))).tolist()
    labels = [rng.integers(s, size=n) for n in lengths]
    reach = 1 if ordinary else int(rng.choice([4, 30, 100]))

    def scale() -> float:
        return float(np.ldexp(1.0, int(rng.integers(-reach, reach + 1))))

    options: dict[str, Any] = {}
    kind = int(rng.integers(4))
    if kind > 1:
        shape = nx.star_graph if kind == 2 else (lambda n: nx.cycle_graph(n + 1) if n > 1 else nx.path_graph(n + 1))
        options["edges"] = graphs = [shape(n - 1) for n in lengths]
        if rng.integers(2):
            options["edge_features"] = [scale() * rng.normal(size=(graph.number_of_edges(), 1)) for graph in graphs]
    penalty = int(rng.integers(4))
    options |= {"l1": scale() if penalty % 2 else 0.0} | ({"beta": scale()} if penalty > 1 else {})
    columns = np.array([scale(), scale()])
    inputs = [columns * rng.normal(size=(n, 2)) for n in lengths]
    weights = [scale() for _ in lengths]
    problem = ConditionalRandomField.read(inputs, labels, s, weights=weights, **options)
    if rng.integers(4) == 0 and s > 1:
        forbidden = rng.random((s, s)) < 0.3
        first, second = problem.features.truth[problem.features.edges].T
        forbidden[first, second] = False
        problem = ConditionalRandomField.read(inputs, labels, s, weights=weights, forbidden=forbidden, **options)
    return problem


def witnesses(
    rng: np.random.Generator, problem: ConditionalRandomField, theta: Vector, ordinary: bool
) -> Iterator[Point]:
    """Gibbs distributions near theta and of every size (of 1 where ``ordinary``), alone and mixed with labellings."""
    for _ in range(EACH // 2):
        near = theta * (1.0 + 10.0 ** rng.uniform(-16, 0) * rng.normal(size=len(theta)))
        far = (1.0 if ordinary else 10.0 ** rng.uniform(-3, 3)) * rng.normal(size=len(theta))
        yield problem.witness(near)
        shares = rng.dirichlet(np.ones(3), size=problem.n_examples).T
        features = problem.features
        drawn = rng.integers(features.n_labels, size=features.n_nodes)
        yield {
            "gibbs": np.array([near, far]), "gibbs_shares": shares[:2],
            "labels": (features.truth if rng.integers(2) else drawn)[None],
            "label_shares": shares[2:],
        }  # fmt: skip


def trials(rng: np.random.Generator) -> Iterator[Trial]:
    """P at points, and D at dual points, near the optimum and of every size."""
    mpmath.mp.dps = DIGITS
    while True:
        ordinary = bool(rng.integers(2))
        problem = instance(rng, ordinary)
        ordinary = ordinary and problem.penalty != Penalty()  # without a penalty theta may run away to any size
        exact = Exact.of(problem)
        best = solve(problem, max_iterations=100).point["theta"]
        told = repr(problem)
        least = min(exact.value(theta) for theta in (best, 0.0 * best, best * (1 + 1e-9), best * (1 - 1e-9)))
        for k in range(EACH):
            size = 1.0 if ordinary else 10.0 ** rng.uniform(-6, 3)
            theta = best + size * rng.normal(size=len(best)) if k else best
            yield Trial(
                "primal", problem.primal({"theta": theta}), exact.value(theta), ordinary, problem.trivial_value, told
            )
        for witness in witnesses(rng, problem, best, ordinary):
            yield Trial("dual", problem.dual(witness), least, ordinary, problem.trivial_value, told)
