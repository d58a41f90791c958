"""The benchmark of regularised risks: small runs of each solver, and its verdicts on invented runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import liblinear
from benchmarks import measure as measured
from benchmarks import regularized_risk as benchmark
from benchmarks.measure import LEFT_OUT, Run, Session
from benchmarks.regularized_risk import CLARABEL, FAST, LIBLINEAR, OWN, PEERS, Workload

SMALL = Workload(n=60, d=4, tol=1e-3)


def run_here(workload: Workload, solver: str, limit: float = 10.0) -> Run:
    lines = [json.dumps(line) for line in benchmark.measure(workload, solver, limit)]
    return measured.understand(Run(workload, solver, limit), lines)


@pytest.mark.parametrize("solver", [FAST, CLARABEL, *(name for name in PEERS if not name.startswith("pegasos"))])
def test_every_solver_reaches_the_gap_of_a_small_workload(solver: str) -> None:
    run = run_here(SMALL, solver)
    assert run.status == "OPTIMAL"
    assert 0 < run.to(SMALL.tol) <= run.seconds
    assert 0 < run.before <= run.peak


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["pegasos-n", "pegasos-1"])
def test_a_solver_that_stays_rough_is_stopped_and_says_how_far_it_came(solver: str) -> None:
    run = run_here(SMALL, solver, 0.3)
    assert 0 < run.gap < 1
    assert run.status == "TIME_LIMIT" or run.gap <= SMALL.tol


@pytest.mark.parametrize("loss", ["bias", "multiclass", "multilabel", "ordinal"])
def test_the_fast_default_takes_every_loss(loss: str) -> None:
    assert run_here(Workload(n=60, d=4, loss=loss, tol=1e-3), FAST).status == "OPTIMAL"
    assert run_here(Workload("sparse", 80, 30, words=5, loss=loss, tol=1e-3), FAST).status == "OPTIMAL"


def test_liblinear_is_timed_against_the_bound_that_was_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    fast = run_here(SMALL, FAST)
    monkeypatch.setenv("CONVEXSTRUCT_OPTIMUM", repr(fast.value))
    peer = run_here(SMALL, LIBLINEAR)
    assert peer.value >= fast.value - 1e-9
    assert peer.gap == pytest.approx((peer.value - fast.value) / peer.value, abs=1e-9)
    assert {1e-2, 1e-3} <= set(peer.reached)
    assert peer.reached[1e-2] <= peer.reached[1e-3]
    monkeypatch.setenv("CONVEXSTRUCT_OPTIMUM", repr(fast.value - 0.5))
    assert not run_here(SMALL, LIBLINEAR).reached
    own = run_here(SMALL, OWN)
    assert own.rounds == liblinear.OWN_MOST
    assert own.value >= fast.value - 1e-9


def test_with_many_classes_liblinear_solves_the_same_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    many = Workload(n=60, d=4, loss="multiclass", classes=7, tol=1e-3)
    fast = run_here(many, FAST)
    monkeypatch.setenv("CONVEXSTRUCT_OPTIMUM", repr(fast.value))
    peer = run_here(many, LIBLINEAR)
    assert {1e-2, 1e-3} <= set(peer.reached)
    assert peer.value >= fast.value - 1e-9


def judged(fast: float, peer: float | None, section: str = "liblinear", trouble: str = "") -> list[bool | None]:
    """The verdicts where the fast default takes ``fast`` seconds and the peer ``peer``; None: it reaches no gap."""

    def made_up(workload: Workload, solver: str, limit: float) -> Run:
        seconds = fast if solver == FAST else peer
        reached = {} if seconds is None else dict.fromkeys(measured.GAPS, seconds)
        run = Run(workload, solver, limit, reached, 1e-7, "OPTIMAL", seconds or 3.0, trouble=trouble)
        run.value = 0.5
        return run

    session = Session(lambda _: 1.0, 100.0, made_up)
    run = {"liblinear": benchmark.run_liblinear, "sparse": benchmark.run_sparse, "clarabel": benchmark.run_clarabel}
    run[section](session, [SMALL], Console(quiet=True))
    return [said["reached"] for said in session.verdicts]


def test_goals_are_reached_missed_or_undecided() -> None:
    assert judged(1.0, 4.1) == [True]
    assert judged(1.0, 3.9) == [False]
    assert judged(1.0, None) == [False]  # its own rule ended it after 3 seconds, wherever that was
    assert judged(0.5, None) == [True]
    assert judged(1.0, 4.1, trouble=LEFT_OUT) == [None]
    assert judged(1.0, 0.3, "sparse") == [True, True]
    assert judged(3.0, 0.3, "sparse") == [False, False]
    assert judged(1.0, 26.0, "clarabel") == [True]
    assert judged(1.0, 24.0, "clarabel") == [False]
    assert judged(1.0, 26.0, "clarabel", trouble=LEFT_OUT) == [None]


def test_the_whole_benchmark_runs_on_made_up_runs_and_writes_them(tmp_path: Path) -> None:
    def made_up(workload: Workload, solver: str, limit: float) -> Run:
        seconds = workload.n * workload.d * 1e-7 * (1 if solver == FAST else 100)
        run = Run(
            workload, solver, limit, dict.fromkeys(measured.GAPS, seconds), 1e-7, "OPTIMAL", seconds, 3, 90.0, 80.0
        )
        run.value = 0.5
        return run

    file = tmp_path / "runs.json"
    assert benchmark.main(["--json", str(file)], made_up) == 0
    written = json.loads(file.read_text())
    assert {run["section"] for run in written["runs"]} >= {"clarabel", "peers", "losses", "growth"}
    assert benchmark.main(["--quick", "--only", "peers"], made_up) == 0


def test_names_tell_workloads_apart() -> None:
    grown = [work for works in benchmark.GROWTH.values() for work in works]
    everything = [*benchmark.AGAINST_LIBLINEAR, *benchmark.LOSSES, *grown]
    assert len({work.name for work in everything}) == len(set(everything))
    assert math.isclose(Workload(C=10.0, n=50, d=2).build().lam, 1 / 500)


def test_the_c_of_the_best_accuracy_on_validation_rows_is_one_of_those_tried() -> None:
    from convexstruct.families.regularized_risk.experiments.svm_solvers import LAMS

    (found,) = benchmark.at_validated([Workload(n=300, d=5)])
    assert any(math.isclose(found.build().lam, lam) for lam in LAMS)
