from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from convexstruct.core.cases import Instance
from convexstruct.core.driver import solve
from convexstruct.families.log_linear import field_cases as cases
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.log_linear.fields import value

BACKWARDS = [cases.planted_ridge, cases.planted_free, cases.planted_lasso, cases.planted_elastic, cases.uniform]
#: These state one problem whatever the seed.
FIXED = {"mrf-border", "mrf-uniform", "mrf-inside"}


def field(instance: Instance) -> MarkovRandomField:
    assert isinstance(instance.problem, MarkovRandomField)
    return instance.problem


@pytest.mark.parametrize("make", BACKWARDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_point_built_in_has_the_optimum_built_in_and_is_optimal(make: Callable[[int], Instance], seed: int) -> None:
    instance = make(seed)
    problem = field(instance)
    assert instance.point is not None
    theta = instance.point["theta"]
    assert value(problem, theta) == pytest.approx(instance.optimum, rel=ROUNDING)
    gradient = problem.penalty.gradient(theta, problem.value_and_gradient(theta)[1])
    assert np.abs(gradient).max() <= 1e-12 * problem.mass


@pytest.mark.parametrize("make", [cases.tree, cases.border])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_by_hand_is_the_certified_one(make: Callable[[int], Instance], seed: int) -> None:
    instance = make(seed)
    solution = solve(instance.problem)
    assert solution.gap <= HIGH.gap
    assert solution.primal == pytest.approx(instance.optimum, rel=HIGH.gap)


def test_no_theta_attains_the_cases_that_say_so_and_the_others_are_attained() -> None:
    runs_away = {case.name for case in cases.FIELD_CASES if field(case.make(0)).runaway() is not None}
    assert runs_away == {"mrf-border", "mrf-rare"}


def test_half_of_the_parameters_of_the_lasso_are_0_and_are_found_to_be() -> None:
    instance = cases.planted_lasso(0)
    assert instance.point is not None
    theta = solve(instance.problem, tol=HIGH).point["theta"]
    np.testing.assert_array_equal(theta == 0, instance.point["theta"] == 0)


def test_every_generator_is_deterministic_and_heeds_its_seed() -> None:
    for case in cases.FIELD_CASES:
        first, again, other = (field(case.make(seed)) for seed in (3, 3, 4))
        np.testing.assert_array_equal(first.sums, again.sums)
        same = first.sums.shape == other.sums.shape and np.array_equal(first.sums, other.sums)
        assert same == (case.name in FIXED), case.name
