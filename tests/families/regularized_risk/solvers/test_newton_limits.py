"""The limits of semismooth Newton: what runs without end, or takes too much memory, where one is lifted."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers import (
    grouped_newton,
    risk_newton,
    semismooth_newton,
    smoothed_risk,
)
from convexstruct.families.regularized_risk.solvers.semismooth_newton import SemismoothNewton, search
from convexstruct.families.regularized_risk.solvers.smoothed_risk import SmoothedRisk
from convexstruct.tolerances import HIGH
from tests.families.regularized_risk.solvers.test_semismooth_newton import random_problem
from tests.models.regularized_risk.risks import INSTANCES


@pytest.mark.parametrize("factor", [1, 10])
def test_a_search_for_a_slope_that_jumps_over_its_zero_takes_as_many_trials_as_it_may(
    factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By rounding: no t has a slope near 0, and without SEARCH_TRIALS the search has no end."""
    monkeypatch.setattr(semismooth_newton, "SEARCH_TRIALS", factor * semismooth_newton.SEARCH_TRIALS)
    tried: list[float] = []

    def slope(t: float) -> float:
        tried.append(t)
        return -1.0 if t < 0.3 else 1.0

    assert search(slope, -1.0) == pytest.approx(0.3, rel=1e-6)
    assert len(tried) == semismooth_newton.SEARCH_TRIALS


@pytest.mark.parametrize("factor", [1, 10])
def test_offsets_of_scores_that_no_float_balances_take_as_many_steps_as_they_may(
    factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between neighbouring floats near 1e20 a piece goes from one end of its range to the other: no shift is exact, and
    without SCALAR_STEPS the bisection has no end."""
    monkeypatch.setattr(smoothed_risk, "SCALAR_STEPS", factor * smoothed_risk.SCALAR_STEPS)
    y, weights = np.array([1, 1, -1]), np.array([1, 2, 1])
    risk = SmoothedRisk.whole(RegularizedRisk.binary(np.zeros((3, 2)), y, 0.1, bias=True, weights=weights))
    slopes, balance = [0], SmoothedRisk.balance

    def counted(self: SmoothedRisk, alpha: Vector) -> Vector:
        slopes[0] += 1
        return balance(self, alpha)

    monkeypatch.setattr(SmoothedRisk, "balance", counted)
    assert risk.best_lift(np.array([1e20, 3e20, 2e20]), 1.0) == pytest.approx(3e20)
    assert slopes[0] == smoothed_risk.SCALAR_STEPS


def test_a_part_whose_gap_cannot_fall_is_left_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the gap of the groups not held is rounding: without HELD_STEPS the steps on them have no end."""
    problem = random_problem("binary", 300, 4, 1e-3, 1.0, 43)
    monkeypatch.setattr(semismooth_newton, "HELD_FALL", -1.0)
    assert solve(problem, SemismoothNewton(), HIGH).status is Status.OPTIMAL
    monkeypatch.setattr(semismooth_newton, "HELD_STEPS", 10**9)
    step, taken = semismooth_newton._newton_step, [0]

    def counted(*arguments: Any) -> tuple[Vector, Vector, Vector]:
        taken[0] += 1
        if taken[0] > 1000:
            raise RecursionError("still on the same part")
        return step(*arguments)

    monkeypatch.setattr(semismooth_newton, "_newton_step", counted)
    with pytest.raises(RecursionError, match="still on the same part"):
        list(islice(SemismoothNewton().iterate(problem), 200))


def test_where_bounds_no_longer_improve_the_run_ends_and_not_without_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, most = random_problem("binary", 60, 5, 1e-3, 1.0, 4), 3 * semismooth_newton.IDLE_ROUNDS
    assert any(found.done for found in islice(SemismoothNewton().iterate(problem), most))
    monkeypatch.setattr(semismooth_newton, "IDLE_ROUNDS", 10**9)
    assert not any(found.done for found in islice(SemismoothNewton().iterate(problem), most))


def test_the_pieces_values_are_computed_anew_where_the_rounding_of_their_sums_is_felt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A separable set whose losses cancel to an optimum far below one of them: some hundred steps are summed."""
    rng = np.random.default_rng([98, 2])
    X = rng.normal(size=(500, 100))
    problem = RegularizedRisk.binary(X, np.where(X @ rng.normal(size=100) > 0, 1, -1), 1 / (1e8 * 500))
    assert solve(problem, SemismoothNewton(), HIGH).status is Status.OPTIMAL
    monkeypatch.setattr(semismooth_newton, "DRIFT", np.inf)
    assert solve(problem, SemismoothNewton(), HIGH).status is Status.ROUNDING


def test_nearly_separable_classes_take_a_wider_tau_and_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes that few directions tell apart, with features of unequal lengths."""
    rng, y = np.random.default_rng(3), np.arange(1000) % 8
    X = (rng.normal(size=(8, 40))[y] + 0.5 * rng.normal(size=(1000, 40))) * 10.0 ** rng.uniform(-1.5, 1.5, size=40)
    problem = RegularizedRisk.multiclass(X, y, 1 / 1000)
    wider = solve(problem, SemismoothNewton(), HIGH)
    assert wider.status is Status.OPTIMAL
    monkeypatch.setattr(semismooth_newton, "WIDENINGS", 0)
    same = solve(problem, SemismoothNewton(), HIGH)
    narrow = solve(problem, SemismoothNewton(first=0.3), HIGH)
    assert 1.2 * wider.iterations < same.iterations
    assert 1.2 * same.iterations < narrow.iterations


def test_an_offset_without_free_pieces_costs_the_values_no_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its step by the matrix is as long as 1 / RIDGE and is undone by `_lifted`; the values kept 8 digits of 16."""
    problem, step, errors = INSTANCES["ordinal"](), semismooth_newton._newton_step, []

    def checked(risk: SmoothedRisk, *arguments: Any) -> tuple[Vector, Vector, Vector]:
        w, b, v = step(risk, *arguments)
        errors.append(float(np.abs(v - risk.forward(w) - risk.offset - risk.lift(b)).max()))
        return w, b, v

    monkeypatch.setattr(semismooth_newton, "_newton_step", checked)
    assert solve(problem, SemismoothNewton(), 1e-11).status is Status.OPTIMAL
    assert max(errors) < 1e-14


def test_a_matrix_of_more_rows_than_the_largest_is_not_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    n, d = 600, 800
    X = np.random.default_rng(0).normal(size=(n, d))
    risk = SmoothedRisk.whole(RegularizedRisk.binary(X, np.arange(n) % 2, 1e-3))
    now, _ = risk.at(np.zeros(d), np.full(n, 0.5))  # every piece is free
    assert risk.coarse
    peaks = []
    for largest in (risk_newton.LARGEST_MATRIX, d - 1):
        monkeypatch.setattr(risk_newton, "LARGEST_MATRIX", largest)
        tracemalloc.start()
        risk_newton.direction(risk, now, 1e-3, risk_newton.Effort(1e9))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] > 8 * d * d > 10 * peaks[1]


@pytest.mark.parametrize("offset", [0.0, 1e-310])
def test_losses_of_no_size_have_a_width_of_smoothing_above_zero(offset: float) -> None:
    """The first point is optimal, and the steps from there divide by tau."""
    X, groups = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) // 3
    problem = RegularizedRisk.pieces(X, np.full(30, offset), 0.1, groups)
    assert all(np.isfinite(found.primal) for found in islice(SemismoothNewton().iterate(problem), 4))


def test_an_offset_of_which_no_piece_moves_has_a_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a matrix and by conjugate gradients; without RIDGE the one is singular, and the other divides by 0."""
    rng = np.random.default_rng(0)
    risk = SmoothedRisk.whole(RegularizedRisk.binary(rng.normal(size=(30, 4)), np.arange(30) % 2, 0.1, bias=True))
    now, _ = risk.at(np.zeros(4), np.full(30, 0.5))
    held = replace(now, free=np.zeros(30, dtype=bool))
    for expected in (1e9, 0.0):
        s_w, s_b = risk_newton.direction(risk, held, 1e-3, risk_newton.Effort(expected))
        np.testing.assert_allclose(s_w, -held.slope_w / risk.lam)
        assert np.isfinite(s_b).all()
    monkeypatch.setattr(risk_newton, "RIDGE", 0.0)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        risk_newton.direction(risk, held, 1e-3, risk_newton.Effort(1e9))
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.isnan(risk_newton.direction(risk, held, 1e-3, risk_newton.Effort(0.0))[1]).all()


def test_blocks_of_dependent_features_precondition_by_a_ridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """lam is lost in the rounding of the blocks: without BLOCK_RIDGE none is factored, and the identity stands in."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20)) @ (rng.normal(size=(20, 40)) * 10.0 ** rng.uniform(-1.5, 1.5, size=(20, 1)))
    problem = RegularizedRisk.multiclass(X, rng.permutation(np.arange(200) % 5), 1e-20)
    risk = SmoothedRisk.whole(problem)
    now, _ = risk.at(np.zeros(risk.dimension), np.full(problem.n_pieces, 0.2))  # every piece is free
    monkeypatch.setattr(risk_newton, "_matrix_work", lambda *_, **__: np.inf)
    steps = []
    for ridge in (grouped_newton.BLOCK_RIDGE, 0.0):
        monkeypatch.setattr(grouped_newton, "BLOCK_RIDGE", ridge)
        effort = risk_newton.Effort()
        risk_newton.direction(risk, now, 1e-3, effort)
        steps.append(effort.expected)
    assert steps[1] >= 4 * steps[0]
