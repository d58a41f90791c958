"""Every penalty of the slacks against its definition: convex, rising, and its conjugate by a search."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from convexstruct.families.generative_margin.slack_penalties import (
    PENALTIES,
    Capped,
    Exponential,
    Huber,
    Linear,
    Power,
    Quadratic,
    SlackPenalty,
)
from convexstruct.rounding import RoundedArray

EVERY: list[SlackPenalty] = [
    Linear(), Quadratic(0.5), Quadratic(2.0, 0.7), Huber(1.5), Power(1.5), Power(3.0), Exponential(2.0), Capped(4.0),
]  # fmt: skip
every = pytest.mark.parametrize("h", EVERY, ids=str)


def slacks(h: SlackPenalty) -> np.ndarray:
    return np.linspace(0.0, min(3.9, h.most), 40)


def test_every_penalty_is_tested() -> None:
    assert {type(h) for h in EVERY} == set(PENALTIES.values())


@every
def test_it_is_convex_rises_from_0_and_its_slope_is_the_derivative(h: SlackPenalty) -> None:
    eps = slacks(h)
    values, step = h.value(eps), 1e-5
    assert values[0] == 0.0
    assert (np.diff(values) > 0).all()
    assert (np.diff(values, 2) >= -1e-12).all()
    inner = eps[1:-1]
    np.testing.assert_allclose(h.slope(inner), (h.value(inner + step) - h.value(inner - step)) / (2 * step), rtol=1e-5)
    assert (h.slope(eps) <= h.steepest + 1e-12).all()


@every
def test_fenchel_and_young_meet_at_the_slope(h: SlackPenalty) -> None:
    eps = slacks(h)
    b = h.slope(eps)
    np.testing.assert_allclose(h.value(eps) + h.conjugate(b), eps * b, atol=1e-12)
    attained = h.conjugate_slope(b)
    np.testing.assert_allclose(b * attained - h.value(attained), h.conjugate(b), atol=1e-12)


@every
def test_the_conjugate_is_the_supremum_found_on_a_grid(h: SlackPenalty) -> None:
    grid = np.linspace(0.0, h.most * (1 - 1e-9) if math.isfinite(h.most) else 50.0, 200_001)
    for b in (0.0, 0.1, 0.5, 0.9, 1.0, *(() if h.steepest <= 1 else (1.7, 3.0))):
        assert float(h.conjugate(np.array(b))) == pytest.approx(float(np.max(b * grid - h.value(grid))), abs=1e-4)


@every
@pytest.mark.parametrize("function", ["value", "conjugate"])
def test_on_numbers_with_errors_both_ends_are_enclosed(h: SlackPenalty, function: str) -> None:
    of: Callable[[np.ndarray], np.ndarray] = getattr(h, function)
    top = min(3.5, h.most - 0.1) if function == "value" else min(3.5, h.steepest - 1e-3)
    middle, error = np.linspace(0.01, top, 30), 1e-3
    found = of(RoundedArray(middle, np.full(30, error)))  # type: ignore[arg-type]
    for end in (of(middle - error), of(middle), of(middle + error)):
        assert (np.abs(end - found.value) <= found.errors * (1 + 1e-9) + 1e-15).all()  # type: ignore[attr-defined]
    bare = of(RoundedArray(middle))  # type: ignore[arg-type]
    assert (np.abs(of(middle.astype(np.longdouble)) - bare.value) <= bare.errors).all()  # type: ignore[attr-defined]
