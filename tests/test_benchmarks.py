"""The bookkeeping of benchmarks, on invented runs, and one small run in a process of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import all as every
from benchmarks import defaults, measure, tables
from benchmarks import generative_margin as benchmark
from benchmarks.generative_margin import FAST, START, Goal, Workload
from benchmarks.measure import GAPS, Run

SMALL = Workload(sequences=4, length=6, states=3, noise="EASY", tol=1e-3)


def finished(reached: dict[float, float], gap: float = 5e-4, **more: float) -> Run:
    return Run(SMALL, FAST, 20.0, dict(reached), gap, "OPTIMAL", max(reached.values()), peak=more.get("peak", 100.0))


def made_up(workload: Workload, solver: str, limit: float) -> Run:
    """An invented run: the fast default takes sequences x states / 1000 seconds, others a hundred times that."""
    seconds = workload.sequences * workload.states / 1000 * (1 if solver == FAST else 100)
    if seconds > limit:
        return Run(workload, solver, limit, status="TIME_LIMIT", seconds=limit, gap=0.5, peak=100.0, before=50.0)
    return Run(
        workload, solver, limit, dict.fromkeys(GAPS, seconds), 1e-7, "OPTIMAL", seconds, 3, peak=100.0, before=50.0
    )


def test_a_process_that_hangs_is_ended_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "GRACE_SECONDS", 0.5)
    slow = Workload(sequences=20_000, length=50, states=30)
    run = START(slow, FAST, 0.5)
    assert "ended" in run.trouble
    assert run.to(1e-2) == math.inf


def test_a_process_that_fails_says_why() -> None:
    run = START(Workload(noise="NONE"), FAST, 1.0)
    assert "NONE" in run.trouble
    assert run.to(1e-2) == math.inf


def test_a_line_cut_off_is_passed_over() -> None:
    run = measure.understand(Run(SMALL, FAST, 1.0), ['{"reached": [0.01, 0.5]}', '{"reached": [0.0'])
    assert run.reached == {0.01: 0.5}


def test_a_time_counts_only_if_the_certificate_confirms_it() -> None:
    assert finished({1e-3: 2.0}).to(1e-3) == 2.0
    assert finished({1e-3: 2.0}, gap=2e-3).to(1e-3) == math.inf
    assert finished({1e-3: 2.0}, gap=-1e-3).to(1e-3) == math.inf


def test_a_goal_is_reached_missed_or_undecided() -> None:
    goal = Goal(SMALL, 1e-3, 2.0, memory=150.0)
    assert [reached for _, reached in benchmark.verdicts(goal, finished({1e-3: 2.0}))] == [True, True]
    assert [reached for _, reached in benchmark.verdicts(goal, finished({1e-3: 2.1}, peak=151.0))] == [False, False]
    stopped = Run(SMALL, FAST, 1.0, status="TIME_LIMIT", seconds=1.0, gap=0.1)
    assert next(benchmark.verdicts(goal, stopped))[1] is None
    assert next(benchmark.verdicts(goal, Run(SMALL, FAST, 1.0, trouble="out of memory")))[1] is False


def test_the_goal_in_chain_passes_is_reached_missed_or_undecided(capsys: pytest.CaptureFixture[str]) -> None:
    workload = benchmark.PASSES.workload
    for yardstick, reached in ((1e-3, True), (5e-4, False), (math.nan, None)):
        session = measure.Session(lambda solver: 20.0, 100.0, made_up)
        run = Run(workload, FAST, 20.0, {1e-4: 3.0}, 1e-5, "OPTIMAL", 3.0, yardstick=yardstick)
        session.runs.append(("goals", run))
        benchmark.judge_passes(session, measure.new_console())
        assert [said["reached"] for said in session.verdicts] == [reached]
    assert "3000 chain passes" in capsys.readouterr().out


def test_the_slope_of_a_power_is_its_exponent() -> None:
    sizes = [3, 10, 30, 100]
    assert tables.slope(sizes, [0.5 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert tables.slope(sizes, [3.0, 10.0, math.inf, math.inf]) == pytest.approx(1.0)
    assert math.isnan(tables.slope(sizes, [3.0, math.inf, math.inf, math.inf]))


def test_every_goal_is_judged(tmp_path: Path) -> None:
    kept = tmp_path / "runs.json"
    assert benchmark.main(["--json", str(kept)], made_up) == 0
    told = json.loads(kept.read_text())
    asked = {(goal["workload"], goal["goal"]): goal["reached"] for goal in told["goals"]}
    parts = sum(1 + math.isfinite(goal.memory) for goal in benchmark.GOALS)
    assert len(asked) == parts + 2  # with the ratio, and the goal in chain passes
    # by the rule of `made_up`: 1, 3, 10 seconds for 100 sequences; 30 for 1000 of 30 states; 100 for 10,000
    assert asked["hard-0.1", "1e-04 in 1.5 s"] is True
    assert asked["hard-0.1-30-states", "1e-04 in 4 s"] is True
    assert asked["hard-0.1-30-states-1000", "1e-03 in 12 s"] is False
    assert asked["easy-0.1-10000", "1e-03 in 15 s"] is False
    assert asked["easy-0.1-10000", "peak below 1024 MiB"] is True
    assert asked["easy-0.1", "50 times faster to 1e-03"] is True


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        *((benchmark.main, given) for given in (["--only", "unknown"], ["--seconds", "0"], ["--budget", "-1"])),
        (benchmark.main, ["--json", "no/such/directory/runs.json"]),
        *((every.main, given) for given in (["--limit", "0"], ["--only", "unknown"], ["--quick", "--markdown"])),
        (defaults.main, ["--limit", "0"]),
    ],
)
def test_bad_arguments_end_with_status_two(main: Callable[[list[str]], int], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
