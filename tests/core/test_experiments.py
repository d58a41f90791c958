"""Every experiment: a table that fits its headings, strict JSON, and a clear sentence where data is missing."""

from __future__ import annotations

import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from convexstruct.core.experiment import Cell, Result, Sheet, standard_error
from convexstruct.datasets.real.sources import SOURCES, VARIABLE
from convexstruct.experiments import EXPERIMENTS
from convexstruct.tolerances import ROUNDING

WITH_DATA = {name for source in SOURCES.values() for name in source.experiments}
#: Without their data these run on generated sets, and say what they left out.
SERVED_OTHERWISE = {"svm-solvers", "table1", "table2"}


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


def test_a_sheet_counts_its_steps_and_fills_its_rows() -> None:
    told: list[tuple[int, int, str]] = []
    sheet = Sheet(("name", "gap", "value"), False, 0, lambda done, total, name: told.append((done, total, name)))
    sheet.total = 2
    sheet.step("first")
    sheet.step("second")
    assert told == [(0, 2, "first"), (1, 2, "second")]
    assert sheet.seconds >= 0
    sheet.add("a", value=np.float64(2.0))
    sheet.add("b", 0.5)
    assert sheet.rows == [["a", None, 2.0], ["b", 0.5, None]]
    assert type(sheet.rows[0][2]) is float
    assert sheet.table()[1] == {"name": "b", "gap": 0.5, "value": None}


def test_a_row_that_the_headings_do_not_fit_is_refused() -> None:
    for cells, named in (((1, 2, 3), {}), ((1,), {"other": 2}), ((1,), {"name": 2})):
        with pytest.raises(ValueError, match=r"a row has \d cells and .*, wanted some of \('name', 'gap'\)"):
            Sheet(("name", "gap")).add(*cells, **named)
    with pytest.raises(ValueError, match="a row of x has 1 cells"):
        Result("x", "paper", ("name", "value"), [["a"]], {}, [], 0.0)


def test_the_first_of_the_best_is_chosen() -> None:
    told: list[str] = []
    sheet = Sheet(progress=lambda done, total, name: told.append(name))
    numbers = {1.0: 0.5, 2.0: 0.25, 4.0: 0.25, 8.0: 0.5}
    assert sheet.choose(numbers, numbers.__getitem__, "C = {:g}".format) == (2.0, numbers)
    assert sheet.choose(numbers, numbers.__getitem__, "C = {:g}".format, largest=True) == (1.0, numbers)
    assert told == ["C = 1", "C = 2", "C = 4", "C = 8"] * 2


def test_the_standard_error_is_that_of_a_mean_and_of_equal_sequences_that_of_their_means() -> None:
    assert standard_error([0.25]) is None
    assert standard_error([0.1, 0.3]) == pytest.approx(0.1, rel=ROUNDING)
    values = np.random.default_rng(4).random(20)
    expected = standard_error(values.reshape(5, 4).mean(axis=1))
    assert standard_error(values, [4] * 5) == pytest.approx(expected, rel=ROUNDING)


def late(k: int) -> int:
    """The first call ends last."""
    time.sleep(0.02 * (3 - k))
    return k * k


@pytest.mark.parametrize("workers", [0, 3])
def test_calls_give_their_results_in_order_whoever_ends_first(workers: int) -> None:
    seen: list[tuple[int, int, str]] = []
    with ThreadPoolExecutor(workers) if workers else contextlib.nullcontext() as executor:
        sheet = Sheet(progress=lambda *step: seen.append(step), executor=executor)
        sheet.total = 3
        assert sheet.in_order(late, [(0,), (1,), (2,)], ["a", "b", "c"]) == [0, 1, 4]
    assert seen == [(0, 3, "a"), (1, 3, "b"), (2, 3, "c")]


def test_a_call_that_fails_ends_the_others_and_its_error_is_the_callers() -> None:
    begun: list[int] = []

    def call(k: int) -> None:
        begun.append(k)
        if k == 1:
            raise ValueError("the second fails")
        time.sleep(0.001)

    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="the second fails"):
        Sheet(executor=executor).in_order(call, [(k,) for k in range(2000)], ["draw"] * 2000)
    assert len(begun) < 2000
