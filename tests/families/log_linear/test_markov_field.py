"""Markov random fields: values, bounds and existence against all joint labels written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from convexstruct.arrays import Vector
from convexstruct.core.certificates import certify
from convexstruct.families.log_linear.clique_entropy import distribution, restored
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import DERIVATIVE, HIGH, ROUNDING
from tests.families.log_linear.fields import CAMEL, GRAPHS, drawn, triangle

SEEDS = st.integers(0, 2**32 - 1)
PENALTIES: dict[str, dict[str, Any]] = {
    "none": {}, "L2": {"beta": 0.7}, "L1": {"l1": 0.9}, "elastic": {"C": 0.3, "l1": 0.2}, "mean": {"lam": 0.05},
}  # fmt: skip


def smooth_optimum(problem: MarkovRandomField) -> Vector:
    """argmin P by a general solver; no L1 part."""

    def both(theta: Vector) -> tuple[float, Vector]:
        fit, gradient = problem.value_and_gradient(theta)
        return fit + float(problem.penalty.value(theta)), gradient + problem.scale.lam * theta

    options = {"ftol": 0.0, "gtol": 1e-11, "maxiter": 5000}
    start = np.zeros(problem.dimension)
    return np.asarray(minimize(both, start, jac=True, method="L-BFGS-B", options=options).x)


def test_the_gradient_is_that_of_finite_differences_and_the_curvature_that_of_one_factor_a_feature() -> None:
    problem = drawn("cycle", beta=1.0)
    theta, step = np.random.default_rng(2).normal(size=problem.dimension), 1e-6
    _, gradient = problem.value_and_gradient(theta)
    curvature = problem.curvature(theta)
    for j, move in enumerate(np.eye(problem.dimension) * step):
        (up, above), (down, below) = (problem.value_and_gradient(theta + sign * move) for sign in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / (2 * step), rel=DERIVATIVE, abs=DERIVATIVE)
        assert curvature[j] == pytest.approx((above - below)[j] / (2 * step), rel=DERIVATIVE, abs=DERIVATIVE)


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


@pytest.mark.parametrize("name", sorted(GRAPHS))
@pytest.mark.parametrize("penalty", ["none", "L2", "mean"])
def test_the_gibbs_distribution_of_the_optimum_closes_the_gap(name: str, penalty: str) -> None:
    problem = drawn(name, **PENALTIES[penalty])
    theta = smooth_optimum(problem)
    certificate = certify(problem, theta, {"theta": theta})
    assert abs(certificate.gap) <= HIGH.gap
    assert certify(problem, theta, {"cliques": problem.gibbs(theta)}).lower_bound <= certificate.primal


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_any_tables_are_read_as_some_distribution_and_its_entropy_is_enclosed(seed: int) -> None:
    """The distribution is the product of conditionals; its entropy by all joint labels."""
    rng = np.random.default_rng(seed)
    problem = drawn("grid", seed)
    polytope = problem.polytope
    z = rng.exponential(size=polytope.n_variables) * (rng.random(polytope.n_variables) < 0.7)
    found = distribution(polytope, z)
    every = labellings(problem.factors.cards)
    logs = np.zeros(len(every))
    for c, (rows, columns) in enumerate(polytope.tree.shapes):
        table = z[polytope.start[c] : polytope.start[c + 1]].reshape(rows, columns)
        sums = table.sum(axis=1, keepdims=True)
        flat = np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), 1.0 / columns).ravel()
        at = np.zeros(len(every), dtype=np.intp)
        for v in polytope.tree.cliques[c]:
            at = at * polytope.tree.cards[v] + every[:, v]
        with np.errstate(divide="ignore"):
            logs += np.log(flat[at])
    shares = np.exp(logs)
    assert shares.sum() == pytest.approx(1.0)
    entropy = -float((shares[shares > 0] * logs[shares > 0]).sum())
    assert found.entropy == pytest.approx(entropy, rel=ROUNDING)
    np.testing.assert_allclose(found.z, polytope.of_samples(every, shares), atol=1e-12)


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


# -- where there is no maximum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "wanted"), [("printed", 1.24245), ("rows", 1.36892)])
def test_moments_on_the_border_have_an_infimum_and_a_direction_that_runs_away(name: str, wanted: float) -> None:
    problem = MarkovRandomField.read(triangle(), moments=CAMEL[name])
    direction = problem.runaway()
    assert direction is not None
    np.testing.assert_allclose(direction, [0.0, -1.0], atol=HIGH.gap)
    theta = smooth_optimum(problem)
    certificate = certify(problem, theta, {"theta": theta})
    assert abs(certificate.gap) <= HIGH.gap
    assert certificate.lower_bound == pytest.approx(wanted, abs=5e-6)
    assert problem.primal({"theta": theta + 5 * direction}) <= certificate.primal


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


# -- one problem from samples, counts, moments -----------------------------------------------------------------------


def test_witnesses_are_judged_by_how_far_they_are_from_the_polytope() -> None:
    problem = drawn("path", beta=1.0)
    z = problem.gibbs(np.zeros(problem.dimension))
    assert problem.dual_residuals({"cliques": z})["cliques outside the marginal polytope"] <= ROUNDING
    z = z.copy()
    z[0] += 0.25
    assert problem.dual_residuals({"cliques": z})["cliques outside the marginal polytope"] == pytest.approx(0.25)
    assert problem.dual({"cliques": np.full_like(z, np.nan)}) == -np.inf
    assert problem.dual({"theta": np.full(problem.dimension, np.inf)}) == -np.inf
    assert problem.primal({"theta": np.full(problem.dimension, np.inf)}) == np.inf
    with pytest.raises(ValueError, match="dual_point"):
        problem.dual({"mu": z})
