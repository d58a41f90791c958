"""Semismooth Newton against optima known by construction, by hand, or from a conic solver; its smoothed risk against
finite differences; its ways to a direction against each other."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.datasets.generated.margins import sparse_margins
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers import risk_newton, semismooth_newton, smoothed_risk
from convexstruct.families.regularized_risk.solvers.risk_newton import Effort, direction
from convexstruct.families.regularized_risk.solvers.semismooth_newton import SemismoothNewton, search
from convexstruct.families.regularized_risk.solvers.smoothed_risk import SmoothedRisk
from convexstruct.models.regularized_risk.risk import primal
from convexstruct.tolerances import DERIVATIVE, HIGH, ROUNDING
from tests.models.regularized_risk.risks import INSTANCES, KNOWN
from tests.reference import optimum

TINY = 1e-10


@pytest.mark.parametrize("name", KNOWN)
def test_optima_known_by_hand_are_certified(name: str) -> None:
    problem, best = KNOWN[name]()
    found = solve(problem, SemismoothNewton(), TINY)
    assert found.status is Status.OPTIMAL
    assert found.lower_bound - TINY <= best <= found.primal + TINY


@pytest.mark.parametrize("name", INSTANCES)
def test_every_loss_agrees_with_the_conic_solver(name: str) -> None:
    problem = INSTANCES[name]()
    found = solve(problem, SemismoothNewton(), TINY)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(optimum(primal(problem)).value, abs=HIGH.gap)


def random_problem(kind: str, n: int, d: int, lam: float, scale: float, seed: int) -> RegularizedRisk:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)), 1) * scale  # rounded, so that rows and ties repeat
    weights = rng.integers(1, 4, size=n) if seed % 2 else None
    codes = np.arange(n) % 3
    if kind == "sparse":
        return RegularizedRisk.binary(sp.csr_array(X), np.where(codes, 1, -1), lam, bias=True, weights=weights)
    if kind == "binary":
        return RegularizedRisk.binary(X, np.where(codes, 1, -1), lam, bias=seed % 3 == 0, weights=weights)
    if kind == "multiclass":
        return RegularizedRisk.multiclass(X, codes, lam, n_classes=4, weights=weights)
    if kind == "two classes":  # a box, though each piece takes two scores
        return RegularizedRisk.multiclass(X, codes > 0, lam, weights=weights)
    if kind == "multilabel":
        return RegularizedRisk.multilabel(sp.csr_array(X), np.eye(3)[codes] + np.eye(3)[(codes + seed) % 3] > 0, lam)
    if kind == "ordinal":
        return RegularizedRisk.ordinal(X, codes, lam, weights=weights)
    return RegularizedRisk.pieces(X, np.round(rng.normal(size=n), 1), lam, np.arange(n) // 2, floor=seed % 2 == 0)


KINDS = ("sparse", "binary", "two classes", "multiclass", "multilabel", "ordinal", "pieces")


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(3, 25),
    st.integers(1, 6),
    st.sampled_from([1e-6, 1e-3, 0.1, 10.0]),
    st.sampled_from([1e-3, 1.0, 100.0]),
    st.integers(0, 10_000),
)
@example("pieces", 12, 3, 1e-6, 100.0, 3895)  # 150 rounds: losses of 100 cancel to an optimum of 6e-4
def test_any_small_problem_is_certified(kind: str, n: int, d: int, lam: float, scale: float, seed: int) -> None:
    problem = random_problem(kind, n, d, lam, scale, seed)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL, found


def at_some_point(problem: RegularizedRisk, seed: int) -> tuple[SmoothedRisk, Vector, Vector, Vector, float]:
    """(whole, w, b, a, tau) with every kind of group: free, at a vertex, at zero."""
    rng = np.random.default_rng(seed)
    whole = SmoothedRisk.whole(problem)
    w, b = rng.normal(size=problem.dimension), rng.normal(size=problem.n_biases)
    return whole, w, b, problem.feasible(rng.random(problem.n_pieces)) / whole.share, 1.5


def smoothed(risk: SmoothedRisk, w: Vector, b: Vector, a0: Vector, tau: float) -> float:
    """F from its definition."""
    v = risk.forward(w) + risk.offset + risk.lift(b)
    a = risk.maximiser(a0 + v / tau)[0]
    value = float(risk.share @ (v * a - 0.5 * tau * (a - a0) ** 2))
    linear = float(risk.fixed @ w) + float(risk.fixed_b @ b) + risk.constant
    return 0.5 * risk.lam * float(w @ w) + value + linear


@pytest.mark.parametrize("name", INSTANCES)
def test_the_gradient_and_the_direction_are_those_of_finite_differences(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = INSTANCES[name]()
    risk, w, b, a, tau = at_some_point(problem, 1)
    if problem.n_pieces > 6:  # what is held adds linear terms
        moving = (np.arange(problem.loss.n_groups) % 3 > 0)[problem.group]
        risk, pieces = risk.restrict(moving, a, risk.adjoint(risk.share * a) + risk.fixed)
        a = a[pieces]

    def slope(x: Vector) -> Vector:
        now, _ = risk.at(x[: len(w)], a + (risk.forward(x[: len(w)]) + risk.offset + risk.lift(x[len(w) :])) / tau)
        return np.concatenate((now.slope_w, now.slope_b))

    x = np.concatenate((w, b))
    steps = 1e-6 * np.eye(len(x))
    d = len(w)
    rise = np.array([smoothed(risk, w + e[:d], b + e[d:], a, tau) for e in steps])
    fall = np.array([smoothed(risk, w - e[:d], b - e[d:], a, tau) for e in steps])
    np.testing.assert_allclose((rise - fall) / 2e-6, slope(x), atol=DERIVATIVE)
    bend = np.array([(slope(x + e) - slope(x - e)) / 2e-6 for e in steps])
    now, _ = risk.at(w, a + (risk.forward(w) + risk.offset + risk.lift(b)) / tau)
    monkeypatch.setattr(risk_newton, "SINGLE_TRACE", 0.0)
    found = np.concatenate(direction(risk, now, tau, Effort(expected=1e9)))
    np.testing.assert_allclose(bend @ found, -slope(x), atol=1e-2 * DERIVATIVE * (1 + np.abs(found).max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [3, 30])
def test_all_ways_to_a_direction_agree(kind: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(kind, 20, d, 0.05, 1.0, 6)
    risk, w, b, a, tau = at_some_point(problem, 2)
    now, _ = risk.at(w, a + (risk.forward(w) + risk.offset + risk.lift(b)) / tau)
    monkeypatch.setattr(risk_newton, "RESIDUAL_FALL", TINY)
    rough = np.concatenate(direction(risk, now, tau, Effort(1e9)))
    monkeypatch.setattr(risk_newton, "SINGLE_TRACE", 0.0)
    found = [np.concatenate(direction(risk, now, tau, Effort(1e9)))]
    np.testing.assert_allclose(rough, found[0], atol=1e-3 * (1 + np.abs(found[0]).max()))
    monkeypatch.setattr(risk_newton, "LARGEST_MATRIX", 10)  # at 30 features neither the matrix nor its dual is formed
    found += [np.concatenate(direction(risk, now, tau, Effort(expected))) for expected in (0.0, 1e9)]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6 * (1 + np.abs(found[0]).max()))


@pytest.mark.parametrize("dtype", ["dense", "sparse"])
@pytest.mark.parametrize("free", [2, 20])
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_single_precision_is_as_near_as_its_rounding_lets_it_be_in_any_unit(
    dtype: str, free: int, equal: bool, unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(20, 5)), np.where(np.arange(20) % 2, 1, -1)
    weights = None if equal else rng.uniform(0.5, 2.0, size=20)
    rows = sp.csr_array(unit * X) if dtype == "sparse" else unit * X
    risk = SmoothedRisk.whole(RegularizedRisk.binary(rows, y, 0.01 * unit**2, weights=weights))
    risk = replace(risk, factor=risk.factor * np.where(np.arange(20) == 3, 2.0 - equal, 1.0))
    some = np.sort(rng.permutation(20)[:free])
    B = (risk.factor * np.sqrt(risk.share / 0.1))[some, None] * unit * X[some]
    right = rng.normal(size=5) * unit
    exact = np.linalg.solve(0.01 * unit**2 * np.eye(5) + B.T @ B, right)
    solve_ = risk_newton._coarse(risk, some, 0.1)
    assert solve_ is not None
    np.testing.assert_allclose(solve_(right), exact, atol=1e-5 * np.abs(exact).max())
    assert risk_newton._coarse(risk, some, 1e-300) is None  # as where squares overflow
    monkeypatch.setattr(risk_newton, "SINGLE_TRACE", 1.0)
    assert risk_newton._coarse(risk, some, 0.1) is None


@pytest.mark.parametrize("expected", [0.0, 1e9])
def test_the_direction_of_no_slope_is_none(expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    risk, w, b, a, tau = at_some_point(random_problem("binary", 20, 3, 0.05, 1.0, 1), 2)
    now, _ = risk.at(w, a + (risk.forward(w) + risk.offset) / tau)
    flat = replace(now, slope_w=np.zeros_like(w), slope_b=np.zeros_like(b))
    monkeypatch.setattr(risk_newton, "SINGLE_TRACE", 0.0)
    assert not np.concatenate(direction(risk, flat, tau, Effort(expected))).any()


def test_what_is_large_has_no_copy_in_single_precision() -> None:
    y = np.where(np.arange(40) % 2, 1, -1)
    for X in (np.zeros((40, 50_001)), sp.csr_array((40, 50_001))):
        assert not SmoothedRisk.whole(RegularizedRisk.binary(X, y, 1.0)).is_copied
        assert SmoothedRisk.whole(RegularizedRisk.binary(X[:, 1:], y, 1.0)).is_copied


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_held_keeps_the_dual_value_and_the_primal_of_groups_that_are_linear(kind: str) -> None:
    problem = random_problem(kind, 24, 4, 0.05, 1.0, 3)
    whole, w, b, _, _ = at_some_point(problem, 4)
    v = whole.forward(w) + whole.offset + whole.lift(b)
    a = problem.best_alpha(v) / whole.share if not problem.n_biases else (v > 0).astype(float)
    near = whole.near(v, a, 0.5)
    assert 0 < near.sum() < len(near)
    part, pieces = whole.restrict(near, a, whole.adjoint(whole.share * a))
    mixed = a.copy()
    mixed[pieces] *= 0.5
    total = whole.adjoint(whole.share * mixed)
    again = part.adjoint(part.share * mixed[pieces]) + part.fixed
    np.testing.assert_allclose(again, total, atol=ROUNDING)
    assert part.dual(mixed[pieces], again) == pytest.approx(problem.dual_value(whole.share * mixed), rel=ROUNDING)
    assert part.primal(w, b, v[pieces]) == pytest.approx(problem.value(w, b if len(b) else None), rel=ROUNDING)
    moved = w + 1e-4 * np.random.default_rng(0).normal(size=len(w))  # within the margin they stay linear
    values = part.forward(moved) + part.offset + part.lift(b)
    assert part.primal(moved, b, values) == pytest.approx(problem.value(moved, b if len(b) else None), rel=ROUNDING)


@pytest.mark.parametrize("kind", ["sparse", "ordinal"])
def test_the_best_offsets_leave_alpha_in_balance(kind: str) -> None:
    problem = random_problem(kind, 30, 4, 0.05, 1.0, 3)
    risk, w, b, a, _ = at_some_point(problem, 5)
    for tau in (1e-6, 0.1, 10.0):
        z = a + (risk.forward(w) + risk.offset + risk.lift(b)) / tau
        shift = risk.best_lift(z, tau)
        best = np.clip(z + risk.lift(shift) / tau, 0, 1)
        assert np.abs(risk.balance(risk.share * best)).max() <= ROUNDING


@pytest.mark.parametrize("zero", [1e-4, 0.3, 1.0, 7.0, 1e5])
@pytest.mark.parametrize("beyond", [1.0, 1e-6, 1e6])
def test_a_search_ends_near_the_zero_of_a_rising_slope_and_lower_than_it_began(zero: float, beyond: float) -> None:
    def slope(t: float) -> float:
        return (t - zero) / zero * (beyond if t > zero else 1.0)

    t = search(slope, -1.0)
    assert -0.3 <= slope(t) <= 0.3
    gained = 0.5 * zero if t > zero else t - 0.5 * t * t / zero
    assert 0.5 * max(t - zero, 0.0) ** 2 / zero * beyond < gained
    assert search(slope, 0.0) == 0.0


def test_a_piece_at_its_vertex_near_the_floor_is_not_held() -> None:
    """0 is one more piece of a group: a piece that leads the others alone may still be near the kink with it."""
    whole = replace(SmoothedRisk.whole(random_problem("multiclass", 4, 2, 0.05, 1.0, 0)), floor=True)
    first = whole.group == 0
    v, a = np.where(first, -9.0, 5.0), np.zeros(len(first))
    v[np.argmax(first)], a[np.argmax(first)] = 0.5, 1.0
    assert whole.near(v, a, 1.0)[first].sum() == 1
    assert not whole.near(v, a, 0.2)[first].any()


@pytest.mark.parametrize("kind", ["multiclass", "pieces", "binary"])
def test_only_pieces_below_the_margin_and_groups_that_lead_by_it_are_held(kind: str) -> None:
    problem = random_problem(kind, 40, 4, 0.05, 1.0, 5)
    whole = SmoothedRisk.whole(problem)
    v = whole.forward(np.random.default_rng(1).normal(size=problem.dimension)) + whole.offset
    a = problem.best_alpha(v) / whole.share
    for margin in (0.1, 1.0, 3.0):
        near = whole.near(v, a, margin)
        for i, j in pairwise(problem.loss.start):
            levels = np.append(v[i:j], 0.0) if problem.loss.floor else v[i:j]
            within = v[i:j] >= levels.max() - margin
            many = np.count_nonzero(levels >= levels.max() - margin) > 1
            np.testing.assert_array_equal(near[i:j], within & many)
    inside = whole.near(v, 0.5 * a + 0.25 / np.diff(problem.loss.start)[problem.group], 0.1)
    assert inside.all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_witness_is_still_what_it_was_when_the_run_has_ended(kind: str) -> None:
    problem = random_problem(kind, 300, 4, 1e-3, 1.0, 6)
    kept = list(islice(SemismoothNewton().iterate(problem), 25))
    for iterate in kept:
        assert callable(iterate.dual_point)
        if np.isfinite(iterate.lower_bound):
            shown = problem.dual(iterate.dual_point())
            assert shown == pytest.approx(iterate.lower_bound, rel=ROUNDING, abs=ROUNDING)
        assert problem.primal(iterate.point) == pytest.approx(iterate.primal, rel=ROUNDING)


def test_a_start_is_taken_up_where_it_ended() -> None:
    problem = random_problem("binary", 200, 5, 1e-3, 1.0, 3)
    rough = solve(problem, SemismoothNewton(), 1e-2)
    fine = solve(problem, SemismoothNewton(), TINY, start=rough)
    assert fine.status is Status.OPTIMAL
    assert fine.trace.primal[0] == pytest.approx(rough.primal, rel=ROUNDING)
    assert fine.trace.lower_bound[0] == pytest.approx(rough.lower_bound, rel=ROUNDING)
    again = solve(problem, SemismoothNewton(), HIGH, start=fine)
    assert again.iterations <= 2


@pytest.mark.parametrize("bias", [False, True])
def test_a_start_without_multipliers_gives_its_w(bias: bool) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 4))
    problem = RegularizedRisk.binary(X, np.where(X[:, 0] > 0.3, 1, -1), 1e-3, bias=bias)
    fine = solve(problem, SemismoothNewton(), HIGH)
    first = next(SemismoothNewton().iterate(problem, replace(fine, dual_point=None)))
    assert first.primal == pytest.approx(fine.primal, rel=ROUNDING)
    assert first.lower_bound < 0.9 * fine.lower_bound


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("bias", [False, True])
def test_more_features_than_examples_take_few_rounds(C: float, bias: bool) -> None:
    """All examples end on their kink: a narrow tau from the start would need hundreds of rounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1000))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=100) > 0, 1, -1)
    found = solve(RegularizedRisk.binary(X, y, 1 / (100 * C), bias=bias), SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL
    assert found.iterations <= 60


def test_examples_that_come_a_hundred_times_take_few_rounds() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 40)), 100, axis=0)
    problem = RegularizedRisk.binary(X, rng.choice([-1, 1], 2000), 1e-4, bias=True)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL
    assert found.iterations <= 60


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_sparse_features_are_never_made_dense(kind: str) -> None:
    rng = np.random.default_rng(0)
    n, d = 1000, 20_000
    X = sp.csr_array((np.ones(10 * n), rng.integers(d, size=10 * n), np.arange(0, 10 * n + 1, 10)), shape=(n, d))
    codes = np.arange(n) % 2
    problem = (
        RegularizedRisk.binary(X, codes, 1e-3)
        if kind == "binary"
        else RegularizedRisk.multiclass(X, codes, 1e-3, n_classes=3)
    )
    tracemalloc.start()
    found = solve(problem, SemismoothNewton(), HIGH, max_iterations=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.status is Status.OPTIMAL
    assert peak < 0.3 * 8 * n * d


def test_a_tau_that_falls_less_after_many_newton_steps_saves_conjugate_gradient_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over three sparse sets, a quarter or more; without a bound on EASY_STEPS tau is halved whatever the steps."""
    plain, taken = risk_newton._conjugate_gradients, [0.0]

    def counted(*arguments: Any) -> tuple[Vector, Vector]:
        found = plain(*arguments)
        taken[-1] += arguments[-1].expected
        return found

    monkeypatch.setattr(risk_newton, "_conjugate_gradients", counted)
    monkeypatch.setattr(risk_newton, "LARGEST_MATRIX", 0)  # every direction is by conjugate gradients
    sets = [sparse_margins(2000, 500, words=60, seed=seed) for seed in range(3)]
    for easy in (semismooth_newton.EASY_STEPS, math.inf):
        monkeypatch.setattr(semismooth_newton, "EASY_STEPS", easy)
        for made in sets:
            problem = RegularizedRisk.binary(made.features, made.labels, 1 / (10 * 2000))
            assert solve(problem, SemismoothNewton(), HIGH).status is Status.OPTIMAL
        taken.append(0.0)
    assert taken[0] <= 0.8 * taken[1]


def test_sparse_features_are_multiplied_by_indices_of_32_bits_where_these_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.normal(size=(9, 4)) * (rng.random((9, 4)) < 0.4))
    X = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    problem = RegularizedRisk.binary(X, np.arange(9) % 2, 0.1)
    whole = SmoothedRisk.whole(problem)
    assert whole.X.indices.dtype == np.int32
    np.testing.assert_array_equal(whole.X.toarray(), problem.X.toarray())
    monkeypatch.setattr(smoothed_risk, "SHORT_INDEX", X.nnz - 1)  # as if there were more entries than such indices
    assert SmoothedRisk.whole(problem).X is problem.X


def test_rounding_ends_the_run_and_says_so() -> None:
    problem = random_problem("binary", 60, 5, 1e-3, 1.0, 4)
    found = solve(problem, SemismoothNewton(), 1e-300, max_iterations=1000)
    assert found.status is Status.ROUNDING
    assert abs(found.gap) <= 1e-13
    assert "take a larger lam" in found.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shrink": 1.0}, "shrink is 1.0, wanted a number above 0 and below 1"),
        ({"inexact": 1.5}, "inexact is 1.5, wanted a number above 0 and below 1"),
        ({"zone": 0}, "zone is 0, wanted a positive number"),
    ],
)
def test_options_out_of_range_are_told(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SemismoothNewton(**options)


@pytest.mark.parametrize("seed", [39, *range(5)])
@pytest.mark.parametrize("unit", [1e3, 1e5])
def test_a_matrix_too_large_beside_lam_for_single_and_for_double_precision_still_leaves_a_way_down(
    seed: int, unit: float
) -> None:
    rng = np.random.default_rng(seed)
    X = unit * rng.normal(size=(30, 20))
    problem = RegularizedRisk.binary(X, np.where(X @ rng.normal(size=20) > 0, 1, -1), 1 / 3e7)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL
    assert found.iterations <= 100


@pytest.mark.parametrize("guess", [1e-40, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("zero", [1e-6, 0.3, 1.0, 1e5])
def test_the_search_finds_the_zero_from_a_guess_far_too_short_or_a_million_times_too_long(
    guess: float, zero: float
) -> None:
    t = search(lambda t: min(t / zero - 1.0, 1.0), -1.0, guess)
    assert abs(t / zero - 1.0) <= 0.1 * (1 + ROUNDING)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("C", [1e4, 1e8, 1e10])
def test_a_separable_set_is_optimal_to_its_own_size_however_small_that_is(C: float, bias: bool) -> None:
    """The optimum is lam/2 |w|^2, w of the largest margin: down to 1e-11 of J(0), and a few roundings of one loss."""
    rng = np.random.default_rng(0)
    X, direction = rng.normal(size=(200, 20)), rng.normal(size=20)
    y = np.where(X @ direction > 0, 1, -1)
    X += 0.1 * y[:, None] * direction / np.linalg.norm(direction)
    found, looser = (solve(RegularizedRisk.binary(X, y, 1 / (200 * c), bias=bias)) for c in (C, 1e3))
    assert found.status is Status.OPTIMAL
    assert 0 <= found.primal - found.lower_bound <= HIGH.gap * max(found.primal, HIGH.floor)
    assert C * found.lower_bound <= 1e3 * looser.primal
    assert 1e3 * looser.lower_bound <= C * found.primal
    assert RegularizedRisk.binary(X, y, 1 / (200 * C), bias=bias).predict(found.point) == y.tolist()
