"""Problem (P) of paper 0: values, subgradients and bounds, against enumeration and optima found by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from convexstruct.arrays import Vector
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.tolerances import DERIVATIVE, HIGH, LOW, ROUNDING
from tests.families.generative_margin.instances import every_kind, feasible, one_variable, random_witness

# -- primal ------------------------------------------------------------------------------------------------------------


@every_kind
def test_the_objective_is_that_of_all_constraints_written_out(make: Callable[[int], GenerativeMargin]) -> None:
    for seed in range(3):
        problem = make(seed)
        table = enumerate_counts(problem.features)
        a = table.counts.toarray() - table.counts[table.truth][table.example].toarray()
        rng = np.random.default_rng(seed)
        for scale in (0.1, 1.0, 30.0):
            theta = feasible(problem, rng, scale)
            slack = np.zeros(problem.n_examples)
            np.maximum.at(slack, table.example, a @ theta + table.loss)
            naive = -problem.c @ theta + problem.eta * problem.examples.weights @ slack
            evaluation = problem.evaluate(theta)
            assert evaluation.value == pytest.approx(naive, rel=ROUNDING)
            assert problem.primal({"theta": theta}) == pytest.approx(naive, rel=ROUNDING)
            np.testing.assert_allclose(evaluation.slack, slack, rtol=ROUNDING, atol=ROUNDING)
            # the labelling returned is the maximiser, and (mu, omega) is its point of script-D
            recovered = -problem.c @ theta + evaluation.mu @ theta + evaluation.omega
            assert recovered == pytest.approx(naive, rel=ROUNDING)


@every_kind
def test_mu_less_c_is_a_subgradient(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        here, there = feasible(problem, rng), feasible(problem, rng)
        evaluation = problem.evaluate(here)
        below = evaluation.value + (evaluation.mu - problem.c) @ (there - here)
        assert problem.evaluate(there).value >= below - ROUNDING
        direction, step = rng.normal(size=problem.dimension), 1e-6  # at random points the maximiser is unique
        rise = problem.evaluate(here + step * direction).value - problem.evaluate(here - step * direction).value
        assert rise / (2 * step) == pytest.approx((evaluation.mu - problem.c) @ direction, rel=DERIVATIVE)


@every_kind
def test_the_shift_makes_a_point_feasible_and_leaves_a_feasible_one_alone(
    make: Callable[[int], GenerativeMargin],
) -> None:
    problem = make(0)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=problem.dimension)
    sums = problem.layout.block_sum(np.exp(theta))
    residuals = problem.residuals({"theta": theta})
    assert list(residuals.values()) == pytest.approx([max(sums.max() - 1, 0), max(theta.max(), 0)], rel=ROUNDING)
    repaired = problem.repair({"theta": theta})["theta"]
    np.testing.assert_allclose(
        problem.layout.block_sum(np.exp(repaired)), np.minimum(sums, 1.0), rtol=ROUNDING
    )  # divided by its sum, where that is above one
    assert max(problem.residuals({"theta": repaired}).values()) <= ROUNDING
    small = repaired - 0.1
    np.testing.assert_array_equal(problem.shift(small), small)


def test_a_probability_of_zero_costs_nothing_where_c_is_zero_and_everything_elsewhere() -> None:
    with np.errstate(divide="ignore"):
        theta = np.log([0.5, 0.5, 0.0])
    assert one_variable([0.5, 0.5, 0.0], 1.0).evaluate(theta).value == pytest.approx(math.log(2) + 1)
    assert one_variable([0.5, 0.3, 0.2], 1.0).evaluate(theta).value == math.inf
    # the true label has probability 0: every other one violates its margin without limit
    with np.errstate(divide="ignore"):
        assert one_variable([0.0, 0.5, 0.5], 1.0).evaluate(np.log([0.0, 0.5, 0.5])).value == math.inf


# -- optima done by hand -----------------------------------------------------------------------------------------------

E = math.exp(-1.0)
BY_HAND = [
    # c, eta, optimal probabilities, beta / eta; with v = c - mu = (c0 + beta, c1 - beta) = p
    pytest.param([0.4, 0.6], 0.1, [0.5, 0.5], 1.0, id="violated, beta = eta"),
    pytest.param([0.5, 0.5], 1.0, [1 / (1 + E), E / (1 + E)], 1 / (1 + E) - 0.5, id="at the kink, beta between"),
    pytest.param([0.8, 0.2], 1.0, [0.8, 0.2], 0.0, id="margin kept, beta = 0"),
]


@pytest.mark.parametrize(("c", "eta", "p", "share"), BY_HAND)
def test_an_optimum_done_by_hand_is_certified(c: list[float], eta: float, p: list[float], share: float) -> None:
    problem = one_variable(c, eta)
    violation = max(0.0, math.log(p[1]) - math.log(p[0]) + 1.0)
    optimum = -c[0] * math.log(p[0]) - c[1] * math.log(p[1]) + eta * violation
    witness = {"labels": np.array([[1]]), "label_shares": np.array([[share]])}
    certificate = certify(problem, np.log(p), witness)
    assert certificate.primal == pytest.approx(optimum, rel=ROUNDING)
    assert certificate.lower_bound == pytest.approx(optimum, rel=ROUNDING)
    assert abs(certificate.gap) <= HIGH.gap
    # no other point is below the optimum, and no other witness above it
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert problem.evaluate(feasible(problem, rng)).value >= optimum - ROUNDING
        other = {**witness, "label_shares": np.array([[rng.random()]])}
        assert problem.dual(other) <= optimum + ROUNDING


def test_projecting_mu_as_the_paper_does_claims_more_than_the_optimum() -> None:
    # beta = eta = 1: mu = (-1, 1) and omega = 1 lie in script-D, v = (1.5, -0.5) outside the domain
    problem = one_variable([0.5, 0.5], 1.0)
    mu, omega = problem.aggregate({"labels": np.array([[1]]), "label_shares": np.array([[1.0]])})
    np.testing.assert_allclose(mu, [-1.0, 1.0])
    assert problem.dual_value(mu, omega) == -math.inf
    projected = problem.dual_value(np.minimum(mu, problem.c), omega)
    p = np.array([1 / (1 + E), E / (1 + E)])
    optimum = float(-problem.c @ np.log(p))
    assert problem.evaluate(np.log(p)).value == pytest.approx(optimum)
    assert projected == pytest.approx(1.0)  # omega + 1.5 ln 1.5 - 1.5 ln 1.5 - 0 ln 0
    assert projected > optimum + 0.1
    # the valid bound from the same member: shrink it, and here that even closes the gap
    t, bound = problem.best_on_segment(mu, omega)
    assert bound == pytest.approx(optimum, rel=ROUNDING)
    assert t == pytest.approx(p[0] - 0.5, rel=1e-6)


@every_kind
def test_the_projected_bound_fails_on_whole_data_sets_too_and_the_segment_never(
    make: Callable[[int], GenerativeMargin],
) -> None:
    above = 0
    for seed in range(6):
        problem = make(seed)
        problem = GenerativeMargin(problem.features, problem.c, 5.0)
        rng = np.random.default_rng(seed)
        points = [feasible(problem, rng) for _ in range(20)] + [problem.uniform(), problem.shift(np.log(problem.c))]
        best = min(problem.evaluate(theta).value for theta in points)
        for theta in points:
            evaluation = problem.evaluate(theta)
            above += problem.dual_value(np.minimum(evaluation.mu, problem.c), evaluation.omega) > best
            assert problem.best_on_segment(evaluation.mu, evaluation.omega)[1] <= best + ROUNDING
    assert above > 0


# -- the dual function -------------------------------------------------------------------------------------------------


def q7(v: Vector, lam: float) -> float:
    """The closed form of (7) for one block: inf over theta_i <= 0 of -v'theta_i + lam 1'e^theta_i."""
    if (v < 0).any():
        return -math.inf
    inner = (v > 0) & (v <= lam)
    return float(np.sum(v[inner] - v[inner] * np.log(v[inner] / lam)) + lam * np.sum(v > lam))


@pytest.mark.parametrize(("v", "lam"), [(0.3, 0.7), (0.7, 0.7), (0.9, 0.7), (2.0, 1e-3), (0.5, 0.0), (1e-6, 3.0)])
def test_the_closed_form_of_7_is_the_minimum(v: float, lam: float) -> None:
    found = minimize_scalar(lambda x: -v * x + lam * math.exp(x), bounds=(-30.0, 0.0), options={"xatol": 1e-12})
    assert q7(np.array([v]), lam) == pytest.approx(min(found.fun, lam), rel=HIGH.gap)  # lam: the value at theta = 0


def test_where_v_is_zero_the_minimum_of_7_is_only_approached() -> None:
    values = [0.5 * math.exp(x) for x in (-1.0, -10.0, -100.0)]
    assert q7(np.zeros(1), 0.5) == 0.0
    assert min(values) > 0.0
    assert min(values) == pytest.approx(0.0, abs=ROUNDING)


def test_where_v_is_negative_7_has_no_lower_bound() -> None:
    assert q7(np.array([-0.1]), 0.5) == -math.inf
    assert 0.1 * -1e6 + 0.5 * math.exp(-1e6) < -1e4


@every_kind
def test_lambda_is_eliminated_at_the_sum_of_v(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(1)
    rng = np.random.default_rng(0)
    layout = problem.layout
    v = rng.exponential(size=problem.dimension)
    v[rng.random(problem.dimension) < 0.2] = 0.0
    total = layout.block_sum(v)
    blocks = [v[layout.block_of == i] for i in range(len(total))]

    def before(lam: Vector) -> float:
        return sum(q7(block, float(x)) - float(x) for block, x in zip(blocks, lam))

    value = problem.dual_value(problem.c - v, 0.25)
    assert value == pytest.approx(0.25 + before(total), rel=ROUNDING)
    for _ in range(20):
        assert 0.25 + before(total * rng.uniform(0.5, 2.0, size=len(total))) <= value + ROUNDING


@every_kind
def test_the_dual_function_has_the_log_probabilities_as_its_gradient(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(2)
    rng = np.random.default_rng(0)
    v = rng.exponential(size=problem.dimension) + 0.1
    theta = np.log(v) - np.log(problem.layout.block_sum(v))[problem.layout.block_of]
    for _ in range(5):
        step = 1e-5 * rng.normal(size=problem.dimension)
        rise = problem.dual_value(problem.c - v + step, 0.0) - problem.dual_value(problem.c - v - step, 0.0)
        assert rise / 2 == pytest.approx(theta @ step, rel=DERIVATIVE)
    assert problem.dual_value(problem.c - v, 3.0) - problem.dual_value(problem.c - v, 1.0) == pytest.approx(2.0)


@every_kind
def test_a_witness_is_added_up_as_its_distributions_say(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(0)
    rng = np.random.default_rng(0)
    witness = random_witness(problem, rng)
    table = enumerate_counts(problem.features)
    a = table.counts.toarray() - table.counts[table.truth][table.example].toarray()
    beta = np.zeros(table.n_rows)
    for labels, share in zip(witness["labels"], witness["label_shares"]):
        for k in range(problem.n_examples):
            mine = labels[problem.examples.example == k]
            rows = np.flatnonzero(table.example == k)
            beta[rows[(table.labels[rows][:, : len(mine)] == mine).all(axis=1)]] += share[k]
    for theta, b, share in zip(witness["gibbs"], witness["gibbs_loss"], witness["gibbs_shares"]):
        score = table.counts @ theta + b * table.loss
        q = np.exp(score)
        beta += share[table.example] * q / np.bincount(table.example, weights=q)[table.example]
    beta *= problem.eta * problem.examples.weights[table.example]
    mu, omega = problem.aggregate(witness)
    np.testing.assert_allclose(mu, beta @ a, atol=ROUNDING)
    assert omega == pytest.approx(beta @ table.loss, rel=ROUNDING)


@every_kind
def test_every_witness_bounds_every_feasible_point_from_below(make: Callable[[int], GenerativeMargin]) -> None:
    for seed in range(3):
        problem = make(seed)
        rng = np.random.default_rng(seed)
        points = [feasible(problem, rng, scale) for scale in (0.1, 1.0) for _ in range(10)]
        best = min(problem.evaluate(theta).value for theta in [*points, problem.uniform(), np.log(problem.c)])
        for weight in (0.01, 0.1, 1.0):
            assert problem.dual(random_witness(problem, rng, weight)) <= best + ROUNDING
        entropy = -float(problem.c @ np.log(problem.c))
        assert problem.dual({}) == pytest.approx(entropy, rel=ROUNDING)  # nothing violated: c itself is the optimum


@every_kind
def test_the_best_of_the_segment_is_the_best_of_a_fine_grid(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(0)
    rng = np.random.default_rng(0)
    safe_mu, safe_omega = problem.aggregate(random_witness(problem, rng, 0.01))
    assert (problem.c > safe_mu).all()
    for weight in (0.05, 1.0):
        mu, omega = problem.aggregate(random_witness(problem, rng, weight))
        for start, base in ((np.zeros_like(mu), 0.0), (safe_mu, safe_omega)):
            t, value = problem.best_on_segment(mu, omega, (start, base))
            assert 0.0 <= t <= 1.0
            grid = np.linspace(0.0, 1.0, 2001)
            values = [problem.dual_value(start + x * (mu - start), base + x * (omega - base)) for x in grid]
            assert value >= max(values) - ROUNDING
            near = start + t * (1 - 1e-12) * (mu - start)
            assert value == pytest.approx(problem.dual_value(near, base + t * (omega - base)), rel=HIGH.gap)


@pytest.mark.parametrize("eta", [1e1, 1e4, 1e8, 1e16, 1e100, 1e300])
def test_a_large_eta_makes_no_wide_bracket_narrow(eta: float) -> None:
    """Where all margins can be kept, the optimum does not depend on eta: theta_1 = theta_0 - 1, 1'e^theta = 1."""
    problem = one_variable([0.5, 0.5], eta)
    optimum = 0.5 + np.log1p(np.exp(-1.0))
    wide = certify(problem, {"theta": np.array([-0.1, -2.5])}, {})
    assert wide.primal == pytest.approx(1.3)
    assert wide.lower_bound == pytest.approx(np.log(2.0))
    assert wide.gap == pytest.approx((1.3 - np.log(2.0)) / 1.3)
    solution = solve(problem, tol="LOW", max_iterations=5)
    assert solution.lower_bound <= optimum * (1 + ROUNDING)
    assert solution.primal >= optimum * (1 - ROUNDING)
    if solution.status is Status.OPTIMAL:
        assert solution.primal - solution.lower_bound <= LOW.gap * 1.001 * optimum
