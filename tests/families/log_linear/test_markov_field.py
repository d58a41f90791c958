"""Markov random fields: values, bounds and existence against all joint labels written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.families.log_linear.clique_entropy import restored
from convexstruct.families.log_linear.examples import triangle
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import DERIVATIVE, HIGH, ROUNDING
from tests.families.log_linear.fields import CAMEL, GRAPHS, drawn

SEEDS = st.integers(0, 2**32 - 1)
PENALTIES: dict[str, dict[str, Any]] = {
    "none": {}, "L2": {"beta": 0.7}, "L1": {"l1": 0.9}, "elastic": {"C": 0.3, "l1": 0.2}, "mean": {"lam": 0.05},
}  # fmt: skip


@given(st.sampled_from(sorted(GRAPHS)), st.sampled_from(sorted(PENALTIES)), SEEDS)
@settings(max_examples=40, deadline=None)
def test_no_lower_bound_lies_above_the_value_at_any_theta(name: str, penalty: str, seed: int) -> None:
    problem = drawn(name, seed, 20, **PENALTIES[penalty])
    rng = np.random.default_rng(seed)
    thetas = [rng.normal(size=problem.dimension) * size for size in (0.1, 1.0, 4.0)]
    least = min(problem.primal({"theta": theta}).upper for theta in thetas)
    raw = rng.exponential(size=problem.polytope.n_variables) * (rng.random(problem.polytope.n_variables) < 0.8)
    witnesses: list[dict[str, Vector]] = [{"theta": theta} for theta in thetas]
    for witness in (*witnesses, {"cliques": raw}, {"cliques": raw - 0.5}):
        assert problem.dual(witness).lower <= least


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_the_correction_restores_the_moments_and_stays_in_agreement(seed: int) -> None:
    """Of a Gibbs point whose parameters are near those of the moments, as a solver's are."""
    problem = drawn("grid", seed)
    rng = np.random.default_rng(seed)
    polytope, theta = problem.polytope, rng.normal(size=problem.dimension)
    moments = polytope.features @ problem.gibbs(theta + 0.01 * rng.normal(size=problem.dimension))
    z = restored(polytope, problem.gibbs(theta), moments)
    assert z.min() >= 0
    np.testing.assert_allclose(polytope.features @ z, moments, atol=1e-12)
    np.testing.assert_allclose(polytope.agreement @ z, 0.0, atol=1e-12)


def test_the_curvature_is_that_of_one_factor_a_feature() -> None:
    """Of finite differences of the gradient, which `combinations` compares with all labellings."""
    problem = drawn("cycle", beta=1.0)
    theta, step = np.random.default_rng(2).normal(size=problem.dimension), 1e-6
    curvature = problem.curvature(theta)
    for j, move in enumerate(np.eye(problem.dimension) * step):
        above, below = (problem.value_and_gradient(theta + sign * move)[1] for sign in (1, -1))
        assert curvature[j] == pytest.approx((above - below)[j] / (2 * step), rel=DERIVATIVE, abs=DERIVATIVE)


def test_witnesses_are_judged_by_how_far_they_are_from_the_polytope() -> None:
    problem = drawn("path", beta=1.0)
    z = problem.gibbs(np.zeros(problem.dimension))
    assert problem.dual_residuals({"cliques": z})["cliques outside the marginal polytope"] <= ROUNDING
    z[0] += 0.25
    assert problem.dual_residuals({"cliques": z})["cliques outside the marginal polytope"] == pytest.approx(0.25)


# -- where there is no maximum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "wanted"), [("printed", 1.24245), ("rows", 1.36892)])
def test_moments_on_the_border_have_an_infimum_and_a_direction_that_runs_away(name: str, wanted: float) -> None:
    problem = triangle(CAMEL[name])
    direction, found = problem.runaway(), solve(problem)
    assert direction is not None
    np.testing.assert_allclose(direction, [0.0, -1.0], atol=HIGH.gap)
    assert found.lower_bound == pytest.approx(wanted, abs=5e-6)
    assert problem.primal({"theta": found.point["theta"] + 5 * direction}) <= found.primal


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_direction_is_found_exactly_where_some_joint_label_of_a_clique_must_have_probability_0(seed: int) -> None:
    """On a tree with tables the maximum exists if and only if every entry of every table occurs."""
    problem = drawn("tree", seed, int(np.random.default_rng(seed).integers(1, 40)))
    every = (problem.factors.counts(problem.samples) > 0).all()  # type: ignore[arg-type]  # samples were given
    direction = problem.runaway()
    assert (direction is None) == every
    if direction is not None:
        assert problem.samples is not None
        gains = problem.factors.scores(direction, labellings(problem.factors.cards))
        assert gains.max() <= problem.moments @ direction + HIGH.gap
        assert gains.min() < problem.moments @ direction - HIGH.gap


@pytest.mark.parametrize("penalty", ["L2", "L1", "elastic"])
def test_a_penalty_leaves_no_direction(penalty: str) -> None:
    assert drawn("tree", 0, 1, **PENALTIES[penalty]).runaway() is None
    assert drawn("tree", 0, 1).runaway() is not None
