"""`benchmarks/defaults.py`: tiny problems end to end, what takes part, and the verdicts."""

import json
from typing import Any

import pytest

from benchmarks import defaults
from benchmarks.measure import Run
from convexstruct.core.registry import families


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A kernel of 14 points, in processes of their own."""
    file = tmp_path_factory.mktemp("defaults") / "rows.json"
    defaults.main(["--only", "points-14", "--limit", "20", "--level", "LOW", "--json", str(file)])
    found: list[dict[str, Any]] = json.loads(file.read_text())
    return found


@pytest.mark.slow
def test_tiny_problems_end_to_end(rows: list[dict[str, Any]]) -> None:
    (row,) = rows
    assert row["problem"] == "points-14"
    assert 0 < row["best"] <= row["default"] < 20
    assert row["clarabel"] > 0
    assert row["all"]["default"]["status"] == row["all"]["Clarabel"]["status"] == "OPTIMAL"
    assert row["formulation"] == "reduced"
    rivals = defaults.engines(defaults.PROBLEMS["unsupervised_margin"]["points-14"]())
    assert row["all"].keys() == {"default", *rivals, "Clarabel"}
    assert len(rivals) >= 2


def test_every_family_takes_part() -> None:
    assert defaults.PROBLEMS.keys() == families().keys()
    names = [name for problems in defaults.PROBLEMS.values() for name in problems]
    assert len(names) == len(set(names)) >= 40


def test_the_engines_are_those_of_the_registry_that_take_the_problem() -> None:
    box = defaults.PROBLEMS["projection"]["box-1000"]()
    assert defaults.engines(box) == []  # the default is the only one: BlockAscent takes tables alone
    risk = defaults.PROBLEMS["regularized_risk"]["risk-500x20"]()
    others = {kind.__name__ for kind in families()["regularized_risk"].solvers} - {"SemismoothNewton"}
    assert set(defaults.engines(risk)) == others


@pytest.mark.parametrize("family", defaults.PROBLEMS)
def test_formulations_of_polynomial_size_come_first_and_need_a_problem_alone(family: str) -> None:
    found = defaults.formulations(family)
    assert found
    assert [entry.enumerated for entry in found] == sorted(entry.enumerated for entry in found)


def ran(solver: str, seconds: float | None, limit: float = 120.0) -> Run:
    """A run that reached HIGH in so many seconds, or did not."""
    run = Run(defaults.Workload("projection", "box-1000"), solver, limit)
    status = "TIME_LIMIT" if seconds is None else "OPTIMAL"
    run.levels = {"HIGH": {"cpu": seconds or limit, "wall": seconds or limit, "status": status, "engine": solver}}
    return run


@pytest.mark.parametrize(
    ("own", "rival", "clarabel", "verdict"),
    [
        (1.0, 2.0, 3.0, "reached"),
        (1.0, None, None, "reached"),
        (1.15, 1.0, 3.0, "reached"),
        (1.3, 1.0, 3.0, "**MISSED**: Other is 1.3 times faster"),
        (0.03, 0.02, 3.0, "reached"),
        (0.05, 0.02, 3.0, "**MISSED**: Other is 2.5 times faster"),
        (1.0, 2.0, 0.9, "**MISSED**: slower than Clarabel"),
        (None, None, None, "**MISSED**: not OPTIMAL in 120 s"),
        (None, None, 5.0, "**MISSED**: not OPTIMAL in 120 s, slower than Clarabel"),
    ],
)
def test_the_verdict_compares_with_the_best_engine_and_with_clarabel(
    own: float | None, rival: float | None, clarabel: float | None, verdict: str
) -> None:
    row = defaults.row([ran("default", own), ran("Other", rival), ran("Clarabel", clarabel)], "HIGH")
    assert defaults.line(row).split(" | ")[-1] == f"{verdict} |"


def test_a_limit_below_that_of_the_goal_decides_nothing() -> None:
    row = defaults.row([ran("default", None, 5.0), ran("Clarabel", None, 5.0)], "HIGH")
    assert "undecided: not OPTIMAL in 5 s" in defaults.line(row)


def test_a_process_that_failed_is_named_in_its_row() -> None:
    failed = Run(defaults.Workload("projection", "box-1000"), "Clarabel", 120.0, trouble="MemoryError")
    row = defaults.row([ran("default", 1.0), failed], "HIGH")
    assert defaults.line(row).endswith("reached |")
    assert row["all"]["Clarabel"] == {"trouble": "MemoryError"}
