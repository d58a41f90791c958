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
from convexstruct.tolerances import HIGH, LOW, ROUNDING
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


def test_a_probability_of_zero_costs_nothing_where_c_is_zero_and_everything_elsewhere() -> None:
    with np.errstate(divide="ignore"):
        theta = np.log([0.5, 0.5, 0.0])
    assert one_variable([0.5, 0.5, 0.0], 1.0).evaluate(theta).value == pytest.approx(math.log(2) + 1)
    assert one_variable([0.5, 0.3, 0.2], 1.0).evaluate(theta).value == math.inf
    # the true label has probability 0: every other one violates its margin without limit
    with np.errstate(divide="ignore"):
        assert one_variable([0.0, 0.5, 0.5], 1.0).evaluate(np.log([0.0, 0.5, 0.5])).value == math.inf


# -- the bound of the paper --------------------------------------------------------------------------------------------

E = math.exp(-1.0)


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


def test_where_v_is_zero_the_minimum_of_7_is_only_approached_and_where_negative_there_is_none() -> None:
    values = [0.5 * math.exp(x) for x in (-1.0, -10.0, -100.0)]
    assert q7(np.zeros(1), 0.5) == 0.0 < min(values) < ROUNDING
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
