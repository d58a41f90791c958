"""Constraint generation: bounds valid every round, both slacks, the box."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.exact_generative import Listed
from convexstruct.core.solution import Status
from convexstruct.datasets.generated.ring import ring
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.models.generative_margin import cuts as generative_margin_cuts
from convexstruct.models.generative_margin.compact import compact_dual
from convexstruct.models.generative_margin.cuts import START_FLOOR, ConstraintGeneration, n_slack, valid_floor
from convexstruct.models.generative_margin.enumerated import primal
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.families.generative_margin.test_ruled_out import chain, network
from tests.models.generative_margin.instances import INSTANCES, hmm
from tests.models.test_constraint_generation import bounds_hold
from tests.reference import optimum


@pytest.mark.parametrize(
    ("name", "one"), [("ring loss, ragged, weighted", True), ("large eta", False), ("network, another", False)]
)
def test_the_bounds_of_every_round_enclose_the_enumerated_optimum(name: str, one: bool) -> None:
    problem = INSTANCES[name]()
    tight = primal(problem).solve("SCS")
    run = ConstraintGeneration(problem, one)
    solution = run.run(HIGH)
    assert solution.status is Status.OPTIMAL, solution.message
    assert abs(tight.gap) < ROUNDING * 100
    bounds_hold(run, 0.5 * (tight.primal + tight.lower_bound))
    assert len(run.rounds) > 2
    assert run.rounds[0].primal > run.rounds[-1].primal
    assert run.rounds[0].lower_bound < run.rounds[-1].lower_bound
    assert sum(step.added for step in run.rounds) == sum(int(kept.sum()) if not one else 1 for kept in run.in_master)


def test_the_ring_is_solved_where_no_enumeration_is_possible() -> None:
    data = ring(4, 6, 4, seed=1)
    problem = GenerativeMargin.hmm(data.symbols, data.states, 4, data.n_symbols, eta=0.2, loss="ring")
    solution = n_slack(problem).run(HIGH)
    assert solution.status is Status.OPTIMAL, solution.message
    assert optimum(compact_dual(problem)).value == pytest.approx(solution.primal, rel=HIGH.gap)


def test_the_valid_floor_cuts_off_no_theta_that_is_as_good() -> None:
    """Lower one entry until P reaches the upper bound, with the rest as favourable as it can be: never below it."""
    problem = hmm(0)
    upper = problem.evaluate(problem.uniform()).value
    floor = valid_floor(problem, upper)
    solved = primal(problem).solve()
    assert (solved.point["theta"] > floor).all()
    layout, c = problem.layout, problem.c
    for j in range(problem.dimension):
        theta = np.log(c)
        block = layout.block_of == layout.block_of[j]
        others = block & (np.arange(problem.dimension) != j)
        theta[others] = np.log(c[others] / c[others].sum())
        theta[j] = floor[j]
        # without the violations P is exactly the bound here; with them it is above
        assert -c @ theta == pytest.approx(upper, rel=ROUNDING)
        assert problem.evaluate(theta).value >= upper * (1 - ROUNDING)


def test_a_box_that_is_too_small_is_widened_until_the_bounds_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = hmm(5, n_states=2, eta=20.0)
    solved = primal(problem).solve()
    assert solved.point["theta"].min() < -2
    monkeypatch.setattr(generative_margin_cuts, "START_FLOOR", -1.5)
    run = n_slack(problem)
    solution = run.run(HIGH)
    assert solution.status is Status.OPTIMAL, solution.message
    assert run.rounds[-1].floor < -1.5
    bounds_hold(run, 0.5 * (solved.primal + solved.lower_bound) + HIGH.gap)


@pytest.mark.parametrize(("problem", "one"), [(chain(0), True), (network(0), False)], ids=["chain", "network"])
def test_columns_that_c_rules_out_are_certified_and_theta_stays_within_the_floor(
    problem: GenerativeMargin, one: bool
) -> None:
    """There mu differs from 0 by rounding only, and theta has no cost: it must not fall below the floor."""
    run = ConstraintGeneration(problem, one)
    solution = run.run(MID, max_rounds=40)
    assert solution.status is Status.OPTIMAL, solution.message
    theta = solution.point["theta"]
    assert theta.min() >= 10 * START_FLOOR
    exact = Listed(problem).value(theta)
    assert solution.lower_bound <= exact <= solution.primal
