"""The part of theta alone: its least value by grids, bounds below it, the continued f, and repaired points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.families.generative_margin.general import General
from convexstruct.families.generative_margin.parameters import Parameters
from convexstruct.rounding import exact
from tests.families.generative_margin.instances import COMBINATIONS, one_variable

#: Points of a grid on each of two probabilities, e^-8 to 1.
GRID = np.linspace(-8.0, 0.0, 801)
NAMES = ["quadratic", "floor", "floor and ceiling", "ceiling", "quadratic term", "reverse divergence"]


def parameters(name: str) -> Parameters:
    """Of one distribution of two values."""
    plain = one_variable([0.3, 0.7], 0.5)
    problem = replace(plain, **COMBINATIONS[name](plain.layout))
    assert isinstance(problem.general, General)
    return problem.general.parameters


def on_the_grid(of: Parameters, u: Vector) -> float:
    """min f(theta) - u'theta over the grid's points that meet the limits."""
    a, b = np.meshgrid(GRID, GRID)
    each = np.stack((a.ravel(), b.ravel()), axis=1)
    low, high = of.limits.low - 1e-12, of.limits.high + 1e-12
    inside = ((each >= low) & (each <= high)).all(axis=1) & (np.exp(each).sum(axis=1) <= 1.0)
    values = -each[inside] @ u
    if of.f is not None:
        values = values + np.sum(of.f.value(each[inside]), axis=1)
    return float(values.min())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("u", [[0.3, 0.7], [2.0, 0.1], [0.4, -0.2]])
def test_the_least_value_is_that_of_a_grid_and_its_bound_is_below(name: str, u: list[float]) -> None:
    of, given = parameters(name), np.array(u)
    value, theta, _ = of.least(given)
    if (given[of.free] < 0).any():
        assert value == -np.inf == float(of.bound(exact(given)))
        return
    least = on_the_grid(of, given)
    assert least - 0.05 <= value <= least + 1e-9  # a point of the grid is within 0.01 of theta's in each entry
    bound = of.bound(exact(given))
    assert value - 1e-9 <= bound.lower <= bound.upper <= value + 1e-9
    assert np.exp(theta).sum() <= 1 + 1e-9
    assert (theta >= of.limits.low).all()
    assert (theta <= of.limits.ceiling).all()


def test_below_its_floor_the_reverse_divergence_is_continued_by_its_tangent() -> None:
    of = parameters("reverse divergence")
    assert of.f is not None
    every = [np.full(2, t) for t in np.linspace(-12.0, -0.1, 400)]
    value, slope, curvature = (np.array(each)[:, 0] for each in zip(*map(of.extended, every)))
    at = np.array(every)[:, 0]
    assert (np.diff(slope) >= 0).all()
    assert (curvature >= 0).all()
    own = np.array([of.f.slope(theta)[0] for theta in every])
    assert (np.diff(own) < 0).any()  # as it stands it is not convex
    above = at >= of.limits.low[0]
    np.testing.assert_allclose(value[above], [of.f.value(theta)[0] for theta in np.array(every)[above]])
    np.testing.assert_allclose(np.diff(value), np.diff(at) * (slope[1:] + slope[:-1]) / 2, atol=1e-4)
