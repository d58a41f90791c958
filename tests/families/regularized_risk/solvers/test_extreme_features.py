"""The fast path where squares of the features overflow or vanish, or where no witness in floats can balance them."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers import semismooth_newton
from convexstruct.families.regularized_risk.solvers.semismooth_newton import SemismoothNewton
from convexstruct.tolerances import HIGH


@pytest.mark.parametrize("unit", [1e-30, 1e8, 1e30])
@pytest.mark.parametrize("bias", [False, True])
def test_features_of_any_unit_beside_a_lam_that_knows_nothing_of_it(unit: float, bias: bool) -> None:
    """The first step may then be 1e-60 or 1e60 of Newton's, for as long as no group moves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 10))
    problem = RegularizedRisk.binary(X * unit, np.where(X[:, 0] + X[:, 1] > 0, 1, -1), 1e-8, bias=bias)
    assert solve(problem, SemismoothNewton(), HIGH).status is Status.OPTIMAL


@pytest.mark.parametrize("size", [1e-300, 1e150, 1e300])
@pytest.mark.parametrize("lam", [1e-2, 1e300])
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


@pytest.mark.parametrize("seed", range(6))
def test_a_constant_feature_beyond_what_a_witness_can_balance_is_rounding(seed: int) -> None:
    """The bound kept is that of the start, which has no rounding; the last witness's has nothing else."""
    X = np.column_stack((np.random.default_rng(seed).normal(size=(30, 2)), np.full(30, 1.7e18)))
    found = solve(RegularizedRisk.binary(X, np.arange(30) % 2, 1e-2), SemismoothNewton(), HIGH)
    assert found.status is Status.ROUNDING
    assert "feature 2 reaches 1.7e+18" in found.message


@pytest.mark.parametrize("size", [1e-100, 1e200])
def test_without_other_units_features_of_extreme_sizes_are_not_solved(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MAX_UNIT says which these are. At 1e200 and lam 1 rounding leaves no witness, and the run says so; without other
    units it finds no point but the first either."""
    X = size * np.random.default_rng(0).normal(size=(30, 3))
    problem = RegularizedRisk.binary(X, np.arange(30) % 2, size**2 if size < 1 else 1.0)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is (Status.OPTIMAL if size < 1 else Status.ROUNDING)
    assert size < 1 or found.primal < 0.8
    monkeypatch.setattr(semismooth_newton, "MAX_UNIT", np.inf)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is (Status.INACCURATE if size < 1 else Status.ROUNDING)
    assert size < 1 or found.primal == pytest.approx(problem.trivial_value)


@pytest.mark.parametrize("bias", [False, True])
def test_a_lam_whose_square_vanishes_ends_in_rounding_and_fails_if_it_is_solved_with(
    bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails without a bias, where tau is so narrow that no piece is free at the start: the first step is then the
    gradient over lam."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    problem = RegularizedRisk.binary(X, np.arange(30) % 2, 1e-200, bias=bias)
    narrow = SemismoothNewton(first=0.3)
    assert solve(problem, narrow, HIGH).status is Status.ROUNDING
    monkeypatch.setattr(semismooth_newton, "LEAST_LAM", 0.0)
    assert bias or solve(problem, narrow, HIGH).status in (Status.FAILED, Status.STALLED)
