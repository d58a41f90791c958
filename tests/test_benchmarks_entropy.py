"""The benchmark of maximum entropy: small runs of both solvers, and its verdicts on invented runs."""

from __future__ import annotations

import math

import pytest
from rich.console import Console

from benchmarks import log_linear_entropy as benchmark
from benchmarks.log_linear_entropy import CLARABEL, FAST, EntropyWorkload
from benchmarks.measure import LEFT_OUT, Run, Session
from convexstruct.core.driver import solve
from convexstruct.tolerances import HIGH

SMALL = EntropyWorkload(n=2, length=3, labels=2)


@pytest.mark.parametrize("solver", [FAST, CLARABEL])
def test_both_solvers_find_the_optimum_of_a_small_workload(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "REPEAT", 1e-9)
    run = Run(SMALL, solver, 30.0)
    for line in benchmark.measure(SMALL, solver, 30.0):
        for name, value in line.items():
            setattr(run, name, value)
    assert run.value == pytest.approx(solve(SMALL.field(), tol=1e-9).primal, rel=1e-8)
    assert run.gap <= HIGH.gap
    if solver == FAST:
        assert run.stated == pytest.approx(run.value, rel=1e-9)  # what CVXPY says of our tables


def judged(theirs: float, value: float = 1.0, trouble: str = "", stated: float = 1.0) -> bool | None:
    """The verdict where ours takes 0.1 s, and Clarabel ``theirs`` and finds ``value``."""

    def made_up(workload: EntropyWorkload, solver: str, limit: float) -> Run:
        run = Run(workload, solver, limit, gap=1e-10, seconds=0.1, value=1.0, stated=stated)
        if solver == CLARABEL:
            run.seconds, run.value, run.trouble = theirs, value, trouble
        return run

    session = Session(lambda _: 15.0, 100.0, made_up)
    benchmark.run_entropy(session, [SMALL], Console(quiet=True), made_up)
    (verdict,) = session.verdicts
    reached = verdict["reached"]
    assert reached is None or isinstance(reached, bool)
    return reached


def test_a_goal_is_reached_missed_or_undecided() -> None:
    assert judged(11.0) is True
    assert judged(9.0) is False
    assert judged(11.0, value=1.0 + 1e-6) is False  # another optimum
    assert judged(11.0, stated=1.0 + 1e-6) is False
    assert judged(11.0, stated=math.nan) is False  # our tables violate a constraint of the program
    assert judged(11.0, value=math.nan) is True  # stopped after more than a hundred times as long
    assert judged(9.0, value=math.nan) is None
    assert judged(math.nan, value=math.nan, trouble="ended 60 s after its limit") is True  # 15 s and more
    assert judged(math.nan, value=math.nan, trouble=LEFT_OUT) is None
