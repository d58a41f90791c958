"""Section 3.1: the coordinate variant solves (P), the online variant another problem, which is solved here too."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.working_sets import (
    CoordinateWorkingSets,
    OnlineWorkingSets,
    runs,
    worst_set_value,
)
from convexstruct.models.generative_margin.enumerated import primal
from convexstruct.tolerances import HIGH, LOW, MID, ROUNDING
from tests.models.generative_margin.instances import hmm
from tests.reference import optimum

LENGTHS = (2, 3, 1, 3, 2, 3, 3, 2)


def eight_examples(weighted: bool = False) -> GenerativeMargin:
    return hmm(11, n_states=2, n_symbols=3, lengths=LENGTHS, eta=0.5, loss="hamming", weighted=weighted)


def worst_set_optimum(problem: GenerativeMargin, sets: list[tuple[int, int]]) -> float:
    """min -c'theta + eta max_t sum_{k in K_t} w_k eps_k under (3)-(5), all labellings enumerated."""
    enumerated = primal(problem)
    theta, eps = enumerated.variables["theta"], enumerated.variables["eps"]
    weighted = cp.multiply(problem.examples.weights, eps)
    worst = cp.max(cp.hstack([cp.sum(weighted[low:high]) for low, high in sets]))
    return optimum(enumerated.minimizing(-problem.c @ theta + problem.eta * worst)).value


@pytest.mark.parametrize(("n_sets", "weighted"), [(2, True), (4, False)])
def test_the_online_variant_stops_at_the_optimum_of_the_worst_working_set_below_that_of_p(
    n_sets: int, weighted: bool
) -> None:
    problem = eight_examples(weighted)
    sets = runs(n_sets, 8, partition=True)
    true, other = optimum(primal(problem)).value, worst_set_optimum(problem, sets)
    solution = solve(problem, OnlineWorkingSets(n_sets), tol=HIGH, max_iterations=300)
    assert solution.status is Status.STALLED
    assert solution.lower_bound == pytest.approx(other, rel=LOW.gap)  # it converges, and to this
    assert solution.lower_bound <= other + HIGH.gap * abs(other)
    assert other < 0.9 * true  # which is another problem's optimum
    assert solution.primal >= true - HIGH.gap * true
    assert solution.gap > 0.1  # and the gap on the full set says so
    assert "not (P)" in solution.message


def test_the_online_variant_solves_p_if_one_working_set_holds_every_example() -> None:
    problem = eight_examples()
    sets = [(0, 3), (0, 8), (5, 8)]  # they may overlap
    true = optimum(primal(problem)).value
    assert worst_set_optimum(problem, sets) == pytest.approx(true, rel=MID.gap)
    solution = solve(problem, OnlineWorkingSets(sets), tol=MID, max_iterations=400)
    assert solution.status is Status.OPTIMAL
    assert solution.primal == pytest.approx(true, rel=2 * MID.gap)


def test_the_value_of_the_worst_set_is_the_online_variants_objective() -> None:
    problem = eight_examples(weighted=True)
    theta = problem.uniform()
    found = problem.evaluate(theta)
    slack = problem.examples.weights * found.slack
    by_hand = -problem.c @ theta + problem.eta * max(slack[:4].sum(), slack[4:].sum())
    assert worst_set_value(problem, [(0, 4), (4, 8)], theta, found.slack) == pytest.approx(by_hand, rel=ROUNDING)
    assert worst_set_value(problem, [(0, 8)], theta, found.slack) == pytest.approx(found.value, rel=ROUNDING)


@pytest.mark.parametrize("working_sets", [1, 4, [(0, 1), (1, 8)]])
def test_the_coordinate_variant_solves_p_whatever_the_sets(working_sets: int | list[tuple[int, int]]) -> None:
    problem = eight_examples()
    true = optimum(primal(problem)).value
    solution = solve(problem, CoordinateWorkingSets(working_sets), tol=LOW, max_iterations=300)
    assert solution.status is Status.OPTIMAL, solution
    assert solution.lower_bound <= true + HIGH.gap * true
    assert solution.primal == pytest.approx(true, rel=2 * LOW.gap)


def test_every_bound_of_the_online_variant_is_one_on_p() -> None:
    problem = eight_examples()
    true = optimum(primal(problem)).value
    for iterate, _ in zip(OnlineWorkingSets(4, polish_every=2).iterate(problem), range(20)):
        assert iterate.lower_bound <= true + HIGH.gap * true
        assert iterate.primal >= true - HIGH.gap * true
        assert callable(iterate.dual_point)
        certified = certify(problem, iterate.point, iterate.dual_point())
        assert certified.lower_bound >= iterate.lower_bound - ROUNDING * true
        assert certified.lower_bound <= true + HIGH.gap * true


def test_the_oracle_calls_of_a_visit_count_only_the_sets_own_examples() -> None:
    problem = eight_examples()
    solution = solve(problem, CoordinateWorkingSets(8, rounds=2), max_iterations=4)
    sweeps = solution.iterations - 1
    # a sweep of two rounds over all sets is the work of two calls on all examples, and one call looks at the whole
    assert solution.trace.oracle_calls[-1] == pytest.approx(1 + 3 * sweeps, abs=1)


def test_runs_cover_the_examples_in_near_equal_parts() -> None:
    found = runs(3, 8, partition=True)
    sizes = [high - low for low, high in found]
    assert found[0][0] == 0
    assert found[-1][1] == 8
    assert sum(sizes) == 8
    assert np.ptp(sizes) <= 1
