"""L-BFGS-B on the dual: against Clarabel's brackets, where it ends, and what its unit is for."""

from __future__ import annotations

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.families.energy_network import ConvexEnergyNetwork
from convexstruct.families.energy_network.solvers import dual_lbfgsb
from convexstruct.models.energy_network import primal
from convexstruct.tolerances import HIGH
from tests.families.energy_network.networks import small
from tests.reference import optimum


@pytest.mark.parametrize("n_units", [0, 3])
@pytest.mark.parametrize("lam", [0.05, 1.0, 20.0])
def test_it_meets_the_general_solver_in_its_bracket(lam: float, n_units: int) -> None:
    problem = small(11, n=7, n_units=n_units, lam=lam)
    solution, said = cs.solve(problem), optimum(primal(problem))
    assert solution.status is cs.Status.OPTIMAL
    slack = HIGH.gap * said.value
    assert solution.lower_bound - slack <= said.value <= solution.primal + slack


def test_separable_inputs_of_any_size_are_told_from_0() -> None:
    """One example of one label: r = lam / rho^2, and J = r/2, far below one rounding of y = t."""
    for rho in (1e4, 1e6, 1e8):
        solution = cs.solve(ConvexEnergyNetwork([[rho]], np.array([[1]]), 1.0))
        assert solution.lower_bound == pytest.approx(0.5 / rho**2, rel=HIGH.gap)


def test_it_ends_where_no_step_raises_the_dual() -> None:
    solution = cs.solve(small(12), tol=1e-15)
    assert solution.status in (cs.Status.STALLED, cs.Status.ROUNDING)
    assert solution.gap <= HIGH.gap


def test_the_first_end_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small(5, n=12, n_labels=4, n_units=3, lam=1e-4)
    assert cs.solve(problem).status is cs.Status.OPTIMAL
    monkeypatch.setattr(dual_lbfgsb, "MOST_ENDED", 1)
    assert cs.solve(problem).status is cs.Status.STALLED


@pytest.mark.parametrize("features", [[[8e29]], [[1.0], [8e29]]])
def test_it_ends_too_where_rounds_raise_the_dual_by_nothing_that_counts(features: list[list[float]]) -> None:
    """`LEAST_RISE`: each round doubles its steps, and the first of these took more and more of them for ever."""
    problem = ConvexEnergyNetwork(features, np.zeros((len(features), 1), int), 1e-4)
    solution = cs.solve(problem, cs.solvers.DualLBFGSB(), max_iterations=20)
    assert solution.status is cs.Status.STALLED
    assert solution.message
    assert solution.lower_bound <= solution.primal


def test_features_whose_squares_overflow_are_no_error() -> None:
    solution = cs.solve(ConvexEnergyNetwork([[1e200]], np.zeros((1, 1), int), 1e-4), cs.solvers.DualLBFGSB())
    assert solution.lower_bound <= solution.primal
