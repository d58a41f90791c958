"""The cases: planted optima are optima, every one is verified and has its stored reference."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.cases import Instance
from convexstruct.families.log_linear import ConditionalRandomField, cases, planted
from convexstruct.tolerances import HIGH, ROUNDING
from convexstruct.verification import cases_for, verify
from convexstruct.verification.references import stored
from tests.verification.rows import told

PLANTED = [planted.planted_ridge, planted.planted_lasso, planted.flat]


@pytest.mark.parametrize("make", PLANTED)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_point_built_in_satisfies_the_optimality_conditions(make: cases.Make, seed: int) -> None:
    instance: Instance = make(seed)
    problem = instance.problem
    assert isinstance(problem, ConditionalRandomField)
    assert instance.point is not None
    theta = instance.point["theta"]
    loss, gradient = problem.value_and_gradient(theta)  # tested against enumeration where it is defined
    assert np.abs(problem.penalty.gradient(theta, gradient)).max() <= 1e-12
    assert loss + problem.penalty.value(theta) == pytest.approx(instance.optimum, rel=ROUNDING)


def test_the_planted_lasso_has_zeros_and_others() -> None:
    point = planted.planted_lasso(0).point
    assert point is not None
    assert 0 < np.count_nonzero(point["theta"]) < len(point["theta"])


def test_every_case_is_verified() -> None:
    outcome = verify(on="log_linear", quick=True, tol=HIGH)
    assert outcome.ok, told(outcome)
    assert len(outcome) >= 15


def test_every_open_case_has_a_stored_reference_for_this_data() -> None:
    assert [case.name for case in cases_for("log_linear", open_only=True) if not stored(case, case.build())] == []
