"""Trials of `benchmarks/rounding.py` for conditional random fields: all labellings written out, scores as fractions.

P(theta) is a rational number plus logarithms of sums of exponentials, in 50 digits. The optimum is bounded from above
by P at the best point that a solver found, and at some near it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import networkx as nx
import numpy as np

from benchmarks.rounding import Trial
from convexstruct.arrays import Point, Vector
from convexstruct.core.driver import solve
from convexstruct.families.log_linear import ConditionalRandomField, Penalty

DIGITS = 50
#: Dual points, and points, that are tried on each instance.
EACH = 20


@dataclass
class Exact:
    """The joint features of every allowed labelling as fractions, example by example; that of the truth first."""

    problem: ConditionalRandomField
    each: list[list[list[Fraction]]]

    @classmethod
    def of(cls, problem: ConditionalRandomField) -> Exact:
        features, each = problem.features, []
        x = np.asarray(features.node_features)
        for i in range(features.n_examples):
            low, high = int(features.node_start[i]), int(features.node_start[i + 1])
            edges = np.flatnonzero(features.edge_example == i)
            truth = tuple(features.truth[low:high].tolist())
            rows = []
            for labels in sorted(product(range(features.n_labels), repeat=high - low), key=lambda y: y != truth):
                row = [Fraction(0)] * problem.dimension
                pairs = [tuple(labels[v - low] for v in features.edges[e].tolist()) for e in edges]
                if problem.forbidden is not None and any(problem.forbidden[pair] for pair in pairs):
                    continue
                for v, label in enumerate(labels):
                    for f in range(x.shape[1]):
                        row[label * x.shape[1] + f] += Fraction(float(x[low + v, f]))
                for e, (s, t) in zip(edges, pairs):
                    z = [1.0] if features.edge_features is None else features.edge_features[e].tolist()
                    for k, value in enumerate(z):
                        place = features.n_node_weights + (k * features.n_labels + s) * features.n_labels + t
                        row[place] += Fraction(value)
                rows.append(row)
            each.append(rows)
        return cls(problem, each)

    def value(self, theta: Vector) -> Any:
        """P(theta): off by 1e-45 of the logarithms at most."""
        problem, exact = self.problem, [Fraction(x) for x in theta.tolist()]
        lam, l1 = Fraction(problem.scale.lam), Fraction(problem.l1)
        total = number(sum((lam / 2 * t * t + l1 * abs(t) for t in exact), Fraction(0)))
        for ceiling, rows in zip(problem.ceiling.tolist(), self.each):
            scores = [sum((a * b for a, b in zip(row, exact)), Fraction(0)) for row in rows]
            total += ceiling * mpmath.log(mpmath.fsum(mpmath.exp(number(score - scores[0])) for score in scores))
        return total


def number(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


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
