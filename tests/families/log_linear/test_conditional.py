"""Conditional random fields: against every labelling written out, and what is refused; `combinations` has gradients
and solutions of all kinds."""

from __future__ import annotations

import itertools
import math
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.models import FORMULATIONS
from convexstruct.rounding import exact
from tests.families.log_linear.random_fields import KINDS, field, written_out

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_both_bounds_are_what_is_written_out_to_within_their_allowances(kind: str, size: float) -> None:
    problem = field(2, kind, l1=0.01)
    theta = size * np.random.default_rng(3).normal(size=problem.dimension)
    expected, penalty = written_out(problem, theta), problem.penalty
    found = problem.primal({"theta": theta})
    assert abs(found - expected.loss - penalty.value(theta)) <= found.allowance + 1e-10 * (1.0 + abs(found))
    assert found.allowance <= 1e-11 * (1.0 + abs(found) + size)
    share = penalty.share(expected.entropy, expected.gradient)
    wanted = share * expected.entropy - float(penalty.conjugate(exact(expected.gradient), share))
    bound = problem.dual(problem.witness(theta))
    assert abs(bound - max(wanted, 0.0)) <= bound.allowance + 1e-9 * (1.0 + abs(wanted))


@every_kind
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), size=st.floats(0, 5))
def test_no_dual_point_is_above_any_point(kind: str, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    problem = field(3, kind, l1=0.1)
    point, other = size * rng.normal(size=(2, problem.dimension))
    shares = rng.dirichlet(np.ones(3), size=problem.n_examples).T
    labels = problem.features.truth if kind == "forbidden" else rng.integers(3, size=problem.features.n_nodes)
    mixture = {
        "gibbs": np.array([point, other]), "gibbs_shares": shares[:2],
        "labels": labels[None], "label_shares": shares[2:],
    }  # fmt: skip
    for witness in (problem.witness(other), mixture):
        assert problem.dual(witness).lower <= problem.primal({"theta": point}).upper


@every_kind
def test_predictions_and_probabilities_are_those_of_all_labellings(kind: str) -> None:
    problem = field(4, kind)
    theta = 2.0 * np.random.default_rng(5).normal(size=problem.dimension)
    expected = written_out(problem, theta)
    np.testing.assert_array_equal(np.concatenate(problem.predict(theta)), expected.best)
    np.testing.assert_allclose(np.concatenate(problem.posteriors(theta)), expected.node, atol=1e-12)
    np.testing.assert_allclose(problem.log_likelihoods(theta), expected.logs, rtol=1e-10, atol=1e-12)


def test_new_examples_are_labelled_by_the_weights_alone() -> None:
    problem = field(6)
    theta = np.random.default_rng(6).normal(size=problem.dimension)
    x = np.split(problem.features.node_features, problem.features.node_start[1:-1])
    for found, wanted in zip(problem.predict(theta, x), problem.predict(theta), strict=True):
        np.testing.assert_array_equal(found, wanted)
    truth = problem.features.split_labels(problem.features.truth)
    np.testing.assert_allclose(problem.log_likelihoods(theta, x, truth), problem.log_likelihoods(theta))
    with pytest.raises(ValueError, match=r"labels\[0\] is 3, wanted a whole number from 0 to 2"):
        problem.log_likelihoods(theta, [x[1]], [[3]])
    with pytest.raises(ValueError, match="labels is None, wanted one array of labels"):
        problem.log_likelihoods(theta, x)
    with pytest.raises(ValueError, match="the features of training"):
        problem.predict(theta, [np.ones((2, 5))])


def test_a_run_that_rounding_ends_names_the_features_to_scale() -> None:
    plain = field(8, "chains", lam=None, C=None, beta=0.5)
    x = np.split(1e20 * plain.features.node_features, plain.features.node_start[1:-1])
    problem = ConditionalRandomField.read(x, plain.features.split_labels(plain.features.truth), 3, beta=0.5)
    solution = solve(problem)
    assert not solution.status.solved
    assert "node feature" in solution.message
    assert "scale the features to sizes near 1" in solution.message


def loss_along(problem: ConditionalRandomField, direction: np.ndarray) -> list[float]:
    """L at 0, d, 2 d, 4 d, ... by enumeration."""
    return [written_out(problem, size * direction).loss for size in (0.0, 1.0, 2.0, 4.0, 8.0)]


def test_a_feature_that_no_truth_has_runaway() -> None:
    x, labels = [np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])], [[0, 1, 0]]
    problem = ConditionalRandomField.read(x, labels, 2)
    direction = problem.runaway()
    assert direction is not None
    found = loss_along(problem, direction)
    assert all(b < a for a, b in pairwise(found))


def test_separable_data_run_away_along_the_weights_that_separate_them() -> None:
    problem = ConditionalRandomField.read([[[1.0], [-1.0], [2.0]]], [[0, 1, 0]], 2, edges="none")
    solution = solve(problem)
    direction = problem.runaway(solution.point["theta"])
    assert direction is not None
    found = loss_along(problem, direction / np.abs(direction).max())
    assert all(b < a for a, b in pairwise(found))
    assert solution.primal < 1e-6
    assert "the likelihood has no maximum" in solution.message


# -- no maximum --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-2, 1e-6])  # certified, and ended by rounding
@pytest.mark.parametrize("one", [[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[0.5], [-1.0], [2.0]]])
def test_the_message_says_that_there_is_no_maximum_however_the_run_ends(one: list[list[float]], tol: float) -> None:
    problem = ConditionalRandomField.read([one], [[0, 1, 0]], 2)
    message = solve(problem, tol=tol).message
    assert "the likelihood has no maximum" in message
    assert "C / lam" not in message  # there is no lam


@pytest.mark.parametrize("given", [{"n_labels": 1}, {"n_labels": 2, "forbidden": [[0, 1], [1, 1]]}])
def test_where_labels_are_forced_any_theta_is_a_maximum_and_the_message_says_nothing_else(given: Any) -> None:
    given = {name: np.array(value, dtype=bool) if name == "forbidden" else value for name, value in given.items()}
    solution = solve(ConditionalRandomField.read([[[0.0], [0.0]]], [[0, 0]], **given))
    assert "maximum" not in solution.message


def crowded(seed: int, edges: Any = "chain", width: int = 2) -> ConditionalRandomField:
    """Labels at random, far more than features: a maximum without a penalty."""
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(n, width)) * 10.0 ** np.arange(width) for n in (3, 1, 4) * 12]
    y = [rng.integers(2, size=len(each)) for each in x]
    sizes = [rng.normal(size=(len(each) - 1, 2)) for each in x] if edges == "featured" else None
    return ConditionalRandomField.read(x, y, 2, edges="none" if edges == "none" else "chain", edge_features=sizes)


@pytest.mark.parametrize("edges", ["chain", "none", "featured"])
def test_without_a_penalty_the_optimum_is_certified_where_it_exists(edges: str) -> None:
    problem = crowded(0, edges)
    solution = solve(problem, tol=1e-6)
    assert solution.status is Status.OPTIMAL, solution
    assert solution.lower_bound > 0.9 * problem.n_examples * np.log(2.0)
    stated = FORMULATIONS["log_linear.likelihood"].builder(problem).reference("CLARABEL")
    assert solution.lower_bound <= stated.value * (1 + 1e-7)


def test_features_of_edges_where_no_example_has_an_edge() -> None:
    x, none = [np.ones((1, 2))] * 3, [np.zeros((0, 2), dtype=int)] * 3
    problem = ConditionalRandomField.read(x, [[0], [1], [2]], 3, edges=none, edge_features=[np.zeros((0, 2))] * 3)
    assert solve(problem).lower_bound == pytest.approx(3.0 * np.log(3.0))


def test_without_a_penalty_a_distribution_with_forbidden_pairs_bounds_nothing() -> None:
    problem = ConditionalRandomField.read([np.ones((2, 1))], [[0, 1]], 2, forbidden=[[True, False], [False, False]])
    assert problem.dual({"labels": np.array([[0, 0]]), "label_shares": np.array([[1.0]])}).lower == 0.0


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_graph_that_is_too_wide_is_refused_with_its_width_and_what_serves_instead() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12))
    with pytest.raises(ValueError, match=r"(?s)example 0.*width.*pseudolikelihood.*Bethe"):
        ConditionalRandomField.read([np.ones((144, 1))], [np.zeros(144, dtype=int)], 4, edges=[grid])


def test_a_witness_with_a_loss_or_a_forbidden_labelling_proves_nothing() -> None:
    problem = field(11, "forbidden")
    theta = np.zeros(problem.dimension)
    with pytest.raises(ValueError, match="gibbs_loss"):
        problem.dual({**problem.witness(theta), "gibbs_loss": np.ones(1)})
    falling = np.zeros(problem.features.n_nodes, dtype=np.int64)
    falling[0] = 1
    assert problem.dual({"labels": falling[None], "label_shares": np.ones((1, problem.n_examples))}) == 0.0
    assert certify(problem, theta, {"gibbs": theta[None], "gibbs_shares": 2.0 * np.ones((1, 4))}).lower_bound == -np.inf


def test_sparse_features_give_the_same_problem_as_dense_ones() -> None:
    problem = field(12, "sparse")
    dense = ConditionalRandomField.read(
        problem.features.node_features.toarray(),
        problem.features.split_labels(problem.features.truth), 3, weights=problem.weights, C=1.5,
    )  # fmt: skip
    assert sp.issparse(problem.features.node_features)
    theta = np.random.default_rng(12).normal(size=problem.dimension)
    np.testing.assert_allclose(problem.value_and_gradient(theta)[1], dense.value_and_gradient(theta)[1], atol=1e-13)
    np.testing.assert_allclose(problem.curvature(theta), dense.curvature(theta), atol=1e-13)


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
