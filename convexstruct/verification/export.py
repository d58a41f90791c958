"""Cases as files, for solvers in any language: a header in JSON and the numbers in NPZ, or as plain text.

What a problem consists of is read from the problem itself: its dataclass fields, those of its parts, and so on. Each is
named by its path, ``loss.costs`` being the field ``costs`` of the field ``loss``.

Numbers and arrays go to ``CASE.npz``, one array each (a single number has no axes; a sparse matrix is the three arrays
``NAME.data``, ``NAME.indices`` and ``NAME.indptr`` of its CSR form), or as plain text to ``CASE.NAME.csv`` (one number
a line where there is at most one axis, else one row a line) and, if sparse, to ``CASE.NAME.mtx`` (MatrixMarket). A list
of lists of numbers is one array ``NAME`` with all of them and ``NAME.start``, where each list begins. Words, yes or no,
and what is absent (null) are in the header alone, ``CASE.json``.

The header, a JSON object, has

    format               "convexstruct problem 1"
    case, family, purpose, paper, equations, seed
    problem              the name of the problem's class, under which the page explains it
    fingerprint          of the data; an answer to other data is refused
    optimum              {"lower_bound", "upper_bound"}: the certified bracket, null where none is stored
    trivial_value        the unit of gaps where the optimum is near 0 (`convexstruct.core.certificates`)
    numbers              name -> {"shape", "type"} ("type": "float64", "int64", "bool"), for sparse ones "nonzeros"
    words                name -> text, list of texts, true, false or null
    point                name -> shape of what an answer holds
    dual_point           the same of the trivial dual point; the page says what else a dual point may hold
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from convexstruct.core.cases import Case
from convexstruct.core.certificates import Problem
from convexstruct.files import write_whole
from convexstruct.verification.fingerprint import data_of, fingerprint
from convexstruct.verification.outcome import finite
from convexstruct.verification.references import stored

FORMAT = "convexstruct problem 1"


@dataclass
class Parts:
    """What a problem consists of. numbers : arrays and sparse matrices by name. words : all else. kinds : the classes
    it is made of, the problem's own first."""

    numbers: dict[str, Any] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)
    kinds: dict[type, None] = field(default_factory=dict)

    def add(self, name: str, value: Any) -> None:
        """Add ``value`` and all that it holds; ValueError if it holds anything but data."""
        if value is None or isinstance(value, (str, bool, np.bool_)):
            self.words[name] = bool(value) if isinstance(value, np.bool_) else value
        elif isinstance(value, (int, float, np.number)):
            self.numbers[name] = np.array(value)
        elif sp.issparse(value):
            self.numbers[name] = sp.csr_array(value)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind in "biuf":
                self.numbers[name] = value
            else:
                self.words[name] = [str(each) for each in value.ravel().tolist()]
        elif is_dataclass(value) and not isinstance(value, type):
            self.kinds[type(value)] = None
            for part, held in data_of(value):
                self.add(f"{name}.{part}" if name else part, held)
        elif isinstance(value, Mapping):
            for key, part in value.items():
                self.add(f"{name}.{key}", part)
        elif isinstance(value, (list, tuple)):
            self._list(name, value)
        else:
            raise ValueError(f"{name} is a {type(value).__name__}, which no file can hold")

    def _list(self, name: str, values: Sequence[Any]) -> None:
        if all(isinstance(each, (int, float, np.number)) and not isinstance(each, bool) for each in values):
            self.numbers[name] = np.array(values, dtype=None if values else np.int64)
        elif all(isinstance(each, str) for each in values):
            self.words[name] = list(values)
        elif all(_is_row(each) for each in values):
            rows = [np.asarray(each) if len(each) else np.empty(0, np.int64) for each in values]
            self.numbers[name] = np.concatenate(rows)
            self.numbers[f"{name}.start"] = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        else:
            for position, each in enumerate(values):
                self.add(f"{name}.{position}", each)


def _is_row(value: Any) -> bool:
    """Whether ``value`` is a list of plain numbers, or an array of one axis."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "biuf"
    plain = (int, float, np.number)
    return isinstance(value, (list, tuple)) and all(isinstance(v, plain) and not isinstance(v, bool) for v in value)


def parts(problem: Problem) -> Parts:
    """The numbers, words and classes of ``problem``; ValueError if it holds a function, such as an oracle."""
    found = Parts()
    found.add("", problem)
    return found


def exportable(cases: Sequence[Case]) -> tuple[tuple[Case, ...], list[str]]:
    """Those of ``cases`` that files can hold, and a sentence for each of the others."""
    kept, left_out = [], []
    for case in cases:
        try:
            parts(case.build())
            kept.append(case)
        except ValueError as error:
            left_out.append(f"{case.name}: {error}")
    return tuple(kept), left_out


def header(case: Case, problem: Problem, found: Parts, seed: int) -> dict[str, Any]:
    """What ``CASE.json`` holds; the head of this file says what each entry is."""
    point, dual_point = problem.trivial()
    reference = stored(case, problem)
    bracket = None
    if reference is not None:
        bracket = {"lower_bound": reference.lower_bound, "upper_bound": reference.upper_bound}
    return {
        "format": FORMAT,
        "case": case.name,
        "family": case.family,
        "purpose": case.purpose,
        "paper": case.paper,
        "equations": case.equations,
        "seed": seed,
        "problem": type(problem).__name__,
        "fingerprint": fingerprint(problem),
        "optimum": bracket,
        "trivial_value": float(problem.trivial_value),
        "numbers": {name: _described(value) for name, value in found.numbers.items()},
        "words": found.words,
        "point": shapes(point),
        "dual_point": shapes(dual_point),
    }


def shapes(point: Mapping[str, Any]) -> dict[str, list[int]]:
    return {name: list(np.shape(value)) for name, value in point.items()}


def _described(value: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"shape": list(value.shape), "type": str(value.dtype)}
    return shown | {"nonzeros": int(value.nnz)} if sp.issparse(value) else shown


def write_case(folder: Path, case: Case, seed: int = 0, *, npz: bool = True, text: bool = False) -> Parts:
    """Write one case: its numbers first and its header last, each whole or not at all.

    npz, text : whether the numbers are written as ``CASE.npz``, and as plain text.
    """
    problem = case.build(seed)
    found = parts(problem)
    if npz:
        write_whole(folder / f"{case.name}.npz", packed(found.numbers))
    if text:
        for name, value in found.numbers.items():
            ending, content = ("mtx", _matrix_market) if sp.issparse(value) else ("csv", _csv)
            write_whole(folder / f"{case.name}.{name}.{ending}", content(value))
    write_whole(folder / f"{case.name}.json", lines(header(case, problem, found, seed)))
    return found


def lines(shown: Mapping[str, Any]) -> str:
    """A JSON object with one entry a line, and one line for each entry of the objects in it."""
    text = []
    for name, value in finite(shown).items():
        if isinstance(value, dict) and value:
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items())
            text.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
        else:
            text.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(text) + "\n}\n"


def packed(numbers: Mapping[str, Any]) -> bytes:
    """The bytes of an NPZ archive; of a sparse matrix its three CSR arrays."""
    arrays: dict[str, Any] = {}
    for name, value in numbers.items():
        if sp.issparse(value):
            arrays |= {f"{name}.{part}": getattr(value, part) for part in ("data", "indices", "indptr")}
        else:
            arrays[name] = value
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _csv(value: Any) -> str:
    """One number a line, or one row a line; of more than two axes the last is the row. 17 digits lose nothing."""
    rows = np.atleast_2d(value.reshape(-1, value.shape[-1]) if value.ndim > 1 else value.reshape(-1, 1))
    write: Callable[[Any], str] = repr if value.dtype.kind == "f" else lambda number: str(int(number))
    return "".join(",".join(map(write, row)) + "\n" for row in rows.tolist())


def _matrix_market(value: Any) -> bytes:
    file = io.BytesIO()
    scipy.io.mmwrite(file, sp.coo_array(value), precision=17, symmetry="general")
    return file.getvalue()
