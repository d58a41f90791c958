"""The interior point method: small problems on which first-order methods rest far from the optimum, and its parts."""

from __future__ import annotations

import numpy as np
import pytest

import convexstruct as cs
from benchmarks.unsupervised_margin import drawn
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.registry import choose
from convexstruct.core.solution import Status
from convexstruct.families.unsupervised_margin import InteriorPoint, UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.free_entries import FreeEntries, count_entries
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import MID, ROUNDING, profile

#: Of the benchmark's small random problems: here ADMM was not within 1e-4 after seconds. Two rows; as many labels as
#: rows; bands of (9) of 1e-9; the smallest pair balance, which leaves hardly anything of N; singular kernels.
HARD = (5, 19, 33, 53, 60, 68, 80, 93, 102, 116)


@pytest.mark.parametrize("number", HARD)
def test_small_problems_are_solved_in_brackets_with_a_general_solver(number: int) -> None:
    problem = drawn(number)
    own = cs.solve(problem, tol=MID)
    assert own.status is Status.OPTIMAL
    assert own.solver.startswith("InteriorPoint")
    assert max(problem.residuals(own.point).values()) <= ROUNDING
    other = FORMULATIONS["unsupervised_margin.reduced"].builder(problem).solve("CLARABEL", MID)  # certified, not exact
    slack = ROUNDING * max(1.0, abs(own.primal))
    assert max(own.lower_bound, other.lower_bound) <= min(own.primal, other.primal) + slack


@pytest.mark.parametrize("number", [53, 124])
def test_few_steps_suffice_because_mu_falls_only_once_the_multipliers_are_stationary(number: int) -> None:
    """From mu/s alone, in thin bands far from stationary, these take 53 to 68."""
    assert cs.solve(drawn(number), InteriorPoint()).iterations <= 40


def chains(n_labels: int = 2) -> UnsupervisedMargin:
    x = np.random.default_rng(0).normal(size=(7, 2))
    return UnsupervisedMargin.read([x[:5], x[5:]], n_labels, beta=1.0, label_balance=0.3, pair_balance=0.7)


@pytest.mark.parametrize("balance", [1e-1, 1e-9])
def test_a_band_may_leave_hardly_any_room(balance: float) -> None:
    x = np.random.default_rng(0).normal(size=(7, 2))
    problem = UnsupervisedMargin.read([x[:4], x[4:]], 2, beta=1.0, label_balance=balance)
    assert cs.solve(problem, InteriorPoint(), tol=MID).status is Status.OPTIMAL


def test_every_iterate_is_strictly_feasible_and_after_its_last_step_it_says_what_it_has() -> None:
    problem, iterates = chains(), list[Iterate]()
    solution = cs.solve(problem, InteriorPoint(steps=4), callback=lambda iterate, trace: iterates.append(iterate))
    assert len(iterates) == 5
    assert all(min(problem.feasible.slacks(each.point)) > 0.0 for each in iterates)
    assert solution.status is Status.STALLED
    assert "4 steps" in solution.message
    assert solution.lower_bound <= cs.solve(problem).lower_bound <= cs.solve(problem).primal <= solution.primal


@pytest.mark.parametrize("n_labels", [2, 3])
def test_the_free_entries_state_the_constraints_and_the_objective(n_labels: int) -> None:
    problem, rng = chains(n_labels=n_labels), np.random.default_rng(1)
    of, safe = FreeEntries(problem), problem.feasible.safe
    assert len(of.x) == count_entries(problem)
    for name, matrix in of.point(of.x).items():
        np.testing.assert_array_equal(matrix, safe[name])
    for _ in range(50):
        x = of.x + rng.normal(size=len(of.x)) * 10.0 ** rng.uniform(-2, 0)
        point = of.point(x)
        said = problem.residuals(point)
        broken = max(said[name] for name in said if "semidefinite" not in name)
        excess = float(np.maximum(of.G @ x - of.h, 0.0).max())
        assert (broken > ROUNDING) == (excess > ROUNDING)
        rise = float(problem.primal(point)) - float(problem.primal(safe))
        assert rise == pytest.approx(-of.size * float(of.c @ (x - of.x)) / (2.0 * problem.beta), abs=1e-9)


@pytest.mark.parametrize(
    ("rows", "gap", "chosen"), [(8, 1e-3, "Int"), (36, 1e-3, "Low"), (36, 1e-6, "Int"), (60, 1e-6, "Low")]
)
def test_it_is_chosen_for_few_rows_and_for_more_of_them_where_an_accurate_answer_is_wanted(
    rows: int, gap: float, chosen: str
) -> None:
    problem = UnsupervisedMargin.read([np.eye(2)[np.arange(rows) % 2]], 2, beta=1.0, label_balance=0.3)
    assert type(choose(problem, profile(gap))[0]).__name__.startswith(chosen)


@pytest.mark.parametrize("balance", [1e-11, 1e-12])
def test_a_balance_within_rounding_that_stalls_a_run_is_named(balance: float) -> None:
    found = solve(UnsupervisedMargin.multiclass(np.random.default_rng(0).normal(size=(6, 3)), 2, 0.1, balance))
    assert not found.status.solved
    assert f"label_balance is {balance:.1e}, about what rows are out of balance by rounding" in found.message
