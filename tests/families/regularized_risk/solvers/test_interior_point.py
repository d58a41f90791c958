"""Small risks whose features and rows differ by up to 1e12 each: optimal by the default, by 150 digits as the truth."""

from __future__ import annotations

from decimal import Decimal
from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.deadline import DeadlinePassed, within
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers import interior_point, semismooth_newton
from convexstruct.families.regularized_risk.solvers.interior_point import LARGEST, interior_points, is_small
from convexstruct.tolerances import HIGH
from tests.families.regularized_risk.exact import optimum


def scaled_both_ways(kind: str, seed: int) -> RegularizedRisk:
    rng = np.random.default_rng(seed)
    n = 4 if kind == "binary" else 3
    X = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-6, 6, size=3) * 10.0 ** rng.uniform(-6, 6, size=(n, 1))
    lam, y = float(10.0 ** rng.uniform(-3, 1)), rng.permutation(np.arange(n) % (2 if kind == "binary" else 3))
    if kind == "binary":
        return RegularizedRisk.binary(X, y, lam)
    if kind == "multiclass":
        return RegularizedRisk.multiclass(X, y, lam)
    return RegularizedRisk.pieces(X, rng.normal(size=n), lam, np.array([0, 0, 1]), floor=True)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("binary", 5), ("binary", 45), ("binary", 58), ("multiclass", 5), ("multiclass", 27), ("multiclass", 37),
     ("multiclass", 58), ("pieces", 4), ("pieces", 52)],
)  # fmt: skip
def test_what_newtons_steps_leave_is_solved_to_the_optimum(kind: str, seed: int) -> None:
    """Proximal point steps alone end at relative gaps of 1e-6 to 1 on each of these."""
    problem = scaled_both_ways(kind, seed)
    found = solve(problem, tol=HIGH)
    assert found.status is Status.OPTIMAL, found
    assert Decimal(found.lower_bound) <= optimum(problem) <= Decimal(found.primal)


def test_newtons_steps_are_given_up_for_it_once_they_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = scaled_both_ways("multiclass", 5)
    found = solve(problem, tol=HIGH)
    assert found.status is Status.OPTIMAL
    monkeypatch.setattr(semismooth_newton, "IDLE_STEPS", 10**9)
    late = solve(problem, tol=HIGH, max_iterations=3 * found.iterations)
    assert late.status is not Status.OPTIMAL


def test_where_sizes_are_not_seen_to_differ_newtons_steps_end_in_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = scaled_both_ways("multiclass", 5)
    assert solve(problem, tol=HIGH).status is Status.OPTIMAL
    monkeypatch.setattr(interior_point, "SPREAD", 1e150)  # none differ as much
    assert solve(problem, tol=HIGH).status is not Status.OPTIMAL


@pytest.mark.parametrize("seed", [14, 34, 45])
def test_steps_to_the_boundary_itself_stop_short_of_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some slack or multiplier is then 0, and no later step can raise it."""
    problem = scaled_both_ways("binary", seed)
    assert solve(problem, tol=HIGH).status is Status.OPTIMAL
    monkeypatch.setattr(interior_point, "STEP_SHARE", 1.0)
    assert solve(problem, tol=HIGH, max_iterations=200).status is not Status.OPTIMAL


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["binary", "multiclass", "pieces"])
def test_its_steps_lead_to_the_optimum_of_any_tiny_risk(kind: str, seed: int) -> None:
    problem = scaled_both_ways(kind, seed)
    exact = float(optimum(problem))
    best = min(problem.value(w.reshape(problem.shape)) for w, _, _ in islice(interior_points(problem), 60))
    assert best == pytest.approx(exact, rel=1e-6)


X = np.random.default_rng(0).normal(size=(20, 4))
Y: NDArray[np.int64] = np.random.default_rng(1).integers(3, size=20)


@pytest.mark.parametrize(
    "problem",
    [
        RegularizedRisk.binary(X, Y > 0, 0.1, bias=True),
        RegularizedRisk.multiclass(X, Y, 0.1, weights=np.arange(1.0, 21.0)),
        RegularizedRisk.multilabel(X, np.eye(3, dtype=int)[Y], 0.1),
        RegularizedRisk.ordinal(X, Y, 0.1),
        RegularizedRisk.pieces(X, X[:, 0], 0.1, np.arange(20) // 3),
    ],
    ids=["bias", "weights", "multilabel", "ordinal", "no zero piece"],
)
def test_each_kind_of_risk_is_bracketed(problem: RegularizedRisk) -> None:
    """Free offsets, weights, several groups an example, and groups without the zero piece."""
    primal, lower = np.inf, -np.inf
    for w, b, alpha in islice(interior_points(problem), 60):
        point = problem.as_point({"w": w, "b": b} if problem.n_biases else w)
        primal, lower = min(primal, problem.primal(point).upper), max(lower, problem.dual({"alpha": alpha}).lower)
    known = solve(problem, tol=HIGH)
    assert lower <= known.primal
    assert known.lower_bound <= primal
    assert primal - lower <= 1e-9 * abs(primal)


def test_it_is_for_small_problems_and_keeps_the_time_limit() -> None:
    rng = np.random.default_rng(0)
    problem = RegularizedRisk.binary(rng.normal(size=(300, 90)), rng.integers(2, size=300), 0.1)
    assert is_small(problem)
    assert not is_small(RegularizedRisk.binary(rng.normal(size=(300, 500)), np.arange(300) % 2, 0.1))
    n = (LARGEST - 100) // 3  # a row each for the loss, its bound 0, and the piece
    fits = [RegularizedRisk.binary(np.ones((n, LARGEST - 3 * n + more)), np.arange(n) % 2, 0.1) for more in (0, 1)]
    assert [is_small(each) for each in fits] == [True, False]
    with within(0.0), pytest.raises(DeadlinePassed):
        next(interior_points(problem))


def test_ordinary_data_stay_with_newton_however_many_products_they_take() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(200, 350))
    y = x @ rng.normal(size=350) + rng.normal(size=200) * np.sqrt(350) / 2 > 0
    solution = solve(RegularizedRisk.binary(x, y, 1e-7))
    assert solution.status is Status.OPTIMAL
    assert "interior point" not in solution.message
    assert solution.trace.oracle_calls[-1] > 100
