"""The default where features differ by up to 1e12, or squares of them overflow or vanish: optimal, or why not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.exact_models import optimum
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.semismooth_newton import proximal_point
from convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_point import SemismoothNewton
from convexstruct.models.regularized_risk.risk import primal
from convexstruct.tolerances import HIGH
from tests.reference import optimum as reference


def scaled_columns(kind: str, seed: int) -> RegularizedRisk:
    """A small problem whose columns differ in size, by a factor of 2e4 (multiclass) or 2e10."""
    rng = np.random.default_rng(seed)
    n, d = (5, 6) if kind == "multiclass" else (int(rng.integers(5, 20)), int(rng.integers(3, 8)))
    X = rng.normal(size=(n, d)) * np.geomspace(1e-2, 2e2, d)
    lam = float(10.0 ** rng.integers(-6, 0))
    if kind == "multiclass":
        return RegularizedRisk.multiclass(X, np.arange(n) % 3, lam)
    X = X * np.geomspace(1e-3, 1e3, d)
    if kind == "multilabel":
        return RegularizedRisk.multilabel(X, rng.random((n, 4)) < 0.4, lam)
    return RegularizedRisk.pieces(X, rng.normal(size=n), lam, np.arange(n) // 3)


@pytest.mark.parametrize(("kind", "seed"), [("multiclass", 0), ("multilabel", 46), ("pieces", 5), ("pieces", 42)])
def test_columns_of_very_different_sizes_are_certified_as_the_conic_solver_has_them(kind: str, seed: int) -> None:
    """The last three ended as STALLED or INACCURATE where the ridge of a matrix was relative to its largest entries,
    sums of a projection were off by the rounding of large scores, or the pieces' values were summed without end."""
    problem = scaled_columns(kind, seed)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL, found
    assert found.primal == pytest.approx(reference(primal(problem)).value, rel=10 * HIGH.gap)


@pytest.mark.parametrize(("size", "lam"), [(1e-300, 1e-2), (1e150, 1e-2), (1e300, 1e300)])
@pytest.mark.parametrize("kind", ["binary", "bias", "multiclass", "one column"])
def test_features_at_the_ends_of_what_floats_can_say_end_in_a_gap_or_in_rounding(
    size: float, lam: float, kind: str
) -> None:
    """Squares of them overflow or vanish: no warning, and where no float is a good witness the status says so, or the
    message where a point of smaller rounding was found and no bound beside it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    X[:, : 1 if kind == "one column" else 3] *= size
    if kind == "multiclass":
        problem = RegularizedRisk.multiclass(X, y, lam, n_classes=3)
    else:
        problem = RegularizedRisk.binary(X, y, lam, bias=kind == "bias")
    found = solve(problem, SemismoothNewton(), HIGH)
    stalled = found.status is Status.STALLED and size > 1
    assert stalled or found.status in (Status.OPTIMAL, Status.ROUNDING), found
    assert size <= 1 or found.status is Status.OPTIMAL or "scale the features" in found.message


@pytest.mark.parametrize("size", [1e200, 1e300])
def test_a_separable_set_of_any_size_is_optimal(size: float) -> None:
    X = size * np.random.default_rng(0).normal(size=(30, 3))
    problem = RegularizedRisk.binary(X, X[:, 0] > 0, 1e-2)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL
    assert found.primal <= HIGH.floor
    again = solve(problem, SemismoothNewton(), HIGH, start=found)
    assert again.status is Status.OPTIMAL
    assert again.iterations <= 2


@pytest.mark.parametrize("seed", range(2))
def test_a_constant_feature_beyond_what_a_witness_can_balance_is_rounding(seed: int) -> None:
    """The bound kept is that of the start, which has no rounding; the last witness's has nothing else."""
    X = np.column_stack((np.random.default_rng(seed).normal(size=(30, 2)), np.full(30, 1.7e18)))
    found = solve(RegularizedRisk.binary(X, np.arange(30) % 2, 1e-2), SemismoothNewton(), HIGH)
    assert found.status is Status.ROUNDING
    assert "feature 2 reaches 1.7e+18" in found.message
    assert "take a larger lam" in RegularizedRisk.binary(np.ones((4, 1)), [0, 1, 0, 1], 1e-12).rounding_reason({}, None)


@pytest.mark.parametrize("size", [1e-100, 1e200])
def test_features_of_extreme_sizes_are_solved_in_other_units(size: float) -> None:
    """Which these are is said by MAX_UNIT of the proximal_point: without it the first is not solved, and the second
    keeps its first point. At 1e200 and lam 1 rounding leaves no witness, and the run says so."""
    X = size * np.random.default_rng(0).normal(size=(30, 3))
    problem = RegularizedRisk.binary(X, np.arange(30) % 2, size**2 if size < 1 else 1.0)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is (Status.OPTIMAL if size < 1 else Status.ROUNDING)
    assert size < 1 or found.primal < 0.8


@pytest.mark.parametrize("bias", [False, True])
def test_a_lam_whose_square_vanishes_ends_in_rounding(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By LEAST_LAM of the proximal_point: without it a run without a bias fails, where tau is so narrow that no piece
    is free at the start: the first step is then the gradient over lam."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    problem = RegularizedRisk.binary(X, np.arange(30) % 2, 1e-200, bias=bias)
    monkeypatch.setattr(proximal_point, "FIRST", 0.3)
    assert solve(problem, SemismoothNewton(), HIGH).status is Status.ROUNDING


def scaled_both_ways(kind: str, seed: int) -> RegularizedRisk:
    """Three or four rows, whose columns and rows differ by up to 1e12 each."""
    rng = np.random.default_rng(seed)
    n = 4 if kind == "binary" else 3
    X = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-6, 6, size=3) * 10.0 ** rng.uniform(-6, 6, size=(n, 1))
    lam, y = float(10.0 ** rng.uniform(-3, 1)), rng.permutation(np.arange(n) % (2 if kind == "binary" else 3))
    if kind == "binary":
        return RegularizedRisk.binary(X, y, lam)
    if kind == "multiclass":
        return RegularizedRisk.multiclass(X, y, lam)
    return RegularizedRisk.pieces(X, rng.normal(size=n), lam, np.array([0, 0, 1]), floor=True)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "pieces"])
def test_rows_and_columns_that_differ_by_1e12_are_bracketed_and_a_rest_names_the_feature_to_scale(kind: str) -> None:
    optimal, seeds = 0, 4
    for seed in range(seeds):
        problem = scaled_both_ways(kind, seed)
        found = solve(problem, tol=HIGH)
        best = solve(problem, tol=1e-14)
        assert best.dual_point is not None
        assert found.lower_bound <= optimum(problem, best.point, best.dual_point["alpha"]) <= found.primal
        optimal += found.status is Status.OPTIMAL
        assert found.status is Status.OPTIMAL or "scale the features to sizes near 1" in found.message
    assert optimal >= seeds - 1


@pytest.mark.parametrize("seed", [4, 6])
def test_values_are_computed_anew_neither_in_every_step_nor_never(seed: int) -> None:
    """`RENEWED` of the proximal_point: at 1 the first of these ends STALLED, at 1e9 the second."""
    assert solve(scaled_both_ways("multiclass", seed)).status is Status.OPTIMAL
    assert solve(scaled_columns("pieces", seed)).status is Status.OPTIMAL


def time_stamps(kind: str, n: int, C: float, seed: int) -> RegularizedRisk:
    """Five features near 1 and the seconds since 1970."""
    rng = np.random.default_rng(seed)
    X = np.column_stack((rng.normal(size=(n, 5)), 1.7e9 + 1e5 * rng.normal(size=n)))
    if kind == "levels":
        return RegularizedRisk.ordinal(X, rng.integers(3, size=n), 1 / (C * n))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)
    return RegularizedRisk.binary(X, y, 1 / (C * n), bias=kind == "bias")


@pytest.mark.parametrize("kind", ["binary", "bias", "levels"])
def test_a_time_stamp_as_a_feature_ends_in_a_gap_or_in_rounding_that_names_it(kind: str) -> None:
    for seed, (n, C) in enumerate(((60, 1.0), (200, 100.0))):
        found = solve(time_stamps(kind, n, C, seed))
        assert found.status is Status.OPTIMAL or (found.status is Status.ROUNDING and "feature 5" in found.message)


@pytest.mark.parametrize("labels", [[0, 1, 2], [2, 1, 0], [0, 2, 1]])
def test_a_direction_whose_squares_all_vanish_has_no_curvature(labels: list[int]) -> None:
    """Features of 1e-161 and a large lam: the first length of the search divided by 0."""
    features = np.array([[-3.0], [7.0], [-7.0]]) * 1e-161
    found = solve(RegularizedRisk.ordinal(features, labels, 45.0), SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL, found


@pytest.mark.parametrize("labels", [[0, 2, 1], [2, 0, 1]])
def test_proximal_steps_in_search_of_a_gap_that_is_rounding_end(labels: list[int]) -> None:
    """LEAST_TAU of proximal_step: offsets fit the heaviest example, and its rounding is more than the others' loss."""
    problem = RegularizedRisk.ordinal([[0.8], [-0.1], [0.9]], labels, 0.2, weights=[3e-59, 6e-21, 1e-4])
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is Status.ROUNDING, found
