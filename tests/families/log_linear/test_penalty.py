"""The penalty and its conjugate, against the definitions written out in rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.rounding import Rounded, exact, up

KINDS = [(0.0, 0.0), (0.7, 0.0), (0.0, 0.3), (0.7, 0.3)]
numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
vectors = st.lists(numbers, min_size=1, max_size=6).map(np.array)


def exact_value(penalty: Penalty, theta: np.ndarray) -> Fraction:
    lam, l1 = Fraction(penalty.lam), Fraction(penalty.l1)
    return sum((lam / 2 * Fraction(x) ** 2 + l1 * abs(Fraction(x)) for x in theta.tolist()), Fraction(0))


def exact_conjugate(penalty: Penalty, g: list[Fraction]) -> Fraction | float:
    lam, l1 = Fraction(penalty.lam), Fraction(penalty.l1)
    beyond = [max(abs(x) - l1, Fraction(0)) for x in g]
    if lam == 0:
        return math.inf if any(beyond) else Fraction(0)
    return sum((x * x for x in beyond), Fraction(0)) / (2 * lam)


@pytest.mark.parametrize(("lam", "l1"), KINDS)
@given(theta=vectors)
def test_the_value_is_right_to_its_allowance(lam: float, l1: float, theta: np.ndarray) -> None:
    penalty = Penalty(lam, l1)
    value = penalty.value(theta)
    assert Fraction(value.lower) <= exact_value(penalty, theta) <= Fraction(value.upper)


@pytest.mark.parametrize(("lam", "l1"), KINDS)
@given(g=vectors, error=st.floats(0, 1), entropy=st.floats(0, 1e3), signs=st.integers(0, 63))
def test_the_lower_bound_is_one_of_every_g_within_the_error(
    lam: float, l1: float, g: np.ndarray, error: float, entropy: float, signs: int
) -> None:
    """max over t of t H - R*(t g) at the corners of the box of what g may be."""
    penalty = Penalty(lam, l1)
    found = penalty.lower_bound(Rounded(entropy), g, error)
    corner = [Fraction(x) + Fraction(error) * (1 if signs >> i & 1 else -1) for i, x in enumerate(g.tolist())]
    t = Fraction(penalty.share(entropy, up(np.abs(g) + error)))
    at = exact_conjugate(penalty, [t * x for x in corner])
    assert isinstance(at, Fraction)
    assert Fraction(found.lower) <= t * Fraction(entropy) - at


@pytest.mark.parametrize(("lam", "l1"), KINDS[1:])
def test_the_share_is_no_worse_than_any_other(lam: float, l1: float) -> None:
    penalty, rng = Penalty(lam, l1), np.random.default_rng(3)
    for _ in range(15):
        g, entropy = rng.normal(size=5) * rng.choice([0.01, 1.0, 30.0]), float(rng.uniform(0, 3))
        t = penalty.share(entropy, g)
        values = [s * entropy - float(penalty.conjugate(exact(g), s)) for s in np.linspace(0, 1, 101)]
        assert t * entropy - float(penalty.conjugate(exact(g), t)) >= max(values) - 1e-9


@pytest.mark.parametrize(("lam", "l1"), KINDS)
def test_the_prox_and_the_least_subgradient_fit_the_value(lam: float, l1: float) -> None:
    penalty, rng = Penalty(lam, l1), np.random.default_rng(4)
    for _ in range(20):
        theta, step = rng.normal(size=4), rng.uniform(0.1, 2.0, size=4)
        x = penalty.prox(theta, step)

        tried = [x, *(x + 1e-3 * rng.normal(size=4) for _ in range(20))]
        values = [float(penalty.value(y)) + float(((y - theta) ** 2 / (2 * step)).sum()) for y in tried]
        assert min(values) == values[0]
        np.testing.assert_allclose(penalty.gradient(x, (x - theta) / step), 0.0, atol=1e-12)
