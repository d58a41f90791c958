"""L-BFGS-B on the dual and the interior point method after it: against Clarabel and each other, and where they end."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import convexstruct as cs
from convexstruct.families.energy_network import ConvexEnergyNetwork
from convexstruct.families.energy_network.solvers import dual_lbfgsb, interior_point
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


def without_interior_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interior_point, "MOST_UNKNOWNS", 0)


def test_the_first_end_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which run ends early by itself hangs on the last digits, and so on the processor: one of six on each tried."""
    without_interior_points(monkeypatch)
    problems = [small(seed, n=12, n_labels=4, n_units=3, lam=1e-4) for seed in (2, 4, 5, 11, 12, 13)]
    with monkeypatch.context() as patch:
        patch.setattr(dual_lbfgsb, "MOST_ENDED", 1)
        early = next(each for each in problems if cs.solve(each).status is cs.Status.STALLED)
    assert cs.solve(early).status is cs.Status.OPTIMAL


@pytest.mark.parametrize("features", [[[8e29]], [[1.0], [8e29]]])
def test_it_ends_too_where_rounds_raise_the_dual_by_nothing_that_counts(
    features: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`LEAST_RISE`: each round doubles its steps, and the first of these took more and more of them for ever."""
    without_interior_points(monkeypatch)
    problem = ConvexEnergyNetwork(features, np.zeros((len(features), 1), int), 1e-4)
    solution = cs.solve(problem, cs.solvers.DualLBFGSB(), max_iterations=20)
    assert solution.status is cs.Status.STALLED
    assert solution.message
    assert solution.lower_bound <= solution.primal


def test_features_whose_squares_overflow_are_no_error() -> None:
    solution = cs.solve(ConvexEnergyNetwork([[1e200]], np.zeros((1, 1), int), 1e-4), cs.solvers.DualLBFGSB())
    assert solution.lower_bound <= solution.primal


def with_column(kind: str, n: int, rng: np.random.Generator) -> Any:
    """Inputs one of whose columns is of another size, or nearly another column."""
    x = rng.normal(size=(n, 4))
    if kind == "year":
        x[:, 0] = 2000 + rng.integers(25, size=n)
    elif kind == "time stamp":
        x[:, 0] = 1.7e9 + 60.0 * np.arange(n)
    elif kind == "twins":
        x[:, 1] = x[:, 0] + 1e-9 * rng.normal(size=n)
    elif kind == "mixed":
        x *= [1e-8, 1e-3, 1e3, 1e8]
    elif kind == "zero":
        x[:, 2] = 0.0
    return sp.csr_array(x) if kind == "sparse" else x


@pytest.mark.parametrize(
    ("kind", "lam", "n_units"),
    [
        ("year", 1e-2, 3),
        ("time stamp", 1e-2, 3),
        ("time stamp", 1.0, 0),
        ("twins", 1.0, 0),
        ("mixed", 1e-2, 3),
        ("mixed", 1e3, 3),
        ("zero", 1e-2, 3),
        ("sparse", 1e-2, 3),
    ],
)
def test_columns_of_any_size(kind: str, lam: float, n_units: int) -> None:
    rng = np.random.default_rng(8)
    hidden = rng.normal(size=(n_units, 5)) if n_units else None
    problem = ConvexEnergyNetwork(with_column(kind, 30, rng), rng.integers(2, size=(30, 4)), lam, hidden)
    assert cs.solve(problem).status is cs.Status.OPTIMAL


@pytest.mark.parametrize(
    ("n", "n_labels", "n_units", "seed"),
    [(1, 1, 0, 0), (1, 1, 3, 1), (1, 3, 0, 1), (1, 3, 3, 2), (7, 1, 0, 2), (7, 1, 3, 0), (9, 3, 0, 0), (9, 3, 3, 2)],
)
def test_both_methods_find_the_same_optimum(n: int, n_labels: int, n_units: int, seed: int) -> None:
    """The central path alone: its last bounds hold each other and those of L-BFGS-B."""
    problem = small(seed, n=n, n_labels=n_labels, n_units=n_units, lam=(1e-2, 1.0, 30.0)[seed])
    known = cs.solve(problem)
    assert known.status is cs.Status.OPTIMAL
    iterates = list(islice(interior_point.central_path(problem, 0), 200))
    assert iterates[-1].done
    primal, lower = min(each.primal for each in iterates[:25]), max(each.lower_bound for each in iterates[:25])
    slack = HIGH.gap * known.primal
    assert known.lower_bound - slack <= primal <= known.primal + slack
    assert abs(primal - lower) <= slack


def test_a_problem_too_large_for_its_matrices_is_left_to_lbfgsb(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interior_point.operations(small(1)) < np.inf
    assert interior_point.operations(small(1, n=2, d=interior_point.MOST_UNKNOWNS)) == np.inf
    monkeypatch.setattr(interior_point, "MOST_NUMBERS", 10)
    assert interior_point.operations(small(1)) == np.inf


@pytest.mark.parametrize(
    ("name", "value", "sooner"), [("SHORT_OF_BORDER", 0.5, False), ("LEAST_STEP", 0.9, True), ("LEAST_MU", 1e-3, True)]
)
def test_where_the_path_ends_and_how_far_a_step_goes(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float, sooner: bool
) -> None:
    problem = small(3, n=9)
    steps = len(list(interior_point.central_path(problem, 0)))
    monkeypatch.setattr(interior_point, name, value)
    assert (len(list(interior_point.central_path(problem, 0))) < steps) is sooner


def test_lbfgsb_is_given_some_gradients_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an even problem it needs no more than these."""
    problem = small(2, n=100, d=100, lam=1.0)
    kinds = []
    for steps in (dual_lbfgsb.STEPS_BEFORE, 0):
        monkeypatch.setattr(dual_lbfgsb, "STEPS_BEFORE", steps)
        kinds.append(cs.solve(problem).iterations)
    assert kinds[0] < kinds[1]


def test_the_cause_of_rounding_is_named() -> None:
    solution = cs.solve(ConvexEnergyNetwork([[1.7e9, 1.0]], np.array([[1]]), 1e-6), tol=1e-12)
    assert solution.status is cs.Status.ROUNDING
    assert "feature 0 reaches 1.7e+09" in solution.message
    assert "take a larger lam" in small(1).rounding_reason({}, None)
