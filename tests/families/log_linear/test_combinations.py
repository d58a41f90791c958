"""Combinations of model, penalty, weights, partial labels and forbidden labels, against all labellings written out."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear import (
    ApproximateField,
    ContrastiveDivergence,
    ImportanceSampling,
    MarkovRandomField,
    PseudoLikelihood,
    PseudoMoments,
)
from convexstruct.features.graphs.factors import Factors, tabular_factors
from convexstruct.features.graphs.forbidden import forbid
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.inference.gibbs import Gibbs
from convexstruct.marginals.factor_polytope import factor_polytope
from convexstruct.models import FORMULATIONS
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.log_linear.combinations import check, every
from tests.reference import optimum

SEEDS = st.integers(0, 2**32 - 1)
#: No pair of labels (0, 1): along a path from left to right labels never rise.
RISING = np.array([[False, True], [False, False]])


def path(n: int = 3, n_labels: int = 2) -> Factors:
    return tabular_factors(nx.path_graph(n), n_labels)


@given(st.sampled_from(every()), SEEDS)
@settings(max_examples=25, deadline=None)
def test_any_combination_is_that_of_its_labellings_written_out(each: Any, seed: int) -> None:
    check(each, seed)


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_the_support_of_the_cliques_is_that_of_the_labellings_that_are_not_forbidden(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(6, 0.4, seed=seed % 1000)
    factors = tabular_factors(graph, rng.integers(1, 4, size=6))
    scopes = [rng.permutation(6)[: rng.integers(1, 4)].tolist() for _ in range(4)]
    bound = forbid(factors, [(scope, rng.random([factors.cards[v] for v in scope]) < 0.4) for scope in scopes])
    polytope = factor_polytope(FactorInference(bound))
    allowed = labellings(bound.cards)[bound.allowed(labellings(bound.cards))]
    np.testing.assert_array_equal(polytope.support, polytope.of_samples(allowed) > 0)


@pytest.mark.parametrize("name", ["likelihood", "maximum_entropy", "clique_entropy", "camel", "tree_reweighted"])
def test_the_formulations_of_forbidden_labels_agree(name: str) -> None:
    factors = path(4, 3)
    never = [((1, 2), np.tri(3, k=-1, dtype=bool)), ((0,), [False, False, True])]
    allowed = labellings(factors.cards)[forbid(factors, never).allowed(labellings(factors.cards))]
    rng = np.random.default_rng(0)
    samples = np.concatenate((allowed, allowed[rng.integers(len(allowed), size=60)]))
    problem = MarkovRandomField.read(factors, samples, forbidden=never, C=0.4, l1=0.2)
    solution = solve(problem, tol=HIGH)
    value = optimum(FORMULATIONS[f"log_linear.{name}"].builder(problem)).value
    slack = HIGH.gap * abs(solution.primal)
    assert solution.lower_bound - slack <= value <= solution.primal + slack


def test_samples_counts_and_moments_with_forbidden_labels_state_one_problem() -> None:
    """Of the given factors: labels that are forbidden may have a scope of their own, which has no counts."""
    factors, samples = path(), np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0]])
    never = [((0, 2), [[False, True], [False, False]])]
    problem = MarkovRandomField.read(factors, samples, forbidden=never, beta=1.0)
    tables = np.split(factors.counts(samples), factors.start[1:-1])
    counts = [table.reshape(shape) for table, shape in zip(tables, factors.shapes)]
    by_counts = MarkovRandomField.read(factors, counts=counts, forbidden=never, beta=1.0)
    by_moments = MarkovRandomField.read(factors, moments=problem.moments, forbidden=never, beta=1 / 3)
    theta = {"theta": np.random.default_rng(0).normal(size=problem.dimension)}
    assert by_counts.primal(theta) == pytest.approx(float(problem.primal(theta)), rel=ROUNDING)
    assert 3 * by_moments.primal(theta) == pytest.approx(float(problem.primal(theta)), rel=ROUNDING)
    with pytest.raises(ValueError, match="wanted a list of 5 tables, one a factor"):
        MarkovRandomField.read(factors, counts=[*counts, np.ones((2, 2))], forbidden=never)


def test_zeros_that_are_forbidden_leave_a_maximum_and_others_do_not() -> None:
    samples = [[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]]
    assert MarkovRandomField.read(path(), samples, forbidden=RISING).runaway() is None
    assert MarkovRandomField.read(path(), samples).runaway() is not None


def test_what_is_forbidden_one_after_the_other_is_forbidden_at_once() -> None:
    factors, more = path(), [((2, 0), [[False, True], [False, False]]), ((1,), [True, False])]
    one, every = forbid(forbid(factors, RISING), more), labellings(factors.cards)
    a, b, c = every.T
    wanted = ~(((a == 0) & (b == 1)) | ((b == 0) & (c == 1)) | ((c == 0) & (a == 1)) | (b == 0))
    np.testing.assert_array_equal(one.allowed(every), wanted)
    np.testing.assert_array_equal(forbid(forbid(factors, more), RISING).allowed(every), wanted)
    assert forbid(factors, []) is factors


@pytest.mark.parametrize("penalty", [{"beta": 0.1}, {}, {"C": 2.5}])
def test_conditionals_that_have_one_label_each_cost_exactly_nothing(penalty: dict[str, Any]) -> None:
    problem = PseudoLikelihood.read(path(), [[0, 0, 0], [1, 1, 1]], forbidden=~np.eye(2, dtype=bool), **penalty)
    found = solve(problem, tol=1e-12)
    assert found.status is Status.OPTIMAL
    assert found.primal < 1e-300


def test_a_witness_with_forbidden_labels_is_judged_infeasible_and_its_bound_still_holds() -> None:
    problem = MarkovRandomField.read(path(), [[1, 1, 0], [0, 0, 0]], forbidden=RISING, beta=1.0)
    polytope = problem.polytope
    uniform = polytope.of_samples(labellings((2, 2, 2)), np.full(8, 1 / 8))
    assert problem.dual_residuals({"cliques": uniform})["cliques outside the marginal polytope"] == pytest.approx(0.25)
    assert problem.dual({"cliques": uniform}) <= solve(problem).primal


def test_the_gibbs_sampler_leaves_forbidden_labels_out() -> None:
    bound, rng = forbid(path(4), RISING), np.random.default_rng(0)
    theta = rng.normal(size=bound.dimension)
    samples = Gibbs(bound).sweeps(np.asarray(bound.design @ theta), np.zeros((4000, 4), dtype=np.int64), 40, rng)
    assert bound.allowed(samples).all()
    allowed = labellings(bound.cards)[bound.allowed(labellings(bound.cards))]
    scores = bound.scores(theta, allowed)
    p = np.exp(scores - np.logaddexp.reduce(scores))
    shares = np.array([(samples == y).all(axis=1).mean() for y in allowed])
    assert (np.abs(shares - p) <= 6 * np.sqrt(p * (1 - p) / 4000)).all()


@pytest.mark.parametrize(
    "solver",
    [None, ContrastiveDivergence(steps=300), ImportanceSampling(), PseudoMoments()],
    ids=lambda one: type(one).__name__,
)
def test_approximations_of_a_wide_field_with_forbidden_labels_come_near_on_a_tree(solver: Any) -> None:
    """There the upper bound of the wide field is exact."""
    factors = path()
    allowed = labellings(factors.cards)[forbid(factors, RISING).allowed(labellings(factors.cards))]
    samples = np.repeat(allowed, [40, 30, 20, 50], axis=0)
    exact = MarkovRandomField.read(factors, samples, forbidden=RISING)
    wide = ApproximateField.read(factors, samples, forbidden=RISING)
    point = solve(wide, solver).point
    assert exact.primal(point) == pytest.approx(solve(exact).primal, rel=0.02)
    assert float(wide.primal(point)) == pytest.approx(float(exact.primal(point)), rel=ROUNDING)
