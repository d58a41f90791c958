"""The benchmark of the reduced SDP: small runs of each solver, and its verdicts on invented runs."""

from __future__ import annotations

import math

import pytest

from benchmarks import unsupervised_margin as benchmark
from benchmarks.measure import GAPS, LEFT_OUT, Run, Session
from benchmarks.unsupervised_margin import ADMM, CLARABEL, FAST, FULL, SCS, START, Workload

SMALL = Workload(2, 4)


def run_here(workload: Workload, solver: str, limit: float = 20.0) -> Run:
    run = Run(workload, solver, limit)
    for line in benchmark.measure(workload, solver, limit):
        for name, value in line.items():
            if name == "reached":
                run.reached[value[0]] = value[1]
            else:
                setattr(run, name, value)
    return run


@pytest.mark.parametrize("solver", [FAST, ADMM, CLARABEL, FULL])
def test_every_solver_reaches_the_gap_of_a_small_workload(solver: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_here(SMALL, solver)
    capsys.readouterr()
    assert run.trouble == ""
    assert run.status == "OPTIMAL"
    assert 0 < run.to(SMALL.tol) <= run.seconds
    assert 0 < run.before <= run.peak


def test_scs_is_timed_and_its_answer_certified() -> None:
    run = run_here(SMALL, SCS)
    assert run.status == "OPTIMAL"
    assert 0 <= run.gap < 1e-2


def test_a_run_in_a_process_of_its_own_comes_back_whole() -> None:
    run = START(SMALL, FAST, 20.0)
    assert run.trouble == ""
    assert run.to(SMALL.tol) < 20.0


def test_the_sizes_are_those_of_the_names() -> None:
    for workload, name in ((benchmark.PAPER, "80/70"), (benchmark.LARGER[2], "400/380")):
        problem = workload.problem()
        assert workload.name == name == f"{problem.n_rows}/{problem.n_pairs}"
    assert benchmark.LABELS[0].name == "80/70, 3 labels"


def made_up(seconds: dict[str, float], late: str = "") -> object:
    def launcher(workload: Workload, solver: str, limit: float) -> Run:
        taken = seconds.get(solver, 1.0)
        run = Run(workload, solver, limit, dict.fromkeys(GAPS[:3], taken), 5e-5, "OPTIMAL", taken, peak=2.0, before=1.0)
        return Run(workload, solver, limit, status="TIME_LIMIT", seconds=taken) if solver == late else run

    return launcher


@pytest.mark.parametrize(
    ("seconds", "late", "reached"),
    [
        ({CLARABEL: 50.0, SCS: 3.0}, "", [True, True, True]),
        ({CLARABEL: 30.0, SCS: 1.5}, "", [True, False, False]),
        ({CLARABEL: 50.0, SCS: 1.5}, CLARABEL, [True, True, False]),
        ({CLARABEL: 30.0, SCS: 3.0}, CLARABEL, [True, None, True]),
        ({CLARABEL: 50.0, SCS: 3.0}, FAST, [False, None, None]),
    ],
)
def test_the_goals_are_ratios_and_a_limit_that_came_too_early_leaves_them_open(
    seconds: dict[str, float], late: str, reached: list[bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[dict[str, object]] = []
    monkeypatch.setattr(Session, "finish", lambda session, *_: found.extend(session.verdicts))
    assert benchmark.main(["--only", "references"], made_up(seconds, late)) == 0  # type: ignore[arg-type]  # a stand-in for `launch`
    assert [said["reached"] for said in found] == reached


def test_a_reference_is_compared_at_the_gap_that_it_has() -> None:
    fast = Run(SMALL, FAST, 20.0, {1e-2: 1.0, 1e-3: 2.0, 1e-4: 4.0}, 5e-5, "OPTIMAL", 4.0)
    assert benchmark.times(fast, Run(SMALL, SCS, 20.0, {}, 4e-3, "OPTIMAL", 8.0)) == (4.0, False)
    assert benchmark.times(fast, Run(SMALL, SCS, 20.0, {}, 1e-7, "OPTIMAL", 8.0)) == (2.0, False)
    assert benchmark.times(fast, Run(SMALL, SCS, 20.0, {}, math.inf, "TIME_LIMIT", 8.0)) == (2.0, True)


def test_all_sections_print_what_was_left_out_and_it_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def late(workload: Workload, solver: str, limit: float) -> Run:
        return Run(workload, solver, limit, trouble=LEFT_OUT)

    found: list[dict[str, object]] = []
    monkeypatch.setattr(Session, "finish", lambda session, *_: found.extend(session.verdicts))
    assert benchmark.main([], late) == 0
    assert len(found) == 7
    assert {said["reached"] for said in found} == {None}
    assert "undecided" in capsys.readouterr().out


@pytest.mark.slow
def test_quick_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--quick"]) == 0
    assert "goals reached" in capsys.readouterr().out
