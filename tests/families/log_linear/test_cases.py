"""The cases: points that are built in are stationary, zeros are found, and which cases have no maximum."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.log_linear import FAMILY, MarkovRandomField
from convexstruct.tolerances import HIGH

CASES = {case.name: case for case in FAMILY.cases}


@pytest.mark.parametrize("name", ["mrf-planted-lasso", "crf-planted-lasso"])
def test_zeros_that_are_built_in_are_found(name: str) -> None:
    instance = CASES[name].make(0)
    assert instance.point is not None
    zero = instance.point["theta"] == 0
    assert 0 < zero.sum() < len(zero)
    np.testing.assert_array_equal(solve(instance.problem, tol=HIGH).point["theta"] == 0, zero)


def test_no_theta_attains_the_cases_that_say_so_and_the_others_are_attained() -> None:
    problems = {name: case.make(0).problem for name, case in CASES.items()}
    fields = {name: problem for name, problem in problems.items() if isinstance(problem, MarkovRandomField)}
    assert {name for name, problem in fields.items() if problem.runaway() is not None} == {"mrf-border", "mrf-rare"}
