"""The benchmark of minimum cuts: small runs of each solver, and its verdicts on invented runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rich.console import Console

from benchmarks import measure
from benchmarks import structured_svm_cuts as benchmark
from benchmarks.measure import LEFT_OUT, Run, Session
from benchmarks.structured_svm_cuts import CUT, HIGHS, MAXFLOW, CutWorkload
from convexstruct.oracles.loopy.minimum_cut import minimum_cut
from convexstruct.oracles.loopy.pairwise import pairwise
from convexstruct.tolerances import ROUNDING

SMALL = CutWorkload(side=8, kind="noise")


@pytest.mark.parametrize("solver", [CUT, HIGHS, MAXFLOW])
def test_every_solver_finds_the_optimum_of_a_small_grid(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if solver == MAXFLOW:
        pytest.importorskip("maxflow")
    monkeypatch.setattr(benchmark, "REPEAT", 0.0)
    run = Run(SMALL, solver, 5.0)
    for line in benchmark.measure(SMALL, solver, 5.0):
        for name, value in line.items():
            if name == "reached":
                run.reached[value[0]] = value[1]
            else:
                setattr(run, name, value)
    a, edges, weight = SMALL.tables()
    best = minimum_cut(pairwise(a[:, None] * np.array([0.0, -1.0]), edges, weight)).scores[0]
    assert run.status == "OPTIMAL"
    assert run.value == pytest.approx(best, rel=ROUNDING)
    assert run.to(SMALL.tol) == run.seconds


def judged(seconds: dict[str, float], value: float = 1.0, gap: float = 0.0, trouble: str = "") -> bool | None:
    """The verdict where each solver takes its ``seconds``, and HiGHS scores ``value`` and ends with ``gap``."""

    def made_up(workload: CutWorkload, solver: str, limit: float) -> Run:
        run = Run(workload, solver, limit, dict.fromkeys(measure.GAPS, seconds[solver]), 0.0, "OPTIMAL")
        run.seconds, run.value = seconds[solver], 1.0
        if solver == HIGHS:
            run.value, run.gap, run.trouble = value, gap, trouble
            run.seconds = math.nan if trouble else run.seconds
        return run

    session = Session(lambda _: 1.0, 100.0, made_up)
    benchmark.run_cuts(session, [SMALL], Console(quiet=True))
    assert {solver for _, run in session.runs for solver in [run.solver]} == {CUT, *benchmark.peers()}
    (verdict,) = session.verdicts
    reached = verdict["reached"]
    assert reached is None or isinstance(reached, bool)
    return reached


def test_a_goal_is_reached_missed_or_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "peers", lambda: [HIGHS])
    fast, slow = {CUT: 0.1, HIGHS: 1.5}, {CUT: 0.1, HIGHS: 0.9}
    assert judged(fast) is True
    assert judged(slow) is False
    assert judged(fast, value=0.5) is False  # another optimum
    assert judged(fast, value=math.nan, gap=math.inf) is True  # stopped after fifteen times as long
    assert judged(slow, value=math.nan, gap=math.inf) is None
    assert judged(fast, value=math.nan, gap=math.inf, trouble=LEFT_OUT) is None
    assert (
        judged(fast, value=math.nan, gap=math.inf, trouble="ended after its limit") is True
    )  # ten times 0.1 s and more
    assert judged(fast, value=math.nan, gap=math.inf, trouble="ImportError: no such module") is None
