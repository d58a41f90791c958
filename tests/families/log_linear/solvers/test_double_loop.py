"""The double loop against exact inference on trees, and what it reports where messages do not converge."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.solvers.double_loop import DoubleLoop, _Approximate
from convexstruct.features.graphs.factors import factors_of_features, tabular_factors
from tests.families.log_linear.fields import random_samples


def test_on_a_tree_it_finds_the_maximum_of_the_likelihood() -> None:
    factors = tabular_factors(nx.star_graph(4), 3, tied=True)
    problem = MarkovRandomField.read(factors, random_samples(factors, 0), lam=0.05)
    found = solve(problem, DoubleLoop())
    _, gradient = problem.value_and_gradient(found.point["theta"])
    assert np.abs(gradient + 0.05 * found.point["theta"]).max() < 1e-5
    assert found.status is Status.UNCERTIFIED
    assert "no bound: bethe entropy" in found.message


@pytest.mark.parametrize("entropy", ["bethe", "tree_reweighted"])
def test_the_gradient_is_that_of_differences_on_a_cycle(entropy: str) -> None:
    factors = tabular_factors(nx.cycle_graph(4), 3)
    problem = ApproximateField.read(factors, random_samples(factors, 1), C_mean=2.0)
    inner = _Approximate(problem, DoubleLoop(entropy=entropy))
    rng = np.random.default_rng(2)
    theta, direction = rng.normal(size=factors.dimension), rng.normal(size=factors.dimension)
    _, gradient = inner.value_and_gradient(theta)
    ends = [inner.value_and_gradient(theta + step * direction)[0] for step in (1e-4, -1e-4)]
    assert gradient @ direction == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=1e-4)
    assert inner.met == inner.calls == 3


def test_tree_weights_end_at_the_least_proved_upper_bound() -> None:
    """Its objective is the tree-reweighted likelihood, the upper bound of `ApproximateField.primal`: no theta nearby is
    lower, and it is lower there than at the Bethe optimum."""
    factors = tabular_factors(nx.complete_graph(4), 2, tied=True)
    problem = ApproximateField.read(factors, random_samples(factors, 3), lam=0.1)
    found = solve(problem, DoubleLoop(entropy="tree_reweighted"))
    theta, rng = found.point["theta"], np.random.default_rng(0)
    for _ in range(5):
        assert problem.primal({"theta": theta + 0.05 * rng.normal(size=len(theta))}) >= found.primal - 1e-7
    assert solve(problem, DoubleLoop()).primal >= found.primal - 1e-7
    exact = MarkovRandomField.read(factors, problem.samples, lam=0.1)
    assert found.primal >= float(exact.primal(found.point))


def test_where_messages_do_not_converge_it_ends_and_says_so() -> None:
    """At a theta where they do converge, after FAILED_ROUNDS of the double_loop: without them it goes on for long. Ties
    on a cycle, whose messages need more rounds the further theta goes."""
    factors = factors_of_features([2] * 6, [[(e, np.eye(2)) for e in nx.cycle_graph(6).edges], [((0,), [0.0, 1.0])]])
    drawn = np.repeat([[0] * 6, [1] * 6, [0, 0, 0, 1, 1, 1]], [4, 5, 6], axis=0)
    problem, options = ApproximateField.read(factors, drawn, lam=0.02), DoubleLoop(damping=0.0, rounds=20)
    found = solve(problem, options, max_iterations=30)
    assert found.status is Status.UNCERTIFIED
    assert "ends where lower values are that do not let them converge" in found.message
    free = solve(problem, DoubleLoop())
    assert "ends where" not in free.message
    values = [_Approximate(problem, DoubleLoop()).value_and_gradient(each.point["theta"])[0] for each in (free, found)]
    assert values[0] < values[1] < np.inf


def test_from_a_start_where_messages_oscillate_nothing_is_claimed() -> None:
    factors = factors_of_features([2] * 6, [[(e, np.eye(2)) for e in nx.complete_graph(6).edges], [((0,), [0.0, 1.0])]])
    problem = ApproximateField.read(factors, random_samples(factors, 0), lam=0.1)
    begin = replace(solve(problem, DoubleLoop()), point={"theta": np.array([-12.0, 0.3])})
    found = solve(problem, DoubleLoop(damping=0.0, rounds=300), start=begin)
    assert "messages converged at 0 of " in found.message
    assert found.status is Status.UNCERTIFIED
    np.testing.assert_array_equal(found.point["theta"], begin.point["theta"])
