"""Constraints that cutting planes add: fewer than the theorems allow."""

from __future__ import annotations

from typing import Any

import pytest

from convexstruct.families.structured_svm.experiments import cutting_planes
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.quick_runs import quick
from tests.families.structured_svm.solvers.references import radius


@pytest.mark.slow
def test_no_run_adds_more_than_its_theorem_allows_or_leaves_more_than_c_eps() -> None:
    result = quick("cutting-planes").result
    for cells in result.rows:
        row: dict[str, Any] = dict(zip(result.columns, cells))
        for name in cutting_planes.NAMES:
            assert 1 <= row[name] <= row[f"{name} bound"]
            assert -HIGH.gap <= row[f"P - D, {name}"] <= row["C eps"] + HIGH.gap


@pytest.mark.parametrize("scaling", cutting_planes.SCALINGS)
def test_the_radius_is_the_longest_of_all_differences(scaling: Any) -> None:
    problem = cutting_planes.instance(2, scaling, seed=3)
    assert cutting_planes.radius(problem) == pytest.approx(radius(problem), rel=ROUNDING)
