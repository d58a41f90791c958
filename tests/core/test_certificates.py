from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Point
from convexstruct.core.certificates import Certificate, certify, least_unit, magnitude, relative_gap
from convexstruct.tolerances import FLOOR
from tests.verification.toy import BEST, COSTS, OPTIMUM, Box


@pytest.mark.parametrize(
    ("primal", "lower", "gap"),
    [
        (10.0, 9.0, 0.1), (1e-9, 0.5e-9, 0.5), (-100.0, -200.0, 0.5), (0.0, 0.0, 0.0),
        (9.0, 10.0, -0.1),  # upside down, and it stays visible
        (math.inf, 0.0, math.inf), (0.0, -math.inf, math.inf), (math.nan, 0.0, math.inf),  # undefined
    ],
)  # fmt: skip
def test_the_gap_is_relative_to_the_larger_of_both_bounds_also_below_one(
    primal: float, lower: float, gap: float
) -> None:
    assert relative_gap(primal, lower) == pytest.approx(gap)


def test_near_an_optimum_of_0_the_gap_is_relative_to_a_share_of_the_objective_at_the_trivial_point() -> None:
    assert relative_gap(1e-9, 0.0, least=1e-3) == pytest.approx(1e-6)
    problem = Box(COSTS)
    assert least_unit(problem) == pytest.approx(FLOOR * 6)
    assert magnitude(problem, -2.0, math.inf) == 2.0
    assert magnitude(problem, math.inf, math.nan) == least_unit(problem)
    assert certify(problem, np.zeros(3)).least == pytest.approx(FLOOR * 6)
    assert certify(problem, np.zeros(3), floor=0.5).least == pytest.approx(3.0)


def test_an_upside_down_bracket_meets_no_profile() -> None:
    @dataclass(frozen=True, eq=False)
    class Wrong(Box):
        def dual(self, dual_point: Point) -> float:
            return OPTIMUM * (1 - 0.18)

    certificate = certify(Wrong(COSTS), BEST, {"q": np.maximum(COSTS, 0.0)})
    assert certificate.gap == pytest.approx(-0.18)
    assert certificate.profile is None


def test_a_repair_that_leaves_the_point_infeasible_gives_no_upper_bound() -> None:
    @dataclass(frozen=True, eq=False)
    class Unrepaired(Box):
        def repair(self, point: Point) -> Point:
            return point

    certificate = certify(Unrepaired(COSTS), 2 * BEST, {"q": np.maximum(COSTS, 0.0)})
    assert certificate.primal == math.inf
    assert certificate.claimed == 2 * OPTIMUM
    assert certificate.gap == math.inf


def test_the_rounding_of_both_bounds_is_told_relative_as_the_gap_is() -> None:
    certificate = Certificate(2.0, 1.0, 0.5, 2.0, primal_allowance=0.2, dual_allowance=0.4)
    assert certificate.rounding == pytest.approx(0.3)
    assert Certificate(math.inf, 1.0, math.inf, 2.0, primal_allowance=0.2).rounding == 0.0


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.lists(st.floats(0, 3), min_size=3, max_size=3),
)
def test_every_point_and_every_witness_bracket_the_optimum(x: list[float], above: list[float]) -> None:
    problem = Box(COSTS)
    certificate = certify(problem, x, {"q": np.maximum(COSTS, 0.0) + above})
    assert certificate.lower_bound <= OPTIMUM <= certificate.primal
    assert certificate.gap >= 0


def test_an_infeasible_point_is_repaired_before_it_counts_and_its_claim_is_kept() -> None:
    certificate = certify(Box(COSTS), 2 * BEST, {"q": np.maximum(COSTS, 0.0)})
    assert certificate.claimed == 2 * OPTIMUM
    assert certificate.primal == OPTIMUM
    assert certificate.infeasibility == 1.0
    assert certificate.gap == 0.0
    assert certificate.profile is None


def test_a_point_with_nan_is_infeasible_and_bounds_nothing() -> None:
    certificate = certify(Box(COSTS), [np.nan, 0.0, 0.0])
    assert certificate.primal == certificate.infeasibility == math.inf


def test_a_function_that_makes_the_dual_point_is_as_good_as_the_dual_point() -> None:
    q = {"q": np.maximum(COSTS, 0.0)}
    assert certify(Box(COSTS), BEST, lambda: q) == certify(Box(COSTS), BEST, q)
