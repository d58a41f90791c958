"""Allowances of box projections against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from convexstruct.families.projection.rounding import Data


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("same", [False, True])
def test_the_allowance_of_a_weighted_sum_that_cancels_holds_its_error(seed: int, same: bool) -> None:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=500)
    s, a = rng.normal(size=1000), np.concatenate((half, -half * (1.0 + 1e-12)))
    s[500:] = s[:500]
    weights = 0.1 if same else s
    found, size = Data(a, -np.inf, np.inf, weights, 1.0, 0.0).weighted(a)
    exact = [Fraction(x) * Fraction(y) for x, y in zip(np.broadcast_to(weights, 1000).tolist(), a.tolist())]
    assert abs(Fraction(float(found)) - sum(exact)) <= Fraction(found.allowance)
    assert sum(map(abs, exact)) <= Fraction(size)
