"""The search along a direction: near the zero of the slope from any guess, and never without end."""

from __future__ import annotations

import pytest

from convexstruct.families.regularized_risk.solvers.semismooth_newton import (
    line_search,
)
from convexstruct.families.regularized_risk.solvers.semismooth_newton.line_search import search
from convexstruct.tolerances import ROUNDING


@pytest.mark.parametrize("zero", [1e-4, 0.3, 1.0, 7.0, 1e5])
@pytest.mark.parametrize("beyond", [1.0, 1e-6, 1e6])
def test_a_search_ends_near_the_zero_of_a_rising_slope_and_lower_than_it_began(zero: float, beyond: float) -> None:
    def slope(t: float) -> float:
        return (t - zero) / zero * (beyond if t > zero else 1.0)

    t = search(slope, -1.0)
    assert -0.3 <= slope(t) <= 0.3
    gained = 0.5 * zero if t > zero else t - 0.5 * t * t / zero
    assert 0.5 * max(t - zero, 0.0) ** 2 / zero * beyond < gained
    assert search(slope, 0.0) == 0.0


@pytest.mark.parametrize("guess", [1e-40, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("zero", [1e-6, 0.3, 1.0, 1e5])
def test_the_search_finds_the_zero_from_a_guess_far_too_short_or_a_million_times_too_long(
    guess: float, zero: float
) -> None:
    t = search(lambda t: min(t / zero - 1.0, 1.0), -1.0, guess)
    assert abs(t / zero - 1.0) <= 0.1 * (1 + ROUNDING)


def test_a_search_for_a_slope_that_jumps_over_its_zero_takes_as_many_trials_as_it_may() -> None:
    """By rounding: no t has a slope near 0, and without SEARCH_TRIALS the search has no end."""
    tried: list[float] = []

    def slope(t: float) -> float:
        tried.append(t)
        return -1.0 if t < 0.3 else 1.0

    assert search(slope, -1.0) == pytest.approx(0.3, rel=1e-6)
    assert len(tried) == line_search.SEARCH_TRIALS
