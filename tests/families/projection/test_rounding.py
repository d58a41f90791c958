"""Allowances of projections against rational arithmetic, and the passes that they take."""

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
from tests.families.projection.instances import box, tree


@pytest.mark.parametrize(("d", "m"), [(np.array([1e-152, 1.0]), np.ones(2)), (1e150, np.full(2, 1e-170))])
def test_weights_whose_squares_underflow_are_looked_at_entry_by_entry(d: Any, m: Vector) -> None:
    problem = BoxProjection(m, 0.0, 2.0, 1.0, 1.0, d)
    assert rounding.lost(0.5, *problem._squares, problem.weight_ends) == np.inf
    assert cs.solve(problem).status is cs.Status.OPTIMAL


# -- what the bounds of boxes cost -------------------------------------------------------------------------------------


def lost_by_rounding(problem: BoxProjection, rho: float) -> Fraction:
    """How much the Lagrangian at the computed a(rho) is above its least value, in rational arithmetic."""
    lost, data = Fraction(0), (problem.m, problem.lower, problem.upper, problem.s, problem.d, problem.at(rho))
    for m, low, high, s, d, found in zip(*(np.broadcast_to(x, problem.n) for x in data)):
        m, weight, shift = Fraction(m), Fraction(d) ** 2, Fraction(rho) * Fraction(s)
        best = m - shift / weight
        best = max(best, Fraction(low)) if np.isfinite(low) else best
        best = min(best, Fraction(high)) if np.isfinite(high) else best
        values = [weight / 2 * (a - m) ** 2 + shift * a for a in (Fraction(found), best)]
        lost += values[0] - values[1]
    return lost


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(-12, 12))
def test_what_the_lagrangian_loses_to_rounding_is_bounded_without_looking_at_the_entries(
    seed: int, size: float
) -> None:
    problem = box(seed)
    rho = float(np.random.default_rng(seed).normal() * 10.0**size)
    bound = rounding.lost(rho, *problem._squares, problem.weight_ends)
    assert np.isfinite(bound) == np.any(problem.s)  # a sum that is 0 may have underflowed
    if np.isfinite(bound):
        assert 0 <= lost_by_rounding(problem, rho) <= Fraction(bound)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(-12, 12))
def test_an_a_that_carries_its_errors_holds_the_exact_one(seed: int, size: float) -> None:
    problem = box(seed)
    rho = float(np.random.default_rng(seed).normal() * 10.0**size)
    found = rounding.carried(problem.box, rho)
    data = (found.value, found.errors, problem.m, problem.lower, problem.upper, problem.s, problem.d)
    for value, error, m, low, high, s, d in zip(*(np.broadcast_to(x, problem.n) for x in data)):
        best = Fraction(m) - Fraction(rho) * Fraction(s) / Fraction(d) ** 2
        best = max(best, Fraction(low)) if np.isfinite(low) else best
        best = min(best, Fraction(high)) if np.isfinite(high) else best
        assert abs(Fraction(value) - best) <= Fraction(error) * (1 + Fraction(1, 10**9))
        if value in (low, high) and abs(rho) > 1e3 and s:
            assert error == 0.0


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


def least_of_tables(problem: MarginalProjection, xi: Vector) -> Fraction:
    """D(xi), maximised over the multipliers of the sums, in rational arithmetic."""
    structure, least = problem.structure, Fraction(0)
    sigma = [np.zeros(shape, dtype=object) for shape in structure.shapes]
    for each, values in zip(structure.agreements, structure.split_multipliers(xi)):
        for side, sign in ((each.left, 1), (each.right, -1)):
            for row, value in zip(side.rows, values):
                exact = np.vectorize(Fraction, otypes=[object])(value)[None] * sign
                sigma[side.group][row : row + 1] += structure.broad((side.group, side.axes), exact)
    for table, push, weights, component in zip(problem.groups, sigma, problem.d, structure.component):
        for target, extra, d, z in zip(table, push, weights, problem.scale[component]):
            m, square = [Fraction(x) for x in target.ravel().tolist()], Fraction(d) ** 2
            x = [one + Fraction(other) / square for one, other in zip(m, extra.ravel().tolist())]
            kept = sorted(x, reverse=True)
            levels = [(sum(kept[: k + 1]) - Fraction(z)) / (k + 1) for k in range(len(kept))]
            level = max(levels[k] for k in range(len(kept)) if kept[k] > levels[k])
            a = [max(Fraction(0), one - level) for one in x]
            least += square * sum((one - own) ** 2 / 2 - (shifted - own) * one for one, own, shifted in zip(a, m, x))
    return least


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [0.0, 1.0, 1e4, 1e9])
def test_the_dual_of_tables_is_what_rational_arithmetic_says(seed: int, size: float) -> None:
    problem = tree(seed)
    xi = size * np.random.default_rng(seed).normal(size=problem.structure.n_multipliers)
    found, least = problem.dual({"xi": xi}), least_of_tables(problem, xi)
    assert Fraction(found.lower) <= least
    assert abs(Fraction(float(found)) - least) <= Fraction(found.allowance)
    assert found.allowance <= 1e-13 * max(abs(float(found)), 1.0)


def test_the_distance_of_tables_is_what_rational_arithmetic_says() -> None:
    problem = MarginalProjection.graph([("a",)], [np.array([0.3, 0.9])], d=1.1)
    found, off = (
        problem.primal({"a": np.array([0.25, 0.75])}),
        (Fraction(0.3) - Fraction(1, 4), Fraction(0.9) - Fraction(3, 4)),
    )
    value = Fraction(1.1) ** 2 * sum(x * x for x in off) / 2
    assert abs(Fraction(float(found)) - value) <= Fraction(found.allowance)


@pytest.mark.parametrize("seed", range(4))
def test_the_dual_of_tables_is_the_same_in_parts_of_any_size(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One clique at a time, some, and all at once, with d and z that differ from one to the next."""
    rng = np.random.default_rng(seed)
    every = [tree(seed, 7)]
    every.append(MarginalProjection.chains(
        [5, 1, 8], rng.normal(size=(11, 3, 3)), rng.normal(size=(14, 3)), d_edge=rng.uniform(0.5, 2.0, size=11),
        d_node=rng.uniform(0.5, 2.0, size=14), scale=[1.0, 0.1, 2.0],
    ))  # fmt: skip
    for problem in every:
        xi = rng.normal(size=problem.structure.n_multipliers)
        whole = problem.dual({"xi": xi})
        for size in (1, 30):
            with monkeypatch.context() as patch:
                patch.setattr(tables_rounding, "BLOCK", size)
                parts = problem.dual({"xi": xi})
            assert parts.lower <= whole.upper
            assert whole.lower <= parts.upper
            assert parts.allowance <= 1e-13 * problem.trivial_value * (1.0 + np.abs(xi).sum())


def test_uniform_tables_are_the_trivial_point_and_feasible() -> None:
    problem = sequences()
    point, _ = problem.trivial()
    assert set(problem.residuals(point).values()) == {0.0}
    for table in problem.tables(point).values():
        assert np.ptp(table) == 0.0


def test_tables_that_disagree_by_more_than_their_rounding_are_no_feasible_ones() -> None:
    problem = sequences()
    a = problem.trivial()[0]["a"].copy()
    a[0] += 1e-11
    a[1] -= 1e-11
    assert problem.residuals({"a": a})["marginals that disagree"] == pytest.approx(1e-11, rel=1e-3)
