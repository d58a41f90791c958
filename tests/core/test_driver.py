"""The driver: limits, interruption, values that are no numbers, solvers that claim too much; going on from a file."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from convexstruct.arrays import Point
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.families.generative_margin import ProximalRSD
from convexstruct.rounding import Rounded
from convexstruct.tolerances import HIGH, LOW
from tests.core.squares import Endless, Scripted, Square, Told, iterate
from tests.models.generative_margin.instances import hmm


def test_a_run_ends_when_its_bounds_meet_the_tolerance_and_the_certificate_confirms_it() -> None:
    solution = solve(Square(), Endless(), tol=LOW)
    assert solution.status is Status.OPTIMAL
    assert solution.gap <= LOW.gap
    assert solution.solver == "Endless"
    assert solution.iterations == 7  # 2 x^2 <= 1e-3 (1 + x^2) first at x = 2^-6
    assert solution.trace.iteration == list(range(1, 8))
    assert solution.trace.primal == sorted(solution.trace.primal, reverse=True)
    assert solution.trace.lower_bound == sorted(solution.trace.lower_bound)


def test_ctrl_c_keeps_the_best_certified_points_even_from_different_rounds() -> None:
    first = iterate(0.5, 0.9, message="what it says is kept until another one says more")
    others = [iterate(0.1, 1.0), iterate(0.3, 0.2), iterate(0.4, 0.8)]
    solution = solve(Square(), Scripted([first, *others, KeyboardInterrupt()]))
    assert solution.status is Status.INTERRUPTED
    assert solution.message == first.message
    assert solution.point["x"] == 0.1
    assert solution.dual_point is not None
    assert solution.dual_point["y"] == 0.2
    assert solution.primal == pytest.approx(1.01)
    assert solution.lower_bound == pytest.approx(0.96)
    assert len(solution.trace) == 4


def test_ctrl_c_before_the_first_iterate_gives_the_trivial_point_or_the_start() -> None:
    solution = solve(Square(), Scripted([KeyboardInterrupt()]))
    assert solution.status is Status.INTERRUPTED
    assert (solution.primal, solution.lower_bound) == (1.0, 0.0)
    assert "trivial point" in solution.message
    assert solution.iterations == 0
    start = solve(Square(), Scripted([iterate(0.25, 0.25, done=True)]))
    again = solve(Square(), Scripted([KeyboardInterrupt()]), start=start)
    assert again.point["x"] == 0.25
    assert "the start" in again.message


@pytest.mark.parametrize(
    ("x", "y", "reached"), [(0.05, 0.5, (1.0025, 0.99)), (0.5, 0.05, (1.01, 0.9975)), (0.5, None, (1.25, -math.inf))]
)
def test_a_run_does_not_end_worse_than_its_start(x: float, y: float | None, reached: tuple[float, float]) -> None:
    """Each bound is the better one; a run without lower bounds may minimise something else, and is left as it is."""
    start = solve(Square(), Scripted([iterate(0.1, 0.1, done=True)]))
    found = solve(Square(), Scripted([iterate(x, y, done=True)]), start=start)
    assert (found.primal, found.lower_bound) == pytest.approx(reached)
    again = certify(Square(), found.point, found.dual_point)
    assert (again.primal, again.lower_bound, again.gap) == (found.primal, found.lower_bound, found.gap)


@dataclass(frozen=True)
class Uncertified(Square):
    """Ctrl-C comes while the dual value is computed, from the given call on."""

    from_call: int = 1
    calls: list[int] = field(default_factory=list)

    def dual(self, dual_point: Point) -> float:
        self.calls.append(1)
        if len(self.calls) >= self.from_call:
            raise KeyboardInterrupt
        return float(1 - dual_point["y"] ** 2)


def test_a_second_ctrl_c_keeps_the_certificate_made_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: Iterator[int] = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 10.0 * next(rounds))  # each look at the clock is 10 s later
    script: list[Iterate | BaseException] = [iterate(0.25, 0.25), *[iterate(0.5, 0.5)] * 3, KeyboardInterrupt()]
    solution = solve(Uncertified(from_call=2), Scripted(script))
    assert solution.status is Status.INTERRUPTED
    assert (solution.primal, solution.lower_bound) == (1 + 1 / 16, 1 - 1 / 16)
    assert "interrupted again" in solution.message


def test_a_second_ctrl_c_without_an_earlier_certificate_claims_nothing() -> None:
    solution = solve(Uncertified(), Scripted([iterate(0.5, 0.5), KeyboardInterrupt()]))
    assert solution.status is Status.INTERRUPTED
    assert solution.point["x"] == 0.5
    assert (solution.primal, solution.lower_bound, solution.gap) == (math.inf, -math.inf, math.inf)
    assert "nothing is claimed" in solution.message


@pytest.mark.parametrize(
    "bad",
    [
        Iterate({"x": np.asarray(math.nan)}, None, 1.0, 0.9),
        Iterate({"x": np.asarray(0.1)}, None, math.nan, 0.9),
        Iterate({"x": np.asarray(0.1)}, None, 1.01, math.nan),
    ],
    ids=["point", "primal", "bound"],
)
def test_values_that_are_no_numbers_end_the_run_as_failed_with_the_last_finite_point(bad: Iterate) -> None:
    solution = solve(Square(), Scripted([iterate(0.5, 0.5), iterate(0.4, 0.4), bad, iterate(0.0, 0.0)]))
    assert solution.status is Status.FAILED
    assert solution.point["x"] == 0.4
    assert solution.lower_bound == pytest.approx(1 - 0.16)
    assert "iteration 3" in solution.message
    assert len(solution.trace) == 2


@pytest.mark.parametrize(
    "lie",
    [
        Iterate({"x": np.asarray(0.5)}, {"y": np.asarray(0.5)}, 1.25, 1.25),
        Iterate({"x": np.asarray(0.5)}, {"y": np.asarray(0.0)}, 1.0, 1.0),
        Iterate({"x": np.asarray(0.5)}, {"y": np.asarray(0.0)}, 1.25, 3.0),
    ],
    ids=["bound", "primal", "bound above the primal"],
)
def test_a_solver_that_claims_what_its_points_do_not_prove_is_inaccurate(lie: Iterate) -> None:
    solution = solve(Square(), Scripted([lie]))
    assert solution.status is Status.INACCURATE
    assert solution.message.startswith("claimed ")
    assert solution.primal == pytest.approx(1.25)
    assert solution.lower_bound <= 1.0  # the certificate is the problem's own


@dataclass(frozen=True)
class Coarse(Square):
    """The same, whose values carry an allowance."""

    allowance: float = 1e-3
    reason: str = ""

    def primal(self, point: Point) -> float:
        return Rounded(float(point["x"] ** 2 + 1), self.allowance)

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        return self.reason


def test_an_infeasible_point_is_not_optimal_whatever_its_repair_is_worth() -> None:
    solution = solve(Square(), Scripted([iterate(0.0, 0.0), iterate(-1e-3, 0.0)]), tol="LOW")
    assert solution.status is Status.OPTIMAL
    lie = Iterate({"x": np.asarray(-1e-3)}, {"y": np.asarray(0.0)}, 1.0, 1.0)
    solution = solve(Square(), Scripted([lie]), tol="LOW")
    assert solution.gap == 0.0
    assert solution.status is Status.INACCURATE
    assert not solution.status.solved
    assert solution.message == "the point is infeasible: x below 0 by 0.001, allowed 1e-04"


def test_rounding_larger_than_the_gap_wanted_has_a_status_and_the_problem_may_say_why() -> None:
    for problem, said in (
        (Coarse(), "wanted is 1e-06"),
        (Coarse(reason="C is 1e12: divide it"), "C is 1e12: divide it"),
    ):
        for done in (False, True):
            script: list[Iterate | BaseException] = [iterate(1e-9, 1e-9, done=done)]
            solution = solve(problem, Scripted(script))
            assert solution.status is Status.ROUNDING
            assert solution.message.startswith("rounding may amount to 1.0e-03 (relative), the gap wanted is 1e-06")
            assert said in solution.message
    assert solve(Coarse(), Scripted([iterate(1e-9, 1e-9)]), tol=1e-2).status is Status.OPTIMAL


def test_a_run_that_stopped_at_its_own_gap_goes_on_where_the_certificate_falls_short_by_rounding() -> None:
    problem = Coarse(allowance=2e-7)
    near, nearer, nearest = iterate(3e-4, 9.5e-4), iterate(3e-4, 8.8e-4), iterate(0.0, 0.0)
    for script, rounds, status in (
        ([near, nearer, nearest, nearest], 3, Status.OPTIMAL),  # 9.9e-7 of its own, then 8.6e-7: the target is 4.98e-7
        ([near, replace(nearer, done=True), nearest], 2, Status.STALLED),
        ([replace(near, done=True), nearest], 1, Status.INACCURATE),
        ([near], 1, Status.STALLED),
    ):
        shown: list[str] = []
        found = solve(problem, Scripted([*script]), progress=Told(shown))
        assert (found.iterations, found.status) == (rounds, status)
        assert found.message or found.status is Status.OPTIMAL
        assert shown == ["round"] * rounds + ["closed"]
    found = solve(replace(problem, reason="C is 1e12: divide it"), Scripted([near, nearest]), max_iterations=1)
    assert found.status is Status.INACCURATE
    assert found.message.startswith("claimed ")
    assert found.message.endswith("; C is 1e12: divide it")
    assert solve(Coarse(), Scripted([near, nearest])).status is Status.ROUNDING


def test_rounding_of_the_last_witness_is_told_where_another_one_has_the_best_bound() -> None:
    class Rough(Coarse):
        def dual(self, dual_point: Point) -> Rounded:
            y = float(dual_point["y"])
            return Rounded.of(1 - y**2, 1e-3 if y < 0.1 else 0.0)

    last = Iterate({"x": np.asarray(0.0)}, {"y": np.asarray(0.0)}, 1.0, 0.5, done=True)
    for script, status in (
        ([iterate(0.0, 0.5), last], Status.ROUNDING),
        ([iterate(0.0, 0.5, done=True)], Status.STALLED),
    ):
        assert solve(Rough(allowance=0.0), Scripted(list(script))).status is status


def test_a_certificate_that_is_upside_down_proves_nothing() -> None:
    class Wrong(Square):
        def dual(self, dual_point: Point) -> float:
            return 1.18

    solution = solve(Wrong(), Scripted([iterate(0.0, 0.0)]))
    assert solution.status is Status.INACCURATE
    assert "upside down" in solution.message
    assert solution.certificate.profile is None


def test_the_floor_of_the_profile_is_what_gaps_near_0_are_measured_against() -> None:
    class Shifted(Square):
        def primal(self, point: Point) -> float:
            return float(point["x"] ** 2)

        def dual(self, dual_point: Point) -> float:
            return float(-(dual_point["y"] ** 2))

    believed = Iterate({"x": np.asarray(1e-4)}, {"y": np.asarray(1e-4)}, 1e-8, -1e-8, done=True)
    assert solve(Shifted(), Scripted([believed])).status is Status.STALLED
    wide = replace(HIGH, floor=1.0)
    solution = solve(Shifted(), Scripted([believed]), tol=wide)
    assert solution.status is Status.OPTIMAL
    assert solution.trace.least == solution.certificate.least == 1.0


def test_limits_stop_a_run_and_are_named() -> None:
    counted = solve(Square(), Endless(factor=1.0), max_iterations=3)
    assert counted.status is Status.ITERATION_LIMIT
    assert counted.iterations == 3
    timed = solve(Square(), Endless(factor=1.0, pause=0.01), time_limit=0.05)
    assert timed.status is Status.TIME_LIMIT
    assert timed.seconds >= 0.05


def test_a_callback_sees_every_round_and_stops_the_run() -> None:
    seen: list[int] = []

    def callback(current: Iterate, trace: Trace) -> bool:
        seen.append(len(trace))
        return current.primal < 1.1

    solution = solve(Square(), Endless(), callback=callback)
    assert solution.status is Status.INTERRUPTED
    assert seen == [1, 2, 3]
    assert solution.primal == pytest.approx(1.0625)


def test_a_solver_with_nothing_left_to_try_has_stalled_and_is_closed() -> None:
    closed: list[bool] = []
    solution = solve(Square(), Scripted([iterate(0.5, 0.5, done=True, message="why"), iterate(0.0, 0.0)], closed))
    assert solution.status is Status.STALLED
    assert solution.iterations == 1
    assert solution.message == "why"


def test_an_error_of_a_solver_is_not_swallowed_and_progress_is_closed_all_the_same() -> None:
    shown: list[str] = []
    with pytest.raises(ZeroDivisionError):
        solve(Square(), Scripted([iterate(0.5, 0.5), iterate(0.4, 0.4), ZeroDivisionError()]), progress=Told(shown))
    assert shown == ["round", "round", "closed"]


def test_going_on_from_a_file_equals_going_on_from_memory(tmp_path: Path) -> None:
    problem, solver = hmm(0), ProximalRSD()
    first = solve(problem, solver, max_iterations=5)
    loaded = Solution.load(first.save(tmp_path / "half.npz"))
    assert loaded.status is Status.ITERATION_LIMIT
    assert loaded.lower_bound == first.lower_bound
    runs = [solve(problem, solver, start=start, max_iterations=8) for start in (first, loaded)]
    assert runs[0].trace.primal == runs[1].trace.primal
    assert runs[0].trace.lower_bound == runs[1].trace.lower_bound
    assert np.array_equal(runs[0].point["theta"], runs[1].point["theta"])
    assert runs[0].primal <= first.primal
    assert runs[0].lower_bound >= first.lower_bound - 1e-9


@pytest.mark.parametrize(("y", "status"), [(0.0, Status.OPTIMAL), (0.5, Status.STALLED), (None, Status.UNCERTIFIED)])
def test_an_exact_solver_of_one_round_may_leave_its_values_to_the_certificate(y: float | None, status: Status) -> None:
    dual = None if y is None else {"y": np.asarray(y)}
    silent = Iterate({"x": np.asarray(0.0)}, dual, math.inf, -math.inf, done=True)
    found = solve(Square(), Scripted([silent]))
    assert found.status is status
    row = [(found.trace.primal[-1], found.trace.lower_bound[-1])]
    assert row == [(math.inf, -math.inf) if y is None else (found.primal, found.lower_bound)]


def test_of_iterates_without_values_the_last_is_kept_and_of_others_the_best() -> None:
    def silent(x: float, primal: float = math.inf, bound: float = -math.inf) -> Iterate:
        return Iterate({"x": np.asarray(x)}, {"y": np.asarray(x)}, primal, bound)

    found = solve(Square(), Scripted([silent(3.0), silent(2.0), replace(silent(0.0), done=True)]))
    assert found.status is Status.OPTIMAL
    assert float(found.point["x"]) == 0.0
    value = Square().primal({"x": np.asarray(1.0)})
    found = solve(Square(), Scripted([silent(3.0), silent(1.0, primal=float(value)), replace(silent(2.0), done=True)]))
    assert float(found.point["x"]) == 1.0
