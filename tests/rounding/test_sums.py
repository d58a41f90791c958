"""Allowances: proved against rational arithmetic."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.rounding import (
    TINY,
    Rounded,
    binned,
    dot,
    enclose,
    exact,
    gamma,
    summed,
    total,
)
from convexstruct.rounding.functions import BLOCK_TERMS, EXACT_TERMS

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64)


def inside(value: Rounded, exact: Fraction) -> bool:
    """Whether the exact number lies in the enclosure; one that is not finite encloses everything."""
    if not math.isfinite(value):
        return True
    low = value.lower == -math.inf or Fraction(value.lower) <= exact
    high = value.upper == math.inf or exact <= Fraction(value.upper)
    return low and high


@given(st.lists(FLOATS, max_size=30))
def test_a_total_encloses_the_exact_sum(terms: list[float]) -> None:
    assert inside(total(terms), sum(map(Fraction, terms), Fraction(0)))


@given(st.lists(st.tuples(FLOATS, FLOATS), max_size=30))
def test_a_dot_product_encloses_the_exact_one(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    with np.errstate(over="ignore", invalid="ignore"):
        found = dot(x, y)
    assert inside(found, sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0)))


@settings(deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0, 1, EXACT_TERMS, EXACT_TERMS + 1, 1000, BLOCK_TERMS * EXACT_TERMS + 7]),
    st.booleans(),
)
def test_a_sum_of_sums_encloses_the_exact_one(seed: int, n: int, positive: bool) -> None:
    rng = np.random.default_rng(seed)
    terms = rng.integers(-(2**52), 2**52, size=n) * 2.0 ** rng.integers(0, 100 * (seed % 2) + 1, size=n)
    terms = np.abs(terms) if positive else terms
    found = summed(terms, positive=positive)
    assert inside(found, Fraction(sum(map(int, terms.tolist()))))
    assert found.allowance <= gamma(3 * BLOCK_TERMS) * float(np.abs(terms).sum()) + TINY * 8


def test_terms_that_are_rounded_themselves_widen_their_sum() -> None:
    parts = np.full(300, 0.1)
    found = summed(parts * parts, operations=1, positive=True)
    assert inside(found, 300 * Fraction(0.1) ** 2)
    assert found.allowance > summed(parts * parts, positive=True).allowance


def test_allowances_whose_sum_overflows_say_nothing() -> None:
    assert total([Rounded(1.0, 1.7e308), Rounded(2.0, 1.7e308)]).allowance == math.inf
    assert total([Rounded(1.0, math.inf), Rounded(2.0, 1.0)]).allowance == math.inf
    assert total([Rounded(1.0, math.nan), Rounded(2.0, 1.0)]).allowance == math.inf


def test_a_product_that_underflows_is_allowed_for() -> None:
    found = dot(np.array([1e-200]), np.array([1e-200]))
    assert float(found) == 0
    assert found.upper >= TINY


def test_what_cancels_is_seen_in_the_allowance() -> None:
    found = dot(np.array([1e16, 1.0, -1e16]), np.ones(3))
    assert found.allowance >= 1.0
    assert found.allowance < 100


def test_a_rounded_value_is_a_float_and_survives_a_copy_to_another_process() -> None:
    value = Rounded(2.0, 0.5)
    assert value == 2.0
    assert (value.lower, value.upper) == (math.nextafter(1.5, 0), math.nextafter(2.5, 3))
    copy = pickle.loads(pickle.dumps(value))
    assert (copy, copy.allowance) == (2.0, 0.5)
    assert enclose(value) is value
    assert enclose(3.0).allowance == 0
    assert Rounded(1.0, math.nan).upper == math.inf


def test_gamma_is_infinite_where_its_bound_is_void() -> None:
    assert gamma(2**53) == math.inf
    assert gamma(1) > 2.0**-53


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-1e200, 1e200)), max_size=40))
def test_sums_by_index_enclose_the_exact_ones_and_know_an_exact_zero(terms: list[tuple[int, float]]) -> None:
    index = np.array([i for i, _ in terms] * 2, dtype=np.intp)
    values = np.array([x for _, x in terms] + [-x for _, x in terms])
    zero = binned(exact(values), index, 4)
    if len({abs(x) for _, x in terms if x}) <= 1:
        assert not zero.value.any()
        assert not zero.errors.any()
    half = len(terms)
    found = binned(exact(values[:half]), index[:half], 4)
    for i in range(4):
        truth = sum((Fraction(x) for j, x in terms if j == i), Fraction(0))
        assert abs(Fraction(float(found.value[i])) - truth) <= Fraction(float(found.errors[i])) * (
            1 + Fraction(1, 10**9)
        )
        assert found.errors[i] <= 2**-52 * abs(found.value[i]) + 1e-40 * np.abs(values).max(initial=0.0)
