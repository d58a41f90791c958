"""Allowances of box projections against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.families.projection import rounding
from convexstruct.families.projection.box import BoxProjection
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


@pytest.mark.parametrize("lower", [0.0, -1e-300])
def test_the_size_of_a_sum_without_negative_terms_is_at_least_their_sum(lower: float) -> None:
    """Where the one lower bound says that no entry is negative, the sum itself serves, a little enlarged."""
    rng = np.random.default_rng(0)
    a = rng.random(3000) * 10.0 ** rng.uniform(-20, 20, size=3000)
    data = Data(a, lower, np.inf, -0.1, 1.0, 0.0)
    assert data.positive is (lower == 0.0)
    found, size = data.weighted(a, data.positive)
    exact = sum(Fraction(-0.1) * Fraction(x) for x in a.tolist())
    assert abs(Fraction(float(found)) - exact) <= Fraction(found.allowance)
    assert -exact <= Fraction(size) <= -exact * (1 + Fraction(1e-9))


def test_weights_whose_squares_underflow_are_looked_at_entry_by_entry() -> None:
    problem = BoxProjection(np.ones(2), 0.0, 2.0, 1.0, 1.0, np.array([1e-152, 1.0]))
    assert rounding.lost_at_most(2, 0.5, 2.0, 2.0, problem.weight_ends) == np.inf
    assert cs.solve(problem).status is cs.Status.OPTIMAL
