"""The benchmark of projections: small runs of each solver, and its verdicts on invented runs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import projection as benchmark
from benchmarks.measure import GAPS, LEFT_OUT, Run, Session
from benchmarks.projection import ASCENT, BLOCKS, BRACKET, CLARABEL, MEDIANS, SORTING, START, Workload

SMALL = Workload("bias", 300)
CHAINS = Workload("chains", 3, 4, 3)


def run_here(workload: Workload, solver: str) -> Run:
    run = Run(workload, solver, 20.0)
    for line in benchmark.measure(workload, solver, 20.0):
        for name, value in line.items():
            if name == "reached":
                run.reached[value[0]] = value[1]
            else:
                setattr(run, name, value)
    return run


@pytest.mark.parametrize("kind", ["simplex", "capped", "bias", "weighted"])
@pytest.mark.parametrize("solver", [BRACKET, MEDIANS, SORTING])
def test_every_search_is_certified_and_timed_beside_a_partition(
    kind: str, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "SPENT", 0.0)
    run = run_here(Workload(kind, 300), solver)
    assert run.to(GAPS[-1]) == run.seconds > 0
    assert benchmark.ratio(run) == run.seconds / run.value > 0
    assert 0 < run.before <= run.peak


@pytest.mark.parametrize("solver", [ASCENT, BLOCKS, CLARABEL])
def test_every_solver_reaches_the_gap_of_small_chains(solver: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_here(CHAINS, solver)
    capsys.readouterr()
    assert run.status == "OPTIMAL"
    assert 0 < run.to(CHAINS.tol) <= run.seconds


def test_a_run_in_a_process_of_its_own_comes_back_whole() -> None:
    run = START(SMALL, BRACKET, 20.0)
    assert run.trouble == ""
    assert run.to(GAPS[-1]) < 1.0


def made_up(workload: Workload, solver: str, limit: float) -> Run:
    """An invented run: a bracket takes as many partitions as there are labels; all times grow linearly."""
    run = Run(workload, solver, limit, dict.fromkeys(GAPS, workload.n * 1e-6), 1e-9, "OPTIMAL", peak=2.0, before=1.0)
    run.value = workload.n * 1e-9
    run.seconds = run.value * (workload.labels if solver == BRACKET else 100)
    return run


@pytest.mark.parametrize(("partitions", "reached"), [(9, True), (11, False)])
def test_the_goal_is_a_number_of_partitions(
    partitions: int, reached: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(benchmark, "BOXES", (Workload("bias", labels=partitions), Workload("bias", 10, labels=1)))
    file = tmp_path / "runs.json"
    picture = tmp_path / "growth.png"
    found: list[dict[str, object]] = []
    monkeypatch.setattr(Session, "finish", lambda session, *_: found.extend(session.verdicts))
    arguments = ["--only", "boxes", "growth", "--json", str(file), "--plot", str(picture)]
    assert benchmark.main(arguments, made_up) == 0
    assert [said["reached"] for said in found] == [reached, None, True]
    assert picture.stat().st_size > 0


def test_what_was_left_out_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(workload: Workload, solver: str, limit: float) -> Run:
        return Run(workload, solver, limit, trouble=LEFT_OUT)

    found: list[dict[str, object]] = []
    monkeypatch.setattr(Session, "finish", lambda session, *_: found.extend(session.verdicts))
    assert benchmark.main(["--quick"], late) == 0
    assert {said["reached"] for said in found} == {None}
    assert math.isnan(benchmark.ratio(late(SMALL, BRACKET, 1.0)))
