"""Every experiment: a table that fits its headings, strict JSON, and a clear sentence where data is missing."""

from __future__ import annotations

import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from convexstruct.core.experiment import Cell, Progress, Result, in_order, spread_over
from convexstruct.datasets.real.sources import SOURCES, VARIABLE
from convexstruct.experiments import EXPERIMENTS

WITH_DATA = {name for source in SOURCES.values() for name in source.experiments}
#: Without their data these run on generated sets, and say what they left out.
SERVED_OTHERWISE = {"svm-solvers", "table1", "table2"}


def test_names_are_those_of_the_registry_and_of_the_data_sets() -> None:
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
    assert set(EXPERIMENTS) >= WITH_DATA
    assert {"tracking", "protein-hmm", "online-variant"} <= set(EXPERIMENTS)


@pytest.mark.parametrize("name", sorted(WITH_DATA - SERVED_OTHERWISE))
def test_without_its_data_an_experiment_says_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match=f"is not here: set {VARIABLE}"):
        EXPERIMENTS[name].run(quick=True)


def test_a_result_prints_as_strict_json() -> None:
    rows: list[list[Cell]] = [["a", None, 1.5], ["b", float("inf"), float("nan")]]
    result = Result("x", "paper", ("name", "gap", "value"), rows, {"value": 2.0}, ["a note"], 0.1)
    plain = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert plain["rows"] == [["a", None, 1.5], ["b", None, None]]
    assert set(plain) == {"name", "paper", "columns", "rows", "published", "notes", "seconds"}
    assert result.column("name") == ["a", "b"]


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of x has 1 cells"):
        Result("x", "paper", ("name", "value"), [["a"]], {}, [], 0.0)


def test_progress_counts_its_steps() -> None:
    told: list[tuple[int, int, str]] = []
    progress = Progress(lambda done, total, name: told.append((done, total, name)), 2)
    progress.next("first")
    progress.next("second")
    assert told == [(0, 2, "first"), (1, 2, "second")]
    assert progress.seconds >= 0


def late(k: int) -> int:
    """The first call ends last."""
    time.sleep(0.02 * (3 - k))
    return k * k


@pytest.mark.parametrize("workers", [0, 3])
def test_calls_give_their_results_in_order_whoever_ends_first(workers: int) -> None:
    seen: list[tuple[int, int, str]] = []
    steps = Progress(lambda *step: seen.append(step), 3)
    with contextlib.ExitStack() as stack:
        executor = stack.enter_context(ThreadPoolExecutor(workers)) if workers else None
        stack.enter_context(spread_over(executor))
        assert in_order(late, [(0,), (1,), (2,)], ["a", "b", "c"], steps) == [0, 1, 4]
    assert seen == [(0, 3, "a"), (1, 3, "b"), (2, 3, "c")]


def test_a_call_that_fails_ends_the_others_and_its_error_is_the_callers() -> None:
    begun: list[int] = []

    def call(k: int) -> None:
        begun.append(k)
        if k == 1:
            raise ValueError("the second fails")
        time.sleep(0.001)

    with ThreadPoolExecutor(1) as executor, spread_over(executor), pytest.raises(ValueError, match="the second fails"):
        in_order(call, [(k,) for k in range(2000)], ["draw"] * 2000, Progress(None, 2000))
    assert len(begun) < 2000
