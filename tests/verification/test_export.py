from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from convexstruct.verification import Case, cases_for, families
from convexstruct.verification.export import exportable, parts, write_case
from convexstruct.verification.fingerprint import fingerprint


def of_each_class(family: str) -> list[Case]:
    """A case of each class of problem of a family that files can hold."""
    cases = exportable(cases_for(family, quick=True))[0]
    return list({type(case.build()): case for case in reversed(cases)}.values())


def read_text(path: Path, shape: list[int]) -> Any:
    rows = [[float(word) for word in line.split(",")] for line in path.read_text().splitlines()]
    return np.array([number for row in rows for number in row]).reshape(shape)


@pytest.mark.parametrize("family", families())
def test_every_number_of_a_problem_is_read_back_from_either_form(family: str, tmp_path: Path) -> None:
    for case in of_each_class(family):
        found = write_case(tmp_path, case, npz=True, text=True)
        header = json.loads((tmp_path / f"{case.name}.json").read_text())
        with np.load(tmp_path / f"{case.name}.npz", allow_pickle=False) as archive:
            arrays = dict(archive)
        assert set(header["numbers"]) == set(found.numbers)
        for name, value in found.numbers.items():
            assert header["numbers"][name]["shape"] == list(value.shape)
            if sp.issparse(value):
                csr = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
                assert (sp.csr_array(csr, shape=value.shape) != value).nnz == 0
                assert (scipy.io.mmread(tmp_path / f"{case.name}.{name}.mtx") != value).nnz == 0
            else:
                assert np.array_equal(arrays[name], value)
                assert np.array_equal(read_text(tmp_path / f"{case.name}.{name}.csv", list(value.shape)), value)


@pytest.mark.parametrize("name", families())
def test_the_header_of_every_case_says_which_problem_it_is(name: str) -> None:
    """Not one field of any problem is left out, whatever its parts are."""
    for case in exportable(cases_for(name, open_only=True))[0]:
        problem = case.build()
        found = parts(problem)
        assert next(iter(found.kinds)) is type(problem)
        top = {key.partition(".")[0] for key in (*found.numbers, *found.words)}
        given = {*inspect.signature(type(problem)).parameters} - {"workers"}  # where sums are done is not exported
        empty = {key for key in given if getattr(problem, key) is None or str(getattr(problem, key)) == "{}"}
        assert top | empty == given


def test_the_header_has_the_bracket_the_shapes_of_an_answer_and_the_fingerprint(tmp_path: Path) -> None:
    case = cases_for("regularized_risk")[1]
    write_case(tmp_path, case)
    header = json.loads((tmp_path / f"{case.name}.json").read_text())
    problem = case.build()
    assert header["point"] == {"w": [5], "b": [1]}
    assert header["dual_point"] == {"alpha": [30]}
    assert header["fingerprint"] == fingerprint(problem)
    optimum = case.make(0).optimum
    assert optimum is not None
    assert header["optimum"]["lower_bound"] <= optimum <= header["optimum"]["upper_bound"]


def test_only_problems_that_hold_functions_are_left_out_each_with_its_sentence() -> None:
    kept, left_out = exportable([case for name in families() for case in cases_for(name, open_only=True)])
    assert {case.family for case in kept} == set(families())
    assert [sentence.split(":")[0] for sentence in left_out] == ["oracle-ranking", "oracle-matching", "oracle-ilp"]
    assert all(sentence.endswith("is a function, which no file can hold") for sentence in left_out)
