"""The bookkeeping of benchmarks: processes that fail, times that count, the table of goals, studies of defaults and
ablations."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ablation, defaults, generative_margin, measure, tables
from benchmarks import all as every
from benchmarks.ablation import Figures, Study, moved, patched, studies, verdicts
from benchmarks.generative_margin import FAST, START, Workload
from benchmarks.measure import Run, Session
from convexstruct.core.registry import families
from convexstruct.families.generative_margin import EntropicProximal
from convexstruct.oracles.chain import pieces

SMALL = Workload(sequences=4, length=6, states=3, noise="EASY", tol=1e-3)


# -- a run in a process of its own -------------------------------------------------------------------------------------


def test_a_process_that_hangs_or_fails_is_reported_and_a_line_cut_off_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fails = START(Workload(noise="NONE"), FAST, 1.0)
    monkeypatch.setattr(measure, "GRACE_SECONDS", 0.5)
    hangs = START(Workload(sequences=20_000, length=50, states=30), FAST, 0.5)
    assert "ended" in hangs.trouble
    assert "NONE" in fails.trouble
    assert hangs.to(1e-2) == fails.to(1e-2) == math.inf
    run = measure.understand(Run(SMALL, FAST, 1.0), ['{"reached": [0.01, 0.5]}', '{"reached": [0.0'])
    assert run.reached == {0.01: 0.5}


def test_a_time_counts_only_if_the_certificate_confirms_it() -> None:
    for gap, seconds in ((5e-4, 2.0), (2e-3, math.inf), (-1e-3, math.inf)):
        assert Run(SMALL, FAST, 20.0, {1e-3: 2.0}, gap, "OPTIMAL").to(1e-3) == seconds


def test_a_process_that_shared_its_core_decides_nothing_but_what_it_reached() -> None:
    session = Session(lambda _: 1.0, 100.0, lambda work, solver, limit: Run(work, solver, limit, share=0.5))
    session("some", SMALL, "ours")
    session.judge(SMALL, "in 1 s", False, seconds=2.0)
    session.judge(SMALL, "in 3 s", True, seconds=2.0)
    session.judge(SMALL, "twice as fast", True, ratio=2.0)
    assert [said["reached"] for said in session.verdicts] == [None, True, None]
    assert session.verdicts[0]["why"] == "a process had 50% of its core"
    session.launcher = lambda work, solver, limit: Run(work, solver, limit)
    session("some", SMALL, "ours")
    session.judge(SMALL, "in 1 s", False, seconds=2.0)
    assert session.verdicts[-1]["reached"] is False


def test_the_slope_of_a_power_is_its_exponent() -> None:
    sizes = [3, 10, 30, 100]
    assert tables.slope(sizes, [0.5 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert tables.slope(sizes, [3.0, 10.0, math.inf, math.inf]) == pytest.approx(1.0)
    assert math.isnan(tables.slope(sizes, [3.0, math.inf, math.inf, math.inf]))


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (generative_margin.main, ["--only", "unknown"]),
        (generative_margin.main, ["--json", "no/such/directory/runs.json"]),
        (every.main, ["--quick", "--markdown"]),
        (defaults.main, ["--limit", "0"]),
    ],
)
def test_bad_arguments_end_with_status_two(main: Callable[[list[str]], int], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


# -- the table of goals ------------------------------------------------------------------------------------------------

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
    session.judge(Toy("one"), "2 times as fast", True, "", "sums", ratio=2.5)
    session.judge(Toy("two"), "in 1 s", False, "", "reading the data", seconds=3.0)
    session.judge(Toy("three"), "in 2 s", None, seconds=None)
    session.has("no_such_module", "peer")
    {ends}
"""


def table_of_a_toy(folder: Path, ends: str = "", limit: str = "60") -> tuple[str, dict[str, Any]]:
    """Table and rows of a benchmark that ends so; beside it lie a file without rules, and one that is not run."""
    root = str(Path(measure.__file__).resolve().parents[1])
    (folder / "toy.py").write_text(TOY.format(root=root, ends=ends or "pass"))
    (folder / "other.py").write_text("'a file without rules'")
    (folder / "unrun.py").write_text("RULES = {}\nRULES = {}\n")
    rows, table = folder / "rows.json", folder / "table.md"
    given = ["--only", "toy", "--limit", limit, "--json", str(rows), "--markdown", str(table)]
    assert every.main(given, folder) == 0
    (row,) = json.loads(rows.read_text())["toy"].values()
    return table.read_text(), row


def test_the_table_says_reached_missed_undecided_and_not_run(tmp_path: Path) -> None:
    said, row = table_of_a_toy(tmp_path)
    assert "| one | 2 times as fast | 2.5x | reached |" in said
    assert "| two | in 1 s | 3 s | **MISSED**: reading the data |" in said
    assert "| three | in 2 s |  | undecided: a limit ended a run before it could say |" in said
    assert "| peer |  |  | undecided: is not installed |" in said
    assert "1 reached, 1 missed, 2 undecided" in said
    assert "## unrun\n\nNot run." in said
    assert "other" not in said
    assert "- peer: never stops" in said
    assert row["machine"]["date"] in said


def test_rows_of_two_kinds_of_processors_stand_beside_each_other(tmp_path: Path) -> None:
    row = table_of_a_toy(tmp_path)[1]
    slower = {"workload": "one", "goal": "2 times as fast", "reached": False, "ratio": 1.5}
    older = row | {"machine": row["machine"] | {"date": "2000-01-01"}, "goals": [slower]}
    said = every.markdown({"toy": {every.WITH: row, every.WITHOUT: older}}, ["toy"])
    assert "| one | 2 times as fast | 2.5x | reached | 1.5x | **MISSED** |" in said
    assert "| two | in 1 s | 3 s | **MISSED**: reading the data |  |  |" in said  # not a goal of then
    assert "- with AVX-512: 1 reached, 1 missed, 2 undecided.\n- without AVX-512: 0 reached, 1 missed" in said
    assert (every.kind("avx2 avx512f"), every.kind("avx2")) == (every.WITH, every.WITHOUT)


def test_what_a_benchmark_found_before_it_broke_is_kept_and_one_over_its_limit_is_ended(tmp_path: Path) -> None:
    said, row = table_of_a_toy(tmp_path, "__import__('os')._exit(3)")
    assert row["ended"] == "exit status 3"
    assert [goal["workload"] for goal in row["goals"]] == ["one", "two", "three", "peer"]
    assert "did not end by itself (exit status 3)" in said
    assert table_of_a_toy(tmp_path, "time.sleep(600)", limit="0.2")[1]["ended"] == "ended after 0.2 s"


def test_the_table_in_the_documentation_is_that_of_the_rows_kept() -> None:
    rows = json.loads(every.ROWS.read_text(encoding="utf-8"))
    assert every.TABLE.read_text(encoding="utf-8") == every.markdown(rows, list(every.benchmarks())) + "\n"


def test_every_benchmark_says_when_each_of_its_solvers_stops() -> None:
    for name in every.benchmarks():
        module = importlib.import_module(f"benchmarks.{name}")
        assert len(module.RULES) > 1, name
        assert set(getattr(module, "LIMITS", ())) | set(getattr(module, "PEERS", ())) <= set(module.RULES), name
        assert all(len(rule) > 20 for rule in module.RULES.values()), name


# -- the study of defaults ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tiny_problems_end_to_end(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    defaults.main(["--only", "box-1000", "--limit", "20", "--level", "LOW", "--json", str(file)])
    (row,) = json.loads(file.read_text())
    assert (row["problem"], row["formulation"]) == ("box-1000", "box")
    assert 0 < row["best"] <= row["default"] < 20
    assert row["all"]["default"]["status"] == row["all"]["Clarabel"]["status"] == "OPTIMAL"
    assert row["all"].keys() == {"default", "Clarabel"}


def test_every_family_takes_part_and_the_engines_are_those_that_take_the_problem() -> None:
    assert defaults.PROBLEMS.keys() == families().keys()
    assert all(defaults.formulations(family) for family in families())
    box = defaults.PROBLEMS["projection"]["box-1000"]()
    assert defaults.engines(box) == []  # the default is the only one: BlockAscent takes tables alone
    risk = defaults.PROBLEMS["regularized_risk"]["risk-500x20"]()
    others = {kind.__name__ for kind in families()["regularized_risk"].solvers} - {"SemismoothNewton"}
    assert set(defaults.engines(risk)) == others


def ran(solver: str, seconds: float | None, limit: float = 120.0) -> Run:
    """A run that reached HIGH in so many seconds, or did not."""
    run = Run(defaults.Workload("projection", "box-1000"), solver, limit)
    status = "TIME_LIMIT" if seconds is None else "OPTIMAL"
    run.levels = {"HIGH": {"cpu": seconds or limit, "wall": seconds or limit, "status": status, "engine": solver}}
    return run


@pytest.mark.parametrize(
    ("own", "rival", "clarabel", "limit", "verdict"),
    [
        (1.0, None, None, 120.0, "reached"),
        (1.15, 1.0, 3.0, 120.0, "reached"),
        (1.3, 1.0, 3.0, 120.0, "**MISSED**: Other is 1.3 times faster"),
        (0.03, 0.02, 3.0, 120.0, "reached"),
        (0.05, 0.02, 3.0, 120.0, "**MISSED**: Other is 2.5 times faster"),
        (1.0, 2.0, 0.9, 120.0, "**MISSED**: slower than Clarabel"),
        (None, None, 5.0, 120.0, "**MISSED**: not OPTIMAL in 120 s, slower than Clarabel"),
        (None, None, None, 5.0, "undecided: not OPTIMAL in 5 s"),  # a limit below that of the goal
    ],
)
def test_the_verdict_compares_with_the_best_engine_and_with_clarabel(
    own: float | None, rival: float | None, clarabel: float | None, limit: float, verdict: str
) -> None:
    runs = [ran(name, at, limit) for name, at in (("default", own), ("Other", rival), ("Clarabel", clarabel))]
    assert defaults.line(defaults.row(runs, "HIGH")).split(" | ")[-1] == f"{verdict} |"


# -- ablations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", studies(), ids=lambda study: study.name)
def test_every_mechanism_names_options_and_places_that_there_are(study: Study) -> None:
    for mechanism in study.mechanisms:
        assert mechanism.options or mechanism.patches, mechanism.name
        assert replace(study.solver, **mechanism.options)
        with patched(mechanism.patches):
            pass
    names = [mechanism.name for mechanism in study.mechanisms]
    assert len(set(names)) == len(names)


def test_a_patch_of_a_name_that_is_not_there_is_an_error_and_undoes_the_others() -> None:
    before = pieces.STEPS_SHARE
    with pytest.raises(AttributeError, match="NOWHERE"), patched({"pieces:STEPS_SHARE": 7.0, "pieces:NOWHERE": 0}):
        pass
    assert before == pieces.STEPS_SHARE < 7.0


@pytest.mark.parametrize(("name", "found"), [("nowhere", 0), ("ieces", 0), ("cutting_planes", 3)])
def test_a_place_is_called_by_so_much_of_its_name_that_it_is_the_only_one(name: str, found: int) -> None:
    assert ablation.place("chain.pieces") is ablation.place("pieces") is pieces
    with pytest.raises(ValueError, match=f"{found} modules are called '{name}'"):
        ablation.place(name)


def test_what_moves_nothing_anywhere_and_what_only_costs_are_named() -> None:
    as_is = Figures(1.0, 10, 100, 1e-7, "OPTIMAL")
    slower, faster = replace(as_is, seconds=2.0), replace(as_is, seconds=0.5, calls=50)
    assert not moved(replace(as_is, seconds=1.05, calls=95), as_is)
    assert moved(replace(as_is, seconds=math.inf), as_is)
    found: Mapping[str, Mapping[str, Figures]] = {
        "one": {"": as_is, "idle": as_is, "useful": slower, "harmful": faster, "mixed": faster},
        "two": {"": as_is, "idle": as_is, "useful": as_is, "harmful": faster, "mixed": slower},
    }
    assert verdicts(found) == (["idle"], ["harmful"])


def test_a_small_study_runs_and_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study("small", [SMALL.build] * 2, EntropicProximal(), 1e-3, ablation.options(newton=[False]))
    file = tmp_path / "figures.json"
    assert ablation.main(["--json", str(file)], [study]) == 0
    rows = json.loads(file.read_text())
    assert [row["without"] for row in rows] == ["", "newton = False"]
    assert all(row["gap"] <= 1e-3 and row["rounds"] >= 2 for row in rows)
    assert "nothing (as it is)" in capsys.readouterr().out
