"""Every benchmark in one run: the table of goals, on a toy benchmark in a process of its own; rules and processor."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks import all as every
from benchmarks import measure
from benchmarks.measure import Run, Session
from tests.test_benchmarks import SMALL

#: A benchmark with a goal of each kind: reached, missed, out of time, and beside a peer that is not installed.
TOY = """
import sys, time
sys.path.insert(0, {root!r})
from benchmarks.measure import opened, options
from dataclasses import dataclass
@dataclass
class Toy:
    name: str
RULES = {{"ours": "stops at once", "peer": "never stops"}}
chosen = options("a toy", ["all"], 5.0, 1.0, None)
with opened(chosen, None, {{}}, 1.0, rules=RULES) as (session, console):
    session.judge(Toy("one"), "2 times as fast", True, ratio=2.5)
    session.judge(Toy("two"), "in 1 s", False, seconds=3.0)
    session.judge(Toy("three"), "in 2 s", None, seconds=None)
    session.has("no_such_module", "peer")
    time.sleep({sleep})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = str(Path(measure.__file__).resolve().parents[1])
    (tmp_path / "toy.py").write_text(TOY.format(root=root, sleep=0))
    (tmp_path / "other.py").write_text("'a file without rules'")
    (tmp_path / "unrun.py").write_text("RULES = {}\nRULES = {}\n")
    return tmp_path


def test_the_table_says_reached_missed_undecided_and_not_run(folder: Path) -> None:
    rows, table = folder / "rows.json", folder / "table.md"
    given = ["--only", "toy", "--json", str(rows), "--markdown", str(table)]
    assert every.main(given, folder) == 0
    said = table.read_text()
    assert "| one | 2 times as fast | 2.5x | reached |" in said
    assert "| two | in 1 s | 3 s | **MISSED** |" in said
    assert "| three | in 2 s |  | undecided: a limit ended a run before it could say |" in said
    assert "| peer |  |  | undecided: is not installed |" in said
    assert "1 reached, 1 missed, 2 undecided" in said
    assert "## unrun\n\nNot run." in said
    assert "other" not in said
    assert "- peer: never stops" in said
    assert json.loads(rows.read_text())["toy"]["machine"]["date"] in said


def test_what_a_benchmark_found_before_it_broke_is_kept(folder: Path) -> None:
    rows = folder / "rows.json"
    (folder / "toy.py").write_text(
        (folder / "toy.py").read_text().replace("time.sleep(0)", "__import__('os')._exit(3)")
    )
    assert every.main(["--only", "toy", "--json", str(rows), "--markdown", str(folder / "table.md")], folder) == 0
    told = json.loads(rows.read_text())["toy"]
    assert told["ended"] == "exit status 3"
    assert [goal["workload"] for goal in told["goals"]] == ["one", "two", "three", "peer"]
    assert "did not end by itself (exit status 3)" in (folder / "table.md").read_text()


def test_a_benchmark_over_its_limit_is_ended(folder: Path) -> None:
    rows = folder / "rows.json"
    (folder / "toy.py").write_text("RULES = {}\nRULES = {}\n__import__('time').sleep(600)\n")
    assert every.main(["--only", "toy", "--limit", "0.2", "--json", str(rows)], folder) == 0
    assert json.loads(rows.read_text())["toy"]["ended"] == "ended after 0.2 s"


def test_the_table_in_the_documentation_is_that_of_the_rows_kept() -> None:
    rows = json.loads(every.ROWS.read_text(encoding="utf-8"))
    assert every.TABLE.read_text(encoding="utf-8") == every.markdown(rows, list(every.benchmarks())) + "\n"


def test_every_benchmark_says_when_each_of_its_solvers_stops() -> None:
    known = every.benchmarks()
    timed = {"generative_margin", "structured_svm", "regularized_risk", "projection", "log_linear", "hidden_markov"}
    assert timed <= set(known)
    for name in known:
        module = importlib.import_module(f"benchmarks.{name}")
        assert len(module.RULES) > 1, name
        assert set(getattr(module, "LIMITS", ())) | set(getattr(module, "PEERS", ())) <= set(module.RULES), name
        assert all(len(rule) > 20 for rule in module.RULES.values()), name


def disturbed(share: float, wall: bool = True) -> Session:
    def launcher(workload: measure.Workload, solver: str, limit: float) -> Run:
        return Run(workload, solver, limit, share=share)

    session = Session(lambda _: 1.0, 100.0, launcher, wall=wall)
    session("some", SMALL, "ours")
    return session


def test_a_process_that_shared_its_core_decides_nothing_but_what_it_reached() -> None:
    session = disturbed(0.5)
    session.judge(SMALL, "in 1 s", False, seconds=2.0)
    session.judge(SMALL, "in 3 s", True, seconds=2.0)
    session.judge(SMALL, "twice as fast", True, ratio=2.0)
    assert [said["reached"] for said in session.verdicts] == [None, True, None]
    assert session.verdicts[0]["why"] == "a process had 50% of its core"
    session.launcher = lambda workload, solver, limit: Run(workload, solver, limit)
    session("some", SMALL, "ours")
    session.judge(SMALL, "in 1 s", False, seconds=2.0)
    assert session.verdicts[-1]["reached"] is False
