"""The M3N dual by excessive gap: certified, within (26) at every round, and refused where it does not apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers import excessive_gap
from convexstruct.families.structured_svm.solvers.excessive_gap import ExcessiveGap, _Run
from convexstruct.marginals.pairwise_tables import clique_tables
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.families.structured_svm.solvers.references import holds, optimum

LENGTHS = (1, 3, 2)


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
        if gap <= LOW.gap * truth.primal or count >= 300:
            break
    assert gap <= LOW.gap * truth.primal


def test_the_largest_distance_is_that_of_a_labelling() -> None:
    instance = problem(1, lengths=(2, 1))
    run = _Run(instance, 1e-8)
    centre = run.centre()
    best = 0.0
    for labels in np.ndindex(3, 3, 3):
        node, edge = np.zeros((3, 3)), np.zeros((1, 3, 3))
        node[np.arange(3), labels] = instance.ceiling[instance.features.example]
        edge[0, labels[0], labels[1]] = instance.ceiling[0]
        apart = (x - y for x, y in zip((node, edge), centre.tables))
        best = max(best, 0.5 * sum(float(np.sum(each**2)) for each in apart))
    assert largest_distance(instance) == pytest.approx(best)


@pytest.mark.parametrize(("name", "value"), [("scaling", "slack"), ("loss", "zero_one")])
def test_what_it_cannot_solve_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="ExcessiveGap needs"):
        next(ExcessiveGap().iterate(problem(0, more={name: value})))


#: Nodes, edges and labels of graphs that are no chains.
GRAPHS = {
    "star": (4, [(0, 1), (2, 0), (0, 3)], 3),
    "tree": (5, [(3, 0), (0, 1), (4, 1), (1, 2)], 2),
    "two trees": (4, [(3, 0), (1, 2)], 3),
    "no edges": (3, [], 2),
    "triangle": (3, [(0, 1), (1, 2), (2, 0)], 3),
    "two triangles": (4, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 1)], 2),
    "square": (4, [(0, 1), (1, 2), (2, 3), (3, 0)], 2),
    "triangle apart": (5, [(0, 1), (1, 2), (2, 0), (3, 4)], 2),
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
    solution = solve(instance, ExcessiveGap(), tol=LOW, max_iterations=600)
    assert solution.status is Status.OPTIMAL
    holds(solution, optimum(instance), LOW.gap)


@pytest.mark.parametrize(("name", "n_features"), [("star", 2), ("two triangles", 1)])
def test_weights_of_edges_and_of_examples_and_features_of_edges_are_kept(name: str, n_features: int) -> None:
    """On trees any weights of edges, on loops those of an associative network."""
    z = np.random.default_rng(3).random((len(GRAPHS[name][1]), n_features))
    more: dict[str, Any] = {"weights": np.array([1.0, 0.3, 2.0]), "associative": name != "star"}
    instance = of_graph(name, edge_features=[z, np.zeros((0, n_features)), 2.0 * z], **more)
    holds(solve(instance, ExcessiveGap(), tol=1e-2, max_iterations=300), optimum(instance), 1e-2)


def test_without_the_agreements_of_the_cliques_the_bound_is_above_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slip that (35)-(36) guard against; what the certificate then makes of the point stays below."""
    instance = of_graph("two triangles")
    truth = optimum(instance)

    def loose(features: Any) -> Any:
        tables = clique_tables(features)
        return replace(tables, structure=replace(tables.structure, agreements=()))

    monkeypatch.setattr(excessive_gap, "clique_tables", loose)
    *_, iterate = islice(ExcessiveGap().iterate(instance), 60)
    assert iterate.lower_bound > truth * (1 + LOW.gap)
    assert callable(iterate.dual_point)
    assert instance.dual(iterate.dual_point()) <= truth * (1 + ROUNDING)


@pytest.mark.parametrize("name", ["star", "triangle"])
def test_graphs_without_features_are_optimal_at_once(name: str) -> None:
    zeros = np.zeros((len(GRAPHS[name][1]), 1))
    instance = of_graph(name, scale=0.0, edge_features=[zeros, np.zeros((0, 1)), zeros])
    solution = solve(instance, ExcessiveGap(), max_iterations=1)
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("name", ["star", "triangle"])
def test_equal_features_and_scores_that_tie_are_served(name: str) -> None:
    instance = of_graph(name, scale=0.0)  # every node alike: the tables of edges alone tell labels apart
    holds(solve(instance, ExcessiveGap(), tol=LOW, max_iterations=600), optimum(instance), LOW.gap)


def test_over_edges_alone_it_solves_the_relaxed_problem() -> None:
    """The local polytope of a triangle is larger than that of its distributions: the optimum is at least as large."""
    instance = of_graph("triangle", 1)
    relaxed = replace(instance, inference="relaxed")
    solution = solve(relaxed, ExcessiveGap(), tol=1e-2, max_iterations=100)
    assert solution.status is Status.OPTIMAL
    truth = solve(relaxed, tol=HIGH)
    assert solution.lower_bound <= truth.primal * (1 + ROUNDING)
    assert solution.primal >= truth.lower_bound * (1 - ROUNDING)
    assert truth.primal >= optimum(instance) * (1 - HIGH.gap)
