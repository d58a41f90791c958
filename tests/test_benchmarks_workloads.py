"""The workloads of the benchmarks: small runs of each solver, and verdicts on invented runs."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import (
    generative_margin,
    log_linear_entropy,
    projection,
    regularized_risk,
    structured_svm,
    structured_svm_cuts,
    unsupervised_margin,
)
from benchmarks.log_linear_entropy import EntropyWorkload
from benchmarks.measure import GAPS, LEFT_OUT, Run, Session, understand
from benchmarks.structured_svm_cuts import CUT, HIGHS, MAXFLOW, CutWorkload
from convexstruct.tolerances import HIGH

RING = generative_margin.Workload(sequences=4, length=6, states=3, noise="EASY", tol=1e-3)
RISK = regularized_risk.Workload(n=60, d=4, tol=1e-3)
CHAINS = structured_svm.Workload(chains=5, length=4, labels=3, features=4, tol=1e-2)
BOX = projection.Workload("bias", 300)
SYMBOLS = unsupervised_margin.Workload(2, 4)
GRID = CutWorkload(side=8, kind="noise")
CLIQUES = EntropyWorkload(n=2, length=3, labels=2)
SMALL: Mapping[Any, Any] = {
    generative_margin: RING, regularized_risk: RISK, structured_svm: CHAINS, projection: BOX,
    unsupervised_margin: SYMBOLS, structured_svm_cuts: GRID, log_linear_entropy: CLIQUES,
}  # fmt: skip
#: Solvers that stop by a peer's own rule, or need another workload.
ELSEWHERE = {
    *(unsupervised_margin.SCS, MAXFLOW, structured_svm.DLIB, structured_svm.CRFSUITE),
    *(regularized_risk.OWN, regularized_risk.LIBLINEAR, projection.SOLVE),
    *(projection.BRACKET, projection.MEDIANS, projection.SORTING),
}
EACH = [(module, solver) for module in SMALL for solver in module.RULES if solver not in ELSEWHERE]


def run_here(module: Any, workload: Any, solver: str, limit: float = 20.0) -> Run:
    return understand(Run(workload, solver, limit), [json.dumps(x) for x in module.measure(workload, solver, limit)])


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short solves are not repeated."""
    for module, name in ((structured_svm_cuts, "REPEAT"), (log_linear_entropy, "REPEAT"), (projection, "SPENT")):
        monkeypatch.setattr(module, name, 1e-9)


@pytest.mark.parametrize(("module", "solver"), EACH, ids=lambda x: getattr(x, "__name__", x))
def test_every_solver_reaches_the_gap_of_a_small_workload(module: Any, solver: str) -> None:
    workload = SMALL[module]
    run = run_here(module, workload, solver)
    assert run.trouble == ""
    assert run.status.upper() == "OPTIMAL"
    assert 0 < run.before <= run.peak
    assert run.gap <= max(workload.tol, HIGH.gap)
    if module is not log_linear_entropy:  # which has the seconds of whole solves alone
        assert 0 < run.to(workload.tol) <= run.seconds


# -- verdicts on invented runs -----------------------------------------------------------------------------------------

Told = Mapping[str, Mapping[str, Any]]


def judged(run: Callable[..., Any], given: Any, told: Told, *more: Any) -> list[bool | None]:
    """The verdicts of a section of a benchmark where each solver's run has the fields ``told`` of it, "" of any other:
    ``seconds`` to every gap, unless ``reached`` says otherwise."""

    def launcher(workload: Any, solver: str, limit: float) -> Run:
        fields = {"seconds": 1.0, "gap": 1e-10, "status": "OPTIMAL", "value": 1.0, **told.get(solver, told.get("", {}))}
        fields.setdefault("reached", dict.fromkeys(GAPS, fields["seconds"]))
        return Run(workload, solver, limit, **fields)

    session = Session(lambda _: 15.0, 1e4, launcher)
    run(session, given, Console(quiet=True), *more)
    return [said["reached"] for said in session.verdicts]


LATE: Told = {"": {"trouble": LEFT_OUT, "reached": {}}}
STOPPED: dict[str, Any] = {"value": math.nan, "gap": math.inf}


def peer(seconds: float, first: float = 1.0, name: str = "", ours: str = "fast default", **more: Any) -> Told:
    """Ours takes ``first`` seconds and the peer ``seconds``."""
    return {ours: {"seconds": first}, name: {"seconds": seconds, **more}}


RISKS, CUTS, ENTROPY = regularized_risk, structured_svm_cuts.run_cuts, log_linear_entropy.run_entropy
T, F, N = True, False, None


@pytest.mark.parametrize(
    ("run", "given", "told", "reached"),
    [
        *((structured_svm.run_clarabel, CHAINS, peer(x), y)
          for x, y in ((201.0, [T, T]), (100.0, [T, F]), (2.0, [F, F]))),
        (structured_svm.run_clarabel, CHAINS, LATE, [N, N]),
        (RISKS.run_liblinear, [RISK], peer(4.1), [T]),
        (RISKS.run_liblinear, [RISK], peer(3.0, reached={}), [F]),  # its own rule ended it, wherever that was
        (RISKS.run_liblinear, [RISK], LATE, [N]),
        (RISKS.run_sparse, [RISK], peer(0.3, 3.0), [F, F]),
        (RISKS.run_clarabel, [RISK], peer(26.0), [T]),
        (CUTS, [GRID], peer(1.5, 0.1, ours=CUT), [T]),
        (CUTS, [GRID], peer(0.9, 0.1, ours=CUT), [F]),
        (CUTS, [GRID], peer(1.5, 0.1, ours=CUT, value=0.5), [F]),  # another optimum
        (CUTS, [GRID], peer(1.5, 0.1, ours=CUT, **STOPPED), [T]),  # stopped after fifteen times as long
        (CUTS, [GRID], peer(0.9, 0.1, ours=CUT, **STOPPED), [N]),
        (CUTS, [GRID], peer(math.nan, 0.1, ours=CUT, **STOPPED, trouble=LEFT_OUT), [N]),
        *((ENTROPY, [CLIQUES], {"L-BFGS": {"seconds": 0.1, "stated": stated}, "": more}, [reached])
          for more, stated, reached in (
              ({"seconds": 11.0}, 1.0, T),
              ({"seconds": 9.0}, 1.0, F),
              ({"seconds": 11.0, "value": 1.0 + 1e-6}, 1.0, F),  # another optimum
              ({"seconds": 11.0}, math.nan, F),  # our tables violate a constraint of the program
              ({"seconds": 9.0, "value": math.nan}, 1.0, N),  # stopped before it took a hundred times as long
          )),
        *((projection.run_boxes, [projection.Workload("bias", n)],
           {"": {"seconds": seconds, "value": 1.0, "peak": 2.0, "before": 1.0}}, [reached])
          for n, seconds, reached in ((10**6, 9.0, T), (10**6, 11.0, F), (10, 9.0, N))),
        *((structured_svm.run_text, structured_svm.TEXT,
           {"CRFsuite": {"seconds": 100.0, "value": 0.9394},
            "": {"seconds": seconds, "gap": 1e-7, "peak": peak, "value": score}}, reached)
          for seconds, peak, score, reached in (
              (90.0, 690.0, 0.94, [T, T, T, T, T]), (210.0, 690.0, 0.94, [F, F, T, T, T]),
              (601.0, 710.0, 0.936, [F] * 5),
          )),
        (structured_svm.run_text, structured_svm.NOISY,
         {"CRFsuite": {"seconds": 100.0}, "": {"seconds": 210.0, "gap": 1e-7}}, [F, F, T]),
    ],
)  # fmt: skip
def test_a_goal_is_reached_missed_or_undecided(
    run: Callable[..., Any], given: Any, told: Told, reached: list[bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structured_svm_cuts, "peers", lambda: [HIGHS])
    assert judged(run, given, told) == reached


@pytest.mark.parametrize("name", [module.__name__.rpartition(".")[2] for module in SMALL])
def test_whole_benchmarks_run_on_invented_runs_and_what_is_left_out_decides_nothing(name: str, tmp_path: Path) -> None:
    module, file = importlib.import_module(f"benchmarks.{name}"), tmp_path / "runs.json"

    def launcher(workload: Any, solver: str, limit: float) -> Run:
        return Run(workload, solver, limit, dict.fromkeys(GAPS, 1.0), 1e-9, "OPTIMAL", 1.0, 3, 90.0, 80.0, value=0.5)

    assert module.main(["--json", str(file), "--quick"], launcher) == 0
    assert json.loads(file.read_text())["runs"]
    assert module.main(["--quick", "--budget", "1e-9", "--json", str(file)], None) == 0
    told = json.loads(file.read_text())
    assert {run["trouble"] for run in told["runs"]} == {LEFT_OUT}
    assert {goal["reached"] for goal in told["goals"]} <= {None}
