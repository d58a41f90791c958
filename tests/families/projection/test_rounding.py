"""Allowances of projections against rational arithmetic, and the passes that they take."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct.families.projection import rounding, tables_rounding
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.rounding import Data
from convexstruct.families.projection.tables import MarginalProjection
from tests.families.projection.instances import box


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
    bound = rounding.lost_at_most(problem.n, rho, *problem._squares, problem.weight_ends)
    assert 0 <= lost_by_rounding(problem, rho) <= Fraction(bound)


@pytest.mark.parametrize(("m", "s", "d", "rho"), [(1e-170, 1.0, 1e150, 1e126), (0.0, 1e-170, 1e-100, 0.3e-30)])
def test_squares_that_underflow_before_one_d_multiplies_them_are_allowed_for(
    m: float, s: float, d: float, rho: float
) -> None:
    problem = BoxProjection(m * np.linspace(1.0, 2.0, 9), -np.inf, np.inf, s, 0.0, d)
    assert 0.0 in problem._squares
    bound = rounding.lost_at_most(problem.n, rho, *problem._squares, problem.weight_ends)
    assert 0 < lost_by_rounding(problem, rho) <= Fraction(bound)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["its own", "one block's", "none"]))
def test_both_bounds_from_one_pass_are_those_of_two(seed: int, same: str) -> None:
    """Where a is a(rho) in a block, the block's sums serve P and D; elsewhere each has its own."""
    problem = box(seed)
    rng = np.random.default_rng(seed)
    dual_point = {"rho": np.array(rng.normal())}
    a = problem.at(float(dual_point["rho"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounding.Data.blocks, "__defaults__", (2,))
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


def test_an_ordinary_box_is_bounded_in_one_pass_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    problem = BoxProjection.simplex(rng.normal(size=100_000))
    solution = cs.solve(problem)
    monkeypatch.setattr(rounding, "_lost", lambda *_: pytest.fail("each entry was looked at"))
    monkeypatch.setattr(BoxProjection, "repair", lambda *_: pytest.fail("a sum that is off by rounding was repaired"))
    certificate = cs.certify(problem, solution.point, solution.dual_point)
    assert certificate.infeasibility == 0.0
    assert certificate.rounding <= 1e-12


def test_a_sum_that_is_off_by_more_than_its_rounding_is_a_residual() -> None:
    problem = BoxProjection.simplex(np.array([1.0, 2.0, 3.0]))
    assert problem.residuals({"a": np.array([0.0, 1e-12, 1.0])})["<s, a> off z"] == pytest.approx(1e-12, rel=1e-3)
    assert problem.residuals({"a": np.array([0.0, 1e-15, 1.0])})["<s, a> off z"] == 0.0


def test_a_sum_of_large_terms_is_off_by_rounding_though_z_is_0() -> None:
    problem = BoxProjection(np.zeros(2), -np.inf, np.inf, np.array([1.0, -1.0]), 0.0)
    assert problem.residuals({"a": np.array([1e8, np.nextafter(1e8, 2e8)])})["<s, a> off z"] == 0.0


def test_a_sum_whose_rounding_is_large_beside_z_is_no_feasible_one() -> None:
    problem = BoxProjection(np.zeros(3), -np.inf, np.inf, 1.0, 1.0)
    assert problem.residuals({"a": np.array([1e16, -1e16, 0.0])})["<s, a> off z"] == 1.0


# -- what the bounds of tables cost ------------------------------------------------------------------------------------


def sequences(seed: int = 0) -> MarginalProjection:
    rng = np.random.default_rng(seed)
    return MarginalProjection.chains([8] * 5, rng.normal(size=(35, 6, 6)), rng.normal(size=(40, 6)))


def test_ordinary_tables_are_bounded_without_a_look_at_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sequences()
    solution = cs.solve(problem)
    monkeypatch.setattr(tables_rounding, "_lost", lambda *_: pytest.fail("each entry was looked at"))
    monkeypatch.setattr(MarginalProjection, "repair", lambda *_: pytest.fail("sums that are off by rounding, repaired"))
    certificate = cs.certify(problem, solution.point, solution.dual_point)
    assert certificate.infeasibility == 0.0
    assert max(certificate.primal_allowance, certificate.dual_allowance) <= 1e-12 * certificate.primal


def test_what_the_lagrangian_of_tables_loses_is_at_most_what_a_look_at_each_entry_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = sequences()
    rng = np.random.default_rng(1)
    for size in (0.0, 1.0, 1e4, 1e9):
        xi = {"xi": size * rng.normal(size=problem.structure.n_multipliers)}
        found = problem.dual(xi)
        with monkeypatch.context() as patched:
            patched.setattr(tables_rounding, "GREATEST", 0.0)  # no d is ordinary: each entry is looked at
            by_entry = problem.dual(xi)
        assert float(found) == float(by_entry)
        assert abs(found.allowance - by_entry.allowance) <= 0.1 * by_entry.allowance


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
