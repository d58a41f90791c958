"""The benchmark of structural SVMs: small runs of each solver, and its verdicts on invented runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks import structured_svm as benchmark
from benchmarks.measure import GAPS, Run, Session, new_console, understand
from benchmarks.structured_svm import CHOICE, CLARABEL, CRFSUITE, CUTS, DLIB, FAST, FRANK_WOLFE, Workload
from convexstruct.families.log_linear.experiments.chunking import MARGIN_C
from tests.families.log_linear.experiments.test_chunking import made_up as sentences

SMALL = Workload(chains=5, length=4, labels=3, features=4, tol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [FAST, CUTS, FRANK_WOLFE, CLARABEL])
def test_every_solver_reaches_the_gap_of_a_small_workload(solver: str) -> None:
    run = understand(Run(SMALL, solver, 20.0), [json.dumps(line) for line in benchmark.measure(SMALL, solver, 20.0)])
    assert run.status == "OPTIMAL"
    assert 0 < run.to(SMALL.tol) < 20.0
    assert 0 < run.before <= run.peak


def test_a_target_is_reached_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_TARGET", "1e9")
    run = understand(Run(SMALL, FAST, 20.0), [json.dumps(line) for line in benchmark.measure(SMALL, FAST, 20.0)])
    assert run.status == "OPTIMAL"
    assert run.rounds == 1


def made_up(times: float) -> Callable[[Workload, str, float], Run]:
    """An invented run: the fast default takes a second, Clarabel ``times`` as long; dlib ends at an objective of 7."""

    def launcher(workload: Workload, solver: str, limit: float) -> Run:
        seconds = 1.0 if solver == FAST else times
        value = 7.0 if solver in (DLIB, FAST) else math.nan
        run = Run(workload, solver, limit, dict.fromkeys(GAPS, seconds), 1e-7, "OPTIMAL", seconds, value=value)
        return run if solver != DLIB else replace(run, gap=math.inf, status="STOPPED", reached={})

    return launcher


@pytest.mark.parametrize(("times", "reached"), [(100.0, 4), (50.0, 3), (20.0, 1), (2.0, 0)])
def test_ratios_to_clarabel_are_judged_against_what_is_asked_and_the_goal(times: float, reached: int) -> None:
    session = Session(lambda solver: 10.0, 100.0, made_up(times))
    benchmark.run_clarabel(session, SMALL, new_console())
    assert [said["ratio"] for said in session.verdicts] == [times] * 4
    assert sum(bool(said["reached"]) for said in session.verdicts) == reached


@pytest.mark.parametrize(("times", "reached"), [(5.0, True), (3.0, False)])
def test_dlib_is_judged_by_its_own_objective(times: float, reached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.measure.find_spec", lambda name: object())  # whether it is installed or not
    session = Session(lambda solver: 10.0, 100.0, made_up(times))
    benchmark.run_dlib(session, SMALL, new_console())
    assert [said["reached"] for said in session.verdicts] == [reached]


def test_sizes_that_are_left_out_decide_nothing() -> None:
    session = Session(lambda solver: 10.0, 0.0, made_up(100.0))
    benchmark.run_clarabel(session, SMALL, new_console())
    assert all(said["reached"] is None for said in session.verdicts)


@pytest.mark.parametrize(
    ("seconds", "peak", "score", "reached"),
    [
        (90.0, 900.0, 0.94, [True, True, True, True]),
        (101.0, 900.0, 0.9369, [False, True, True, True]),
        (501.0, 1600.0, 0.936, [False, False, False, False]),
    ],
)
def test_text_is_judged_by_seconds_memory_and_f1(
    seconds: float, peak: float, score: float, reached: list[bool]
) -> None:
    def launcher(workload: Workload, solver: str, limit: float) -> Run:
        if solver == CRFSUITE:
            return Run(workload, solver, limit, status="STOPPED", seconds=100.0, value=0.9394)
        if solver == CHOICE:
            return Run(workload, solver, limit, status="STOPPED", value=0.3)
        assert limit == 500.0
        assert workload.C in (1.0, 0.3)
        within = dict.fromkeys(GAPS, seconds)
        return Run(workload, solver, limit, within, 1e-7, "OPTIMAL", seconds, value=score, peak=peak)

    session = Session(lambda solver: 10.0, 1e4, launcher)
    benchmark.run_text(session, benchmark.TEXT, new_console())
    assert [said["reached"] for said in session.verdicts] == [*reached, *reached]


def test_the_c_of_text_is_one_of_those_that_reproduce_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convexstruct.datasets.conll2000", lambda part: sentences(20, len(part)))
    line = next(iter(benchmark.measure(Workload(text=20), CHOICE, 20.0)))
    assert line["value"] in MARGIN_C


@pytest.mark.parametrize("solver", [FAST, CRFSUITE])
def test_text_reports_f1_on_made_up_sentences(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if solver == CRFSUITE:
        pytest.importorskip("pycrfsuite")
    monkeypatch.setattr("convexstruct.datasets.conll2000", lambda part: sentences(20, len(part)))
    workload = Workload(text=20, tol=0.1)
    lines = [json.dumps(line) for line in benchmark.measure(workload, solver, 20.0)]
    run = understand(Run(workload, solver, 20.0), lines)
    assert run.value == 1.0  # these sentences are told by their tags
    assert run.status == ("STOPPED" if solver == CRFSUITE else "OPTIMAL")
    assert run.peak > 0
