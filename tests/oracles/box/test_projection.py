"""Projections onto a box with one equality, against every active set, and by the KKT conditions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.exact_polytopes import optimum
from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.projection import BoxProjection, BreakpointSearch
from convexstruct.oracles.box.breakpoints import root_by_medians, root_by_sorting
from convexstruct.oracles.box.projection import (
    Box,
    Search,
    project_box_equality,
    project_with_multiplier,
)
from convexstruct.tolerances import FLOOR, ROUNDING
from tests.oracles.polytope.instances import enumerated, instance


def kkt(m: Vector, lower: Any, upper: Any, s: Any, z: float, d: Any) -> None:
    """Assert the KKT conditions of the answer: feasible, and a = clip(m - rho s / d^2)."""
    a, rho = project_with_multiplier(m, lower, upper, s, z, d)
    assert np.array_equal(a, project_box_equality(m, lower, upper, s, z, d))
    weight = 1.0 if d is None else np.asarray(d) ** 2
    size = max(1.0, abs(z), float(np.abs(s * a).sum()), float(np.abs(m).max()))
    assert (a >= lower).all()
    assert (a <= upper).all()
    assert abs(float(np.sum(s * a)) - z) <= ROUNDING * size
    np.testing.assert_allclose(a, np.clip(m - rho * s / weight, lower, upper), atol=ROUNDING * size)


@pytest.mark.parametrize("seed", range(60))
def test_the_projection_is_the_best_of_all_active_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = instance(rng, int(rng.integers(1, 6)), ties=seed % 2 == 0)
    np.testing.assert_allclose(project_box_equality(*problem), enumerated(*problem), atol=ROUNDING)


@pytest.mark.parametrize("n", [1, 2, 5000, 20_000])
@pytest.mark.parametrize("seed", range(6))
def test_the_kkt_conditions_hold_at_any_size(n: int, seed: int) -> None:
    kkt(*instance(np.random.default_rng(seed), n, ties=seed % 2 == 0))


@pytest.mark.parametrize(
    ("m", "z"),
    [
        (np.zeros(20_000), 1.0),
        (np.ones(20_000), 0.0),
        (np.ones(20_000), 20_000.0),
        (np.arange(20_000) % 3 * 1.0, 7000.0),
        (np.linspace(0, 1, 20_000) ** 8, 3.0),  # the sample's bracket misses
        (np.where(np.arange(20_000) % 143 == 0, 50.0, 0.0), 1000.0),  # every 143rd entry is unlike the others
        (1e9 + np.linspace(0, 1, 20_000), 100.0),  # rho is so large that one unit in its last place is coarse
        (1e-9 * np.linspace(0, 1, 20_000), 1e-6),
    ],
)
def test_ties_large_offsets_and_samples_that_mislead_change_nothing(m: Vector, z: float) -> None:
    kkt(m, 0.0, 1.0, 1.0, z, None)
    kkt(m, 0.0, np.inf, 1.0, z, None)


def test_numbers_for_all_mean_what_arrays_mean() -> None:
    m, ones = np.random.default_rng(5).normal(size=9000), np.ones(9000)
    kkt(m, -0.5, 1.0, -2.0, 10.0, 0.5)
    short = project_box_equality(m, -0.5, 1.0, -2.0, 10.0, 0.5)
    long = project_box_equality(m, -0.5 * ones, ones, -2.0 * ones, 10.0, 0.5 * ones)
    np.testing.assert_allclose(short, long, atol=ROUNDING)


def test_a_z_out_of_reach_gets_the_range_told() -> None:
    with pytest.raises(ValueError, match="z is 4, wanted a value that <s, a> takes inside the bounds: from -1 to 3"):
        project_box_equality(np.zeros(4), np.zeros(4), np.ones(4), np.array([1.0, 1.0, 1.0, -1.0]), 4.0)
    with pytest.raises(ValueError, match="from 0 to inf"):
        project_box_equality(np.zeros(4), 0.0, np.inf, 1.0, -1.0)


@given(st.data())
def test_medians_and_sorting_find_one_root(data: st.DataObject) -> None:
    k = data.draw(st.integers(0, 12))
    t = np.array(data.draw(st.lists(st.integers(0, 5).map(float), min_size=k, max_size=k)))
    bend = -np.array(data.draw(st.lists(st.integers(0, 3).map(float), min_size=k, max_size=k)))  # falls ever faster
    value = data.draw(st.integers(-4, 20)) * 1.0
    sorted_ = root_by_sorting(t, bend, 0.0, value, -1.0)
    assert root_by_medians(t, bend, 0.0, value, -1.0, few=1) == pytest.approx(sorted_, abs=ROUNDING)
    phi = value - sorted_ + float(bend @ np.maximum(sorted_ - t, 0.0))
    assert phi == pytest.approx(0.0, abs=ROUNDING * 100)


@pytest.mark.parametrize("z", [1e-6, 1.0, 30.0])
@pytest.mark.parametrize("tail", ["normal", "cauchy"])
def test_a_simplex_whose_few_positive_entries_no_sample_sees(z: float, tail: str) -> None:
    rng = np.random.default_rng(8)
    m = rng.normal(size=100_000) if tail == "normal" else rng.standard_cauchy(100_000)
    kkt(m, 0.0, np.inf, 1.0, z, None)
    kkt(-m, -np.inf, 0.0, 1.0, -z, None)  # the other direction


@pytest.mark.parametrize("off", [1e-10, 1e-7, 0.02, 2.0, 1e6, 1e300])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_start_however_wrong_ends_at_the_root(side: float, off: float) -> None:
    m, lower, upper, s, z, d = instance(np.random.default_rng(3), 20_000)
    right, rho = project_with_multiplier(m, lower, upper, s, z, d, "sorting")
    found = np.empty_like(m)
    multiplier, _, _ = Box.read(m, lower, upper, s, d).newton(z, rho + side * off, found)
    np.testing.assert_allclose(found, right, atol=ROUNDING)
    assert multiplier == pytest.approx(rho, abs=1e-9)
    assert abs(float(np.sum(s * found)) - z) <= 1e-13 * float(np.sum(np.abs(s * found)))


def exact_simplex(m: list[float], z: float) -> list[Fraction]:
    """The projection onto {a >= 0, sum a = z} in rational arithmetic."""
    values = [Fraction(x) for x in m]
    falling = sorted(values, reverse=True)
    for k in range(len(m), 0, -1):
        rho = (sum(falling[:k]) - Fraction(z)) / k
        if falling[k - 1] > rho:
            break
    return [max(x - rho, Fraction(0)) for x in values]


every_search = pytest.mark.parametrize("search", ["bracket", "medians", "sorting"])


@every_search
@pytest.mark.parametrize(
    ("m", "z"),
    [
        ([1e16, 0.3], 1.0),
        ([1e16, 1e16 - 2.0, 0.3], 1.0),
        ([-1e16, -1e16 + 2.0], 1.0),
        ([1e17, 1e17, 3.0], 1e-5),
        ([1e150, 1.0, -1e150], 1.0),
        ([1e30] * 5 + [0.1] * 5, 2.0),
        ([1e16, 1.0, 1e8, 1e16 + 2.0], 3.0),
        # a multiplier that is right only relative to the largest breakpoint gave (.5, .5) for (0, 1)
        ([-1e250, 1.0, 0.75], 1.0),
        ([1.3e36, -1.9e201, -1.4e147, -3.5e157, 5.2e88, 1.7e79], 1.0),
        ([1.26440974773047e65, -1.8e67, -4.3e21, -3.15e130, -9.7e159, -3.72e130], 1.0),
    ],
)
def test_entries_far_beyond_z_are_projected_as_in_exact_arithmetic(m: list[float], z: float, search: Search) -> None:
    """No double is near enough to rho: without shifts a(rho) sums to 0, not 1."""
    a, _ = project_with_multiplier(m, 0.0, np.inf, 1.0, z, None, search)
    assert list(a) == pytest.approx([float(x) for x in exact_simplex(m, z)], abs=ROUNDING * z)
    if max(map(abs, m)) <= 1e150:  # the objective of larger entries overflows
        assert solve(BoxProjection.simplex(m, z), BreakpointSearch(search)).status is Status.OPTIMAL


def wild(seed: int) -> tuple[Any, ...]:
    """A few entries of any size, from 1e-140 to 1e140, with ties, infinite bounds and equal bounds."""
    rng = np.random.default_rng([99, seed])
    n = int(rng.integers(1, 9))
    reach = float(rng.choice([1, 3, 8, 16, 60, 140]))

    def sized(values: Vector, reach: float) -> Vector:
        return np.asarray(values * 10.0 ** rng.uniform(-reach, reach, size=n if rng.random() < 0.5 else 1))

    m = sized(rng.normal(size=n), reach) + (rng.random() < 0.3) * float(rng.choice([1, 1e8, 1e16, 1e100]))
    m = rng.choice(m, size=n) if rng.random() < 0.3 else m
    d = sized(rng.uniform(0.3, 2, size=n), float(rng.choice([0, 3, min(reach, 60)])))
    if rng.random() < 0.3:
        return m, np.zeros(n), np.full(n, np.inf), np.ones(n), float(10.0 ** rng.uniform(-reach, reach)), d
    lower, upper = -sized(rng.random(n), reach), sized(rng.random(n), reach)
    upper = np.where(rng.random(n) < 0.1, lower, upper)
    lower, upper = np.where(rng.random(n) < 0.2, -np.inf, lower), np.where(rng.random(n) < 0.2, np.inf, upper)
    s = rng.choice([-1.0, 0.0, 0.3, 1.0, 2.0], size=n)
    s = sized(s, min(reach, 60)) if rng.random() < 0.3 else s
    inside = np.clip(sized(rng.normal(size=n), reach), lower, upper)
    if rng.random() < 0.2:  # at an end of what can be reached
        inside = np.where(np.isfinite(upper) & (s > 0), upper, np.where(np.isfinite(lower) & (s < 0), lower, inside))
    return m, lower, upper, s, float(s @ inside), d


def exactly(problem: tuple[Any, ...], search: Search) -> None:
    """Assert that the projection is feasible and its value the least, both in rational arithmetic."""
    m, lower, upper, s, z, d = problem
    a, rho = project_with_multiplier(m, lower, upper, s, z, d, search)
    assert (a >= lower).all()
    assert (a <= upper).all()
    terms = [Fraction(x) * Fraction(y) for x, y in zip(s.tolist(), a.tolist())]
    missed = abs(sum(terms) - Fraction(z))
    assert missed <= Fraction(ROUNDING) * max(sum(map(abs, terms)), abs(Fraction(z)))
    value = sum(Fraction(x) ** 2 * (Fraction(y) - Fraction(w)) ** 2 for x, y, w in zip(d, a, m)) / 2
    box = BoxProjection(*problem)
    best = optimum(box)
    unit = max(best, Fraction(FLOOR) * Fraction(box.trivial_value))
    assert value - best <= Fraction(ROUNDING) * unit + 2 * abs(Fraction(rho)) * missed


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["bracket", "medians", "sorting"]))
@example(0, "bracket")  # the slope is rounding: Newton's step is below one unit, and the root is far
@example(260, "bracket")  # the root is nearer to another double by more than 12 times 16 digits
@example(1746, "bracket")  # sums overflow
def test_entries_of_any_size_are_projected_as_in_exact_arithmetic(seed: int, search: Search) -> None:
    exactly(wild(seed), search)


def test_entries_that_overflow_where_m_is_shifted_stay_at_their_bounds() -> None:
    m = 1e139 * np.array([0.0067663, -0.802546, 0.326748, 0.374877, -0.0192767, -0.1025975])
    d = np.array([6.4e59, 1.9e26, 5.4e-60, 7.4e59, 1.1e-2, 2.4e-56])
    exactly((m, np.zeros(6), np.full(6, np.inf), np.ones(6), 2.44e-106, d), "bracket")


@every_search
def test_a_search_ends_where_the_sums_over_breakpoints_overflow(search: Search) -> None:
    """d^2 and s range so far that the first guess of the root is not a number."""
    m, d = np.array([-2e-11, -2e-11, -2e-10, 6e-11]), np.array([1e-17, 1e-71, 1e65, 1e16])
    s = np.array([1.3e122, 5.8e121, 3.3e120, -6e121])
    with deadline.within(10.0):
        a, rho = project_with_multiplier(m, 0.0, np.inf, s, -3.8e121, d, search)
    np.testing.assert_allclose(a, [0.0, 0.0, 0.0, 3.8 / 6.0])
    assert rho == pytest.approx((6e-11 - 3.8 / 6.0) * 1e32 / -6e121)


def test_at_the_end_of_the_reach_the_multiplier_is_no_larger_than_it_must_be() -> None:
    """phi is 0 from the last breakpoint on, and a root of -1e162 would make the lower bound useless."""
    s, upper, lower = np.array([0.3, -1.0, -1.0]), np.array([0.8, 0.4, 0.6]), np.array([-np.inf, -1.0, -0.2])
    box = Box.read(np.full(3, 1e17), lower, upper, s, None)
    z = float(s @ np.array([0.8, -1.0, -0.2]))
    rho = box.newton(z, -1e162, a := np.empty(3))[0]
    assert rho == -1e162
    assert box.begin(z, rho, -1e16, a) == pytest.approx(-1e17, rel=1.0)
    for start in (-1e16, 1.0):  # no roots: the search meets the level stretch far away
        assert box.newton(z, start, a)[0] == pytest.approx(-1e17, rel=1.0)
    assert abs(s @ a - z) <= 1e-15


def test_the_search_obeys_the_deadline() -> None:
    with deadline.within(0.0), pytest.raises(deadline.DeadlinePassed):
        project_box_equality(np.ones(3), 0.0, 1.0, 1.0, 1.0)
