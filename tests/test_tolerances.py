from __future__ import annotations

import math

import pytest

from convexstruct.tolerances import HIGH, LOW, MID, ROUNDING, met, profile


@pytest.mark.parametrize(("given", "wanted"), [("low", LOW), ("MID", MID), (HIGH, HIGH)])
def test_a_profile_goes_by_its_name_in_any_case(given: object, wanted: object) -> None:
    assert profile(given) is wanted  # type: ignore[arg-type]  # the parametrised type is wider


def test_a_number_becomes_a_gap_with_the_feasibility_of_the_nearest_stricter_profile() -> None:
    assert profile(2e-4).gap == 2e-4
    assert profile(2e-4).feasibility == MID.feasibility
    assert profile("0.01").feasibility == LOW.feasibility
    assert profile(1e-9).feasibility == HIGH.feasibility


def test_met_names_the_strictest_profile_that_gap_and_feasibility_reach() -> None:
    assert met(HIGH.gap) == "HIGH"
    assert met(HIGH.gap, feasibility=MID.feasibility) == "MID"
    assert met(2 * LOW.gap) is None
    assert met(0.0, feasibility=2 * LOW.feasibility) is None
    assert met(math.inf) is None
    assert met(math.nan) is None
    assert met(-0.1 * ROUNDING) == "HIGH"
    assert met(-2 * ROUNDING) is None  # upside down
    assert not LOW.met_by(-0.18)
