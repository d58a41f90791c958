"""Answers that a program wrote to files, and programs that are run case by case.

An answer to CASE is one file: ``CASE.answer``, or that name with ``.npz``, ``.json``, ``.csv`` or ``.txt`` after it.
What it holds decides how it is read:

* NPZ: arrays by the names under "point" in the header. Arrays called ``dual.NAME`` make a dual point, which may prove a
  better lower bound than the stored one. Numbers called ``primal`` and ``lower_bound``, if there are any, are what the
  program claims; a claim that the point does not bear out is a failure.
* JSON: {"point": {NAME: list of (lists of) numbers}, "dual_point": {...}, "primal": number, "lower_bound": number}, all
  but "point" optional; "point" may be the bare list where the header names one array.
* numbers, separated by commas, spaces or line ends: the arrays under "point" in the header, one after the other.

    convexstruct verify --answers FOLDER --on FAMILY           judges the answers that lie in FOLDER
    convexstruct verify "COMMAND {case} {answer}" --on FAMILY  exports each case, runs the command on it and judges

In the command, {case} stands for the path of the case without its ending (``{case}.json`` is the header, ``{case}.npz``
and ``{case}.NAME.csv`` hold the numbers), and {answer} for the path to be written. It is run without a shell, from the
folder in which ``verify`` was started, in a process of its own that is ended with all that it started at the limit
(``--limit``). What it prints goes to standard error. The time limit includes its start.
"""

from __future__ import annotations

import io
import json
import math
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Tensor, Vector
from convexstruct.core.cases import Case
from convexstruct.core.certificates import Problem
from convexstruct.files import read_arrays
from convexstruct.validation.arguments import cut, sentence
from convexstruct.verification.export import exportable, shapes, write_case
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.guard import MOST_BYTES, regular
from convexstruct.verification.isolation import FORKS, Answer, Entrant

#: What may follow the name of an answer; the content alone decides how it is read.
ENDINGS = ("", ".npz", ".json", ".csv", ".txt")
#: The numbers in an answer that are claims and not part of a point.
CLAIMS = ("primal", "lower_bound")
#: File descriptor that takes what a command prints: standard output carries our result alone.
STANDARD_ERROR = 2


class Refused(Exception):
    """There is no answer that can be read; the text says why, as the rest of a sentence that begins with a name."""


def find(folder: Path, name: str) -> Path:
    """The file with the answer to the case ``name``; `Refused` if there is none, or more than one."""
    found = [path for ending in ENDINGS if (path := folder / f"{name}.answer{ending}").exists()]
    if not found:
        raise Refused(f"wrote no answer: there is no {name}.answer, nor one with {', '.join(ENDINGS[1:])} after it")
    if len(found) > 1:
        raise Refused(f"wrote more than one answer: {', '.join(path.name for path in found)}")
    return found[0]


def content(path: Path) -> dict[str, Any] | Vector:
    """What an answer's file holds: one array if it is plain text, else arrays and numbers by name. Raises `Refused`
    if it cannot be read, is longer than 256 MiB, or is none of the three kinds."""
    try:
        raw = regular(path)
    except OSError as error:
        raise Refused(f"wrote {path.name}, which cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise Refused(f"wrote {path.name}, which {error}") from None
    try:
        if raw[:2] == b"PK":
            return dict(read_arrays(io.BytesIO(raw), MOST_BYTES))
        if raw.lstrip()[:1] == b"{":
            return _from_json(raw)
        return _numbers(raw)
    except (ValueError, RecursionError) as error:
        raise Refused(f"wrote {path.name}, which {cut(' '.join(str(error).split()), 160)}") from None


def _from_json(raw: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"is no JSON object: {error}") from None
    return found


def _numbers(raw: bytes) -> Vector:
    found: list[float] = []
    for line, text in enumerate(raw.decode("utf-8", "replace").splitlines(), start=1):
        for word in text.replace(",", " ").split():
            try:
                found.append(float(word))
            except ValueError:
                raise ValueError(f"has {cut(repr(word), 40)} in line {line}, wanted a number") from None
    if not found:
        raise ValueError("is empty")
    return np.array(found)


def array(name: str, value: Any) -> Tensor:
    """``value`` as an array of floats; ValueError, which names it, if it is none."""
    try:
        read = np.asarray(value)
        if read.dtype.kind not in "biuf":
            raise ValueError
    except (ValueError, TypeError):
        raise ValueError(f"has something else than numbers in {name[:40]!r}") from None
    return read.astype(np.float64)


def split(flat: Vector, wanted: Mapping[str, list[int]]) -> Point:
    """A flat list of numbers as the arrays of these shapes, one after the other; ValueError if the number is wrong."""
    sizes = [math.prod(shape) for shape in wanted.values()]
    if len(flat) != sum(sizes):
        shown = ", then ".join(f"{name} {tuple(shape)}" for name, shape in wanted.items())
        raise ValueError(f"holds {len(flat)} numbers, wanted {sum(sizes)}: {shown}")
    cuts = np.split(flat, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for part, (name, shape) in zip(cuts, wanted.items())}


def read(folder: Path, name: str, problem: Problem) -> dict[str, Any]:
    """The answer to a case as solvers return one: "point" and perhaps "dual_point", "primal", "lower_bound". Raises
    `Refused` if there is none, or it cannot be read."""
    path = find(folder, name)
    found = content(path)
    try:
        if isinstance(found, np.ndarray):
            return {"point": split(found, shapes(problem.trivial()[0]))}
        claims = {key: _claim(key, found.pop(key)) for key in CLAIMS if key in found}
        if "point" not in found:  # NPZ
            named = {key: array(key, value) for key, value in found.items()}
            found = {"point": {key: value for key, value in named.items() if not key.startswith("dual.")}}
            found["dual_point"] = {k.removeprefix("dual."): v for k, v in named.items() if k.startswith("dual.")}
        both = {key: _point(key, found[key]) for key in ("point", "dual_point") if found.get(key)}
        if "point" not in both:
            raise ValueError("holds no point")
        return both | claims
    except ValueError as error:
        raise Refused(f"wrote {path.name}, which {error}") from None


def _point(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): array(str(name), part) for name, part in value.items()}
    return array(key, value)


def _claim(key: str, value: Any) -> float:
    claim = array(key, value)
    if claim.shape != ():
        raise ValueError(f"has {key!r} of shape {claim.shape}, wanted one number")
    return float(claim)


@dataclass
class Folder:
    """The answers in a folder, as an `Entrant` gives those of a solver: ``answer(case, seed, limit)``."""

    folder: Path

    def __post_init__(self) -> None:
        if not os.path.isdir(self.folder):  # False for what can be no name at all, where `Path.is_dir` raises
            raise sentence(f"there is no folder {cut(repr(str(self.folder)))}, wanted one with answers")

    @property
    def name(self) -> str:
        return self.folder.name or str(self.folder)

    def exported(self, cases: tuple[Case, ...]) -> tuple[tuple[Case, ...], list[str]]:
        """Those of ``cases`` whose header is here, or that files can hold if there is no header; and a sentence on the
        others. ValueError if there is neither a header nor an answer here."""
        files = {path.name for path in self.folder.iterdir()}
        here = {case.name for case in cases if f"{case.name}.json" in files}
        if not here and files.isdisjoint(f"{case.name}.answer{ending}" for case in cases for ending in ENDINGS):
            raise sentence(f"{cut(repr(str(self.folder)))} holds no exported case and no answer, wanted some to judge")
        kept = tuple(case for case in cases if case.name in here)
        missing = [case.name for case in cases if case.name not in here]
        shown = [f"not exported to this folder: {cut(', '.join(missing), 150)}"] if missing else []
        return (kept, shown) if kept else exportable(cases)

    def answer(self, case: Case, seed: int, limit: float) -> Answer:
        """The answer to ``case``, with ``trouble`` where there is none or it is to other data."""
        problem = case.build(seed)
        try:
            self._check(case, problem)
            return Answer(**read(self.folder, case.name, problem))
        except Refused as error:
            return Answer(str(error))

    def _check(self, case: Case, problem: Problem) -> None:
        """`Refused` if the case's header here, if any, is of other data."""
        try:
            header = json.loads((self.folder / f"{case.name}.json").read_text(encoding="utf-8"))
            other = header["fingerprint"] != fingerprint(problem)
        except FileNotFoundError:
            return
        except (OSError, ValueError, LookupError, TypeError):
            raise Refused(f"answers {case.name}.json, which is no header of a case") from None
        if other:
            raise Refused("answers other data: the case was exported with another seed or version, export it again")


@dataclass
class Program:
    """A command that is run on each case, as an `Entrant` gives the answers of a solver: ``answer(case, seed, limit)``.

    command : "COMMAND {case} {answer}", split into words as a shell does; no shell runs it.
    """

    command: str
    _words: list[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            self._words = shlex.split(self.command)
        except ValueError as error:
            raise sentence(f"the command {cut(repr(self.command))} cannot be read: {error}") from None
        if not all(any(mark in word for word in self._words[1:]) for mark in ("{case}", "{answer}")):
            raise sentence(f'solver is {cut(repr(self.command))}, wanted "COMMAND {{case}} {{answer}}"')

    @property
    def name(self) -> str:
        return Path(self._words[0]).name

    def exported(self, cases: tuple[Case, ...]) -> tuple[tuple[Case, ...], list[str]]:
        """Those of ``cases`` that files can hold, and a sentence for each of the others."""
        return exportable(cases)

    def answer(self, case: Case, seed: int, limit: float) -> Answer:
        """The answer to ``case``, with ``trouble`` where the command gives none."""
        with tempfile.TemporaryDirectory(prefix="convexstruct-") as name:
            write_case(Path(name), case, seed, npz=True, text=True)

            def run(problem: Problem) -> dict[str, Any]:
                self._run(Path(name), case.name, limit)
                return read(Path(name), case.name, problem)

            with Entrant(run) as entrant:
                answer = entrant.answer(case, seed, limit)
        return replace(answer, trouble=answer.trouble.removeprefix(f"raises {Refused.__name__}: "))

    def _run(self, folder: Path, name: str, limit: float) -> None:
        """Run the command to its end; `Refused` if it cannot be started or fails. The `Entrant` ends it after ``limit``
        seconds; where it cannot, it is ended here."""
        paths = {"{case}": str(folder / name), "{answer}": str(folder / f"{name}.answer")}
        words = [_filled(word, paths) for word in self._words]
        try:
            alone = None if FORKS else limit
            code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=STANDARD_ERROR, timeout=alone).returncode
        except subprocess.TimeoutExpired:
            raise Refused(f"did not return within {limit:g} s") from None
        except (OSError, ValueError) as error:
            raise Refused(f"cannot be started: {words[0]}: {getattr(error, 'strerror', None) or error}") from None
        if code:
            raise Refused(f"ended with {f'exit code {code}' if code > 0 else f'signal {-code}'}")


def _filled(word: str, paths: Mapping[str, str]) -> str:
    for mark, path in paths.items():
        word = word.replace(mark, path)
    return word


def is_command(solver: Any) -> bool:
    """Whether ``solver`` is a command to be run on each case."""
    return isinstance(solver, str) and ("{case}" in solver or "{answer}" in solver)
