"""Allowances of projections and the passes that they take; `benchmarks/exact.py` holds bounds against exact numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct.arrays import Vector
from convexstruct.families.projection import rounding, tables_rounding
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.oracles.box.projection import Box
from tests.families.projection.instances import box


@pytest.mark.parametrize(("d", "m"), [(np.array([1e-152, 1.0]), np.ones(2)), (1e150, np.full(2, 1e-170))])
def test_weights_whose_squares_underflow_are_looked_at_entry_by_entry(d: Any, m: Vector) -> None:
    problem = BoxProjection(m, 0.0, 2.0, 1.0, 1.0, d)
    assert rounding.lost(0.5, *problem._squares, problem.weight_ends) == np.inf
    assert cs.solve(problem).status is cs.Status.OPTIMAL


# -- what the bounds of boxes cost -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(-12, -1))
def test_a_point_beside_the_plane_is_charged_for_the_way_to_it(seed: int, size: float) -> None:
    """Inside its bounds it may have a value below the optimum."""
    problem = box(seed)
    found = cs.solve(problem)
    for sign in (-1.0, 1.0):
        beside = np.clip(found.point["a"] + sign * 10.0**size * problem.s, problem.lower, problem.upper)
        with np.errstate(all="ignore"):  # as where the problem computes it: s may be 0
            looked = rounding.looked_at(problem.box, beside, math.inf)
            bound = rounding.upper_bound(problem.box, problem.z, beside, looked)
        assert bound.upper >= found.lower_bound


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["its own", "one block's", "none"]))
def test_both_bounds_from_one_pass_are_those_of_two(seed: int, same: str) -> None:
    """Where a is a(rho) in a block, the block's sums serve P and D; elsewhere each has its own."""
    problem = box(seed)
    rng = np.random.default_rng(seed)
    dual_point = {"rho": np.array(rng.normal())}
    a = problem.at(float(dual_point["rho"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Box.blocks, "__defaults__", (2,))
        if same != "its own":
            first = 2 if same == "one block's" else 0
            a[first:] = problem.repair({"a": a + rng.normal(size=problem.n)})["a"][first:]
        residuals, primal, dual = problem.examined({"a": a}, dual_point)
        alone, alone_dual = problem.primal({"a": a}), problem.dual(dual_point)
        assert residuals == problem.residuals({"a": a})
    assert (primal, primal.allowance) == (alone, alone.allowance)
    assert (dual, dual.allowance) == (alone_dual, alone_dual.allowance)
    assert problem.examined({"a": a}, None)[2] == -np.inf


@pytest.mark.parametrize("entry", [0, 5])
@pytest.mark.parametrize("by", [-3.0, 3.0])
def test_a_point_outside_its_bounds_is_seen_beside_a_dual_point(entry: int, by: float) -> None:
    problem = BoxProjection.capped_simplex(np.linspace(-1.0, 1.0, 6), z=2.0)
    rho = cs.solve(problem).dual_point
    assert rho is not None
    a = problem.at(float(rho["rho"]))
    a[entry] += by
    residuals, primal, _ = problem.examined({"a": a}, rho)
    assert residuals["a below its lower bound"] == max(0.0, -a[entry])
    assert residuals["a above its upper bound"] == max(0.0, a[entry] - 1.0)
    assert primal.allowance == np.inf


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_z_just_out_of_reach_is_read_as_the_nearest_value(side: float) -> None:
    """At the optimum of that value <s, a> is beyond z by what is accepted, and P counts what it misses as nothing."""
    problem = BoxProjection(np.zeros(3), -0.1, 0.1, 1.0, side * (0.3 + 2e-13))
    optimum = 3 * Fraction(0.1) ** 2 / 2
    assert problem.primal({"a": np.full(3, side * 0.1)}).upper >= optimum
    for rho in (-1e3 * side, -1e6 * side):
        found = problem.dual({"rho": np.array(rho)})
        assert Fraction(found.lower) <= optimum < Fraction(float(found))


@pytest.mark.parametrize(
    ("s", "z", "a", "off"),
    [
        (1.0, 1.0, [0.0, 1e-12, 1.0], 1e-12),
        (1.0, 1.0, [0.0, 1e-15, 1.0], 0.0),
        ([1.0, -1.0, 0.0], 0.0, [1e8, np.nextafter(1e8, 2e8), 0.0], 0.0),  # the rounding of large terms, though z is 0
        (1.0, 1.0, [1e16, -1e16, 0.0], 1.0),  # what is large beside z is no rounding
    ],
)
def test_a_sum_that_is_off_by_more_than_its_rounding_is_a_residual(
    s: Any, z: float, a: list[float], off: float
) -> None:
    problem = BoxProjection(np.zeros(3), -np.inf, np.inf, s, z)
    assert problem.residuals({"a": np.array(a)})["<s, a> off z"] == pytest.approx(off, rel=1e-3)


# -- what the bounds of tables cost ------------------------------------------------------------------------------------


def sequences(seed: int = 0) -> MarginalProjection:
    rng = np.random.default_rng(seed)
    return MarginalProjection.chains([8] * 5, rng.normal(size=(35, 6, 6)), rng.normal(size=(40, 6)))


def test_ordinary_tables_are_certified_as_they_are() -> None:
    problem = sequences()
    solution = cs.solve(problem)
    certificate = cs.certify(problem, solution.point, solution.dual_point)
    assert certificate.infeasibility == 0.0
    assert max(certificate.primal_allowance, certificate.dual_allowance) <= 1e-12 * certificate.primal


def test_sums_of_multipliers_that_cancel_are_wrong_by_no_more_than_they_say() -> None:
    """Four agreements meet in one clique of a star; the sums are linear, one multiplier after the other exact."""
    problem = MarginalProjection.graph(
        [(0,), (0, 1), (0, 2), (0, 3), (0, 4)], [np.zeros(2), *[np.zeros((2, 2))] * 4], scale=np.ones(1)
    )
    structure, rng, missed = problem.structure, np.random.default_rng(0), 0
    for size in (1.0, 1e16):
        xi = rng.normal(size=structure.n_multipliers) * np.where(rng.random(structure.n_multipliers) < 0.5, 1.0, size)
        exact = [[np.zeros(each.shape, dtype=object) for each in group] for group in structure.uses]
        for k, x in enumerate(xi):
            of_one = structure.spread(structure.split_multipliers(np.eye(len(xi))[k]))
            for sums, parts in zip(exact, of_one, strict=True):
                for total, part in zip(sums, parts, strict=True):
                    total += part.astype(int) * Fraction(x)
        for sums, found in zip(exact, tables_rounding._shifts(structure, structure.split_multipliers(xi)), strict=True):
            for total, each in zip(sums, found, strict=True):
                for truth, value, error in zip(total.ravel(), each.value.ravel(), each.errors.ravel(), strict=True):
                    missed += truth != Fraction(value)
                    assert abs(truth - Fraction(value)) <= Fraction(error)
    assert missed > 0


def test_tables_that_disagree_by_more_than_their_rounding_are_no_feasible_ones() -> None:
    problem = sequences()
    a = problem.trivial()[0]["a"].copy()
    a[0] += 1e-11
    a[1] -= 1e-11
    assert problem.residuals({"a": a})["marginals that disagree"] == pytest.approx(1e-11, rel=1e-3)
