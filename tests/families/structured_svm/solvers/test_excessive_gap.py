"""The M3N dual by excessive gap: certified, within (26) at every round, and refused where it does not apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.excessive_gap import ExcessiveGap
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.structured_svm.solvers.references import holds, optimum

LENGTHS = (1, 3, 2)
#: The gap of a run: rounds are as its inverse.
NEAR = 3e-2


def problem(
    seed: int, lengths: tuple[int, ...] = LENGTHS, n_labels: int = 3, more: Mapping[str, Any] | None = None
) -> StructuredSVM:
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(n, 2)) for n in lengths]
    labels = [rng.integers(0, n_labels, n) for n in lengths]
    return StructuredSVM.read(features, labels, n_labels, C=0.5, **(more or {}))


def largest_distance(problem: StructuredSVM) -> float:
    """Dmax = max over Q of |a - a_0|^2 / 2, which labellings attain: with n nodes and S labels,
    sum_i c_i^2 [n (1 - 1/S) + (n - 1) (1 - 1/S^2)] / 2."""
    s, n = problem.features.n_labels, problem.features.lengths
    return 0.5 * float(problem.ceiling**2 @ (n * (1.0 - 1.0 / s) + (n - 1) * (1.0 - 1.0 / s**2)))


@pytest.mark.slow
def test_it_reaches_the_optimum_and_keeps_26_at_every_round() -> None:
    instance = problem(0)
    truth = solve(instance, tol=HIGH)
    most = largest_distance(instance)
    for count, iterate in enumerate(ExcessiveGap().iterate(instance), start=1):
        mu = float(iterate.message.rsplit("mu = ", 1)[1])
        gap = iterate.primal - iterate.lower_bound
        assert gap <= mu * most * (1 + 1e-5) + 1e-6 * truth.primal
        assert iterate.lower_bound <= truth.primal * (1 + ROUNDING)
        assert iterate.primal >= truth.lower_bound * (1 - ROUNDING)
        if gap <= NEAR * truth.primal or count >= 300:
            break
    assert gap <= NEAR * truth.primal


#: Nodes, edges and labels of graphs that are no chains.
GRAPHS = {
    "star": (4, [(0, 1), (2, 0), (0, 3)], 3),
    "tree": (5, [(3, 0), (0, 1), (4, 1), (1, 2)], 2),
    "no edges": (3, [], 2),
    "triangle": (3, [(0, 1), (1, 2), (2, 0)], 3),
    "two triangles": (4, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 1)], 2),
    "wheel": (5, [(0, 1), (1, 2), (2, 3), (3, 0), *((i, 4) for i in range(4))], 2),
}


def of_graph(name: str, seed: int = 0, scale: float = 1.0, C: float = 0.5, **more: Any) -> StructuredSVM:
    """Two examples with this graph, and one of a single node."""
    rng = np.random.default_rng(seed)
    n, edges, n_labels = GRAPHS[name]
    rows = [scale * rng.normal(size=(size, 2)) for size in (n, 1, n)]
    labels = [rng.integers(0, n_labels, len(each)) for each in rows]
    return StructuredSVM.read(rows, labels, n_labels, edges=[edges, [], edges], C=C, **more)


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for seed, name in enumerate(GRAPHS)])
def test_trees_and_junction_trees_have_the_optimum_of_all_labellings_written_out(name: str, seed: int) -> None:
    instance = of_graph(name, seed)
    solution = solve(instance, ExcessiveGap(), tol=NEAR, max_iterations=200)
    assert solution.status is Status.OPTIMAL
    holds(solution, optimum(instance), NEAR)


@pytest.mark.parametrize(("name", "n_features"), [("star", 2), ("two triangles", 1)])
def test_weights_of_edges_and_of_examples_and_features_of_edges_are_kept(name: str, n_features: int) -> None:
    """On trees any weights of edges, on loops those of an associative network."""
    z = np.random.default_rng(3).random((len(GRAPHS[name][1]), n_features))
    more: dict[str, Any] = {"weights": np.array([1.0, 0.3, 2.0]), "associative": name != "star"}
    instance = of_graph(name, edge_features=[z, np.zeros((0, n_features)), 2.0 * z], **more)
    holds(solve(instance, ExcessiveGap(), tol=NEAR, max_iterations=300), optimum(instance), NEAR)


def test_over_edges_alone_it_solves_the_relaxed_problem() -> None:
    """The local polytope of a triangle is larger than that of its distributions: the optimum is at least as large."""
    instance = of_graph("triangle", 1)
    relaxed = replace(instance, inference="relaxed")
    solution = solve(relaxed, ExcessiveGap(), tol=NEAR, max_iterations=100)
    assert solution.status is Status.OPTIMAL
    truth = solve(relaxed, tol=HIGH)
    assert solution.lower_bound <= truth.primal * (1 + ROUNDING)
    assert solution.primal >= truth.lower_bound * (1 - ROUNDING)
    assert truth.primal >= optimum(instance) * (1 - HIGH.gap)
