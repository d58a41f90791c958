"""Figure 20.1: the surface by all eight joint labels, and its maximum by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from convexstruct.families.log_linear.experiments import log_likelihood_surface as figure
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.families.quick_runs import quick


def by_enumeration(x: float, y: float) -> float:
    scores = [x * (a and b) + y * (b and c) for a, b, c in itertools.product((0, 1), repeat=3)]
    return float(90.0 * x + 15.0 * y - 100.0 * np.log(np.exp(scores).sum()))


def test_the_surface_is_the_log_likelihood_of_the_counts() -> None:
    first, second = np.linspace(-2.0, 5.0, 4), np.linspace(-3.0, 3.0, 3)
    heights = figure.surface(figure.network(), first, second)
    wanted = [[by_enumeration(x, y) for x in first] for y in second]
    np.testing.assert_allclose(heights, wanted, rtol=ROUNDING)


def test_the_maximum_is_the_one_by_hand() -> None:
    """Its gradient vanishes, and the certified solution is there."""
    theta = figure.by_hand()
    assert np.abs(figure.network().value_and_gradient(theta)[1]).max() <= 1e-10
    result = quick("log-likelihood-surface").result
    assert result.rows[0][1:3] == pytest.approx(theta.tolist(), abs=MID.gap)
    assert result.rows[0][3] == pytest.approx(by_enumeration(*theta), rel=HIGH.gap)
    assert result.rows[0][4:] == pytest.approx([0.9, 0.15], abs=MID.gap)
