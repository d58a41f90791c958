"""Conditional random fields: new examples, likelihoods without a maximum or a penalty, rounding, and what is refused.

`combinations` has values and solutions by all labellings written out, `benchmarks/exact.py` the bounds at any point and
mixture, in exact numbers.
"""

from __future__ import annotations

import itertools
import math
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.models import FORMULATIONS
from tests.families.log_linear.random_fields import field


def test_new_examples_are_labelled_by_the_weights_alone() -> None:
    problem = field(6)
    theta = np.random.default_rng(6).normal(size=problem.dimension)
    x = np.split(problem.features.node_features, problem.features.node_start[1:-1])
    for found, wanted in zip(problem.predict(theta, x), problem.predict(theta), strict=True):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match="the features of training"):
        problem.predict(theta, [np.ones((2, 5))])


def test_sparse_features_give_the_same_problem_as_dense_ones() -> None:
    problem = field(12, "sparse")
    dense = ConditionalRandomField.read(
        problem.features.node_features.toarray(),
        problem.features.split_labels(problem.features.truth), 3, weights=problem.weights, C=1.5,
    )  # fmt: skip
    theta = np.random.default_rng(12).normal(size=problem.dimension)
    np.testing.assert_allclose(problem.value_and_gradient(theta)[1], dense.value_and_gradient(theta)[1], atol=1e-13)
    np.testing.assert_allclose(problem.curvature(theta), dense.curvature(theta), atol=1e-13)


# -- no maximum --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-2, 1e-6])  # certified, and ended by rounding
@pytest.mark.parametrize(
    ("one", "edges"),
    [
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "chain"),  # a feature that no truth has
        ([[0.5], [-1.0], [2.0]], "chain"),
        ([[1.0], [-1.0], [2.0]], "none"),  # separable
    ],
)
def test_the_message_says_that_there_is_no_maximum_however_the_run_ends(one: Any, edges: str, tol: float) -> None:
    problem = ConditionalRandomField.read([one], [[0, 1, 0]], 2, edges=edges)
    solution = solve(problem, tol=tol)
    assert "the likelihood has no maximum" in solution.message
    assert "C / lam" not in solution.message  # there is no lam
    direction = problem.runaway(solution.point["theta"])
    assert direction is not None
    direction = direction / np.abs(direction).max()
    falls = [float(problem.primal({"theta": size * direction})) for size in (0.0, 1.0, 2.0, 4.0, 8.0)]
    assert all(b < a for a, b in pairwise(falls))


@pytest.mark.parametrize("given", [{"n_labels": 1}, {"n_labels": 2, "forbidden": [[0, 1], [1, 1]]}])
def test_where_labels_are_forced_any_theta_is_a_maximum_and_the_message_says_nothing_else(given: Any) -> None:
    given = {name: np.array(value, dtype=bool) if name == "forbidden" else value for name, value in given.items()}
    solution = solve(ConditionalRandomField.read([[[0.0], [0.0]]], [[0, 0]], **given))
    assert "maximum" not in solution.message


@pytest.mark.parametrize("edges", ["chain", "none", "featured"])
def test_without_a_penalty_the_optimum_is_certified_where_it_exists(edges: str) -> None:
    """Labels at random, far more than features."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n, 2)) * [1.0, 10.0] for n in (3, 1, 4) * 12]
    y = [rng.integers(2, size=len(each)) for each in x]
    sizes = [rng.normal(size=(len(each) - 1, 2)) for each in x] if edges == "featured" else None
    kind = "none" if edges == "none" else "chain"
    problem = ConditionalRandomField.read(x, y, 2, edges=kind, edge_features=sizes)
    solution = solve(problem, tol=1e-6)
    assert solution.status is Status.OPTIMAL, solution
    assert solution.lower_bound > 0.9 * problem.n_examples * np.log(2.0)
    stated = FORMULATIONS["log_linear.likelihood"].builder(problem).reference("CLARABEL")
    assert solution.lower_bound <= stated.value * (1 + 1e-7)


def test_features_of_edges_where_no_example_has_an_edge() -> None:
    x, none = [np.ones((1, 2))] * 3, [np.zeros((0, 2), dtype=int)] * 3
    problem = ConditionalRandomField.read(x, [[0], [1], [2]], 3, edges=none, edge_features=[np.zeros((0, 2))] * 3)
    assert solve(problem).lower_bound == pytest.approx(3.0 * np.log(3.0))


# -- rounding, and what is refused -------------------------------------------------------------------------------------


def test_a_run_that_rounding_ends_names_the_features_to_scale() -> None:
    plain = field(8, "chains", lam=None, C=None, beta=0.5)
    x = np.split(1e20 * plain.features.node_features, plain.features.node_start[1:-1])
    problem = ConditionalRandomField.read(x, plain.features.split_labels(plain.features.truth), 3, beta=0.5)
    solution = solve(problem)
    assert not solution.status.solved
    assert "node feature" in solution.message
    assert "scale the features to sizes near 1" in solution.message


def test_scores_that_lose_their_digits_are_in_the_allowance() -> None:
    """1e16 + 1 - 1e16 is 1, whatever a sum in double precision makes of it: P is ln(1 + 1/e). Without a penalty scores
    are summed with more digits."""
    exact, lost = math.log1p(math.exp(-1.0)), 0
    for x in itertools.permutations((1e16, 1.0, -1e16)):
        for l1 in (0.0, 1e-20):
            problem = ConditionalRandomField.read([[x]], [[0]], 2, l1=l1)
            found = problem.primal({"theta": np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])})
            assert found.lower <= exact <= found.upper
            assert l1 or abs(float(found) - exact) <= 1e-15
            lost += abs(float(found) - exact) > 0.1
    assert lost


def test_a_graph_that_is_too_wide_is_refused_with_its_width_and_what_serves_instead() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12))
    with pytest.raises(ValueError, match=r"(?s)example 0.*width.*pseudolikelihood.*Bethe"):
        ConditionalRandomField.read([np.ones((144, 1))], [np.zeros(144, dtype=int)], 4, edges=[grid])


@pytest.mark.parametrize("penalty", [{"C": None}, {"C": 1.5}])
def test_a_witness_with_a_loss_or_a_forbidden_labelling_proves_nothing(penalty: Any) -> None:
    problem = field(11, "forbidden", **penalty)
    theta, one = np.zeros(problem.dimension), np.ones((1, problem.n_examples))
    with pytest.raises(ValueError, match="gibbs_loss"):
        problem.dual({**problem.witness(theta), "gibbs_loss": np.ones(1)})
    falling = np.zeros(problem.features.n_nodes, dtype=np.int64)
    falling[0] = 1
    assert problem.dual({"labels": falling[None], "label_shares": one}) == 0.0
    assert certify(problem, theta, {"gibbs": theta[None], "gibbs_shares": 2.0 * one}).lower_bound == -np.inf
