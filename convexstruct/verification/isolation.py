"""Runs a user's solver in a process of its own, so that a hang can be ended and a crash survived.

The worker makes the problem, calls the solver, checks that the solver did not change the problem, and answers with a
head in JSON and arrays in ``.npy`` form, which are read without pickle. What the solver prints goes to standard error.
When the worker ends, so does every process that the solver started (see `convexstruct.verification.guard`).

A solver named FILE.py:NAME runs in a fresh interpreter, which loads the file by its path and serves case after case. A
Python callable runs in a fork of this process where the system can fork (Linux), a new one for each case; elsewhere it
runs in this process, and a hang cannot be ended. On Windows a file does so too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import os
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from convexstruct.core.cases import Case
from convexstruct.core.certificates import Problem
from convexstruct.core.solution import Solution
from convexstruct.files import read_arrays, write_whole
from convexstruct.validation.arguments import cut, sentence
from convexstruct.verification.cases import select
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.guard import LINUX, MOST_BYTES, Ended, Guarded, forked, fresh

#: Seconds a solver's file may take to load: imports, compilation.
LOADING_SECONDS = 120.0
#: Whether a callable, and a file, can be given a process of its own.
FORKS, SPAWNS = LINUX, os.name == "posix"
#: What follows the name of an answer in that of the file which says that the solver has been called.
BEGUN = ".begun"
#: The name of the answer to no case: that the solver's file is loaded ("" in UTF-8), or why not.
LOADED = "loaded"
#: What a new interpreter runs for a solver's file.
PROGRAM = """
from convexstruct.verification.guard import guard
from convexstruct.verification.isolation import serve_file
guard(lambda requests: serve_file(requests, text, given[-1]), *given)
"""
#: Bytes of a message that are reserved for the names and shapes of its arrays.
NAMES_ROOM = 1 << 20
#: Characters of a foreign error message that a sentence shows.
EXCERPT_CHARACTERS = 200
#: Characters of a line of the solver's code: two of them and the message fit into what is shown of a trouble.
LINE_CHARACTERS = 70

SolverFunction = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Answer:
    """A solver's answer to one case.

    trouble : one sentence if the solver gave no answer (raised, hung, died, returned something else), or "".
    point : the array or mapping that it returned. dual_point : its dual point, if any.
    primal, lower_bound : the bounds it claims, NaN if it claims none. seconds : as measured here. iterations : as the
    solver reports. changed : whether the solver changed its input.
    """

    trouble: str = ""
    point: Any = None
    dual_point: Mapping[str, Any] | None = None
    primal: float = math.nan
    lower_bound: float = math.nan
    seconds: float = math.nan
    iterations: int | None = None
    changed: bool = False


@dataclass
class Entrant:
    """A solver on trial: ``with Entrant(solver) as entrant: entrant.answer(case, seed, limit)``.

    solver : a callable problem -> array | mapping | Solution, or "FILE.py:NAME".
    """

    solver: SolverFunction | str
    _worker: Guarded | None = field(default=None, init=False, repr=False)

    @property
    def name(self) -> str:
        if isinstance(self.solver, str):
            path, _, name = self.solver.rpartition(":")
            return f"{Path(path).name}:{name}"
        return str(getattr(self.solver, "__name__", type(self.solver).__name__))

    def __enter__(self) -> Entrant:
        if isinstance(self.solver, str):
            split(self.solver)
            if not SPAWNS:
                self.solver = load(self.solver)
            else:
                self._start(self.solver)
        elif not callable(self.solver):
            raise ValueError(f"solver is a {type(self.solver).__name__}, wanted a function of one problem")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def answer(self, case: Case, seed: int, limit: float) -> Answer:
        """The solver's answer to ``case``; an error in the solver is part of the answer and raises nothing here."""
        solver = self.solver
        if isinstance(solver, str):
            try:
                worker = self._worker or self._start(solver)
            except ValueError as error:
                return Answer(f"does not start again: {error}")
        elif FORKS:
            self._worker = worker = forked(lambda requests: _serve(requests, solver, case))
        else:
            begin = time.perf_counter()
            answer = _unpack(_call(solver, case, seed, alone=False))
            return replace(answer, seconds=time.perf_counter() - begin)
        try:
            name, building = secrets.token_hex(16), _building(case, seed)
            worker.ask(json.dumps({"case": case.name, "seed": seed, "answer": str(worker.folder / name)}))
            with contextlib.suppress(TimeoutError):  # the clock is ours: it starts then at the latest
                worker.receive(name + BEGUN, building)
            begin = time.perf_counter()
            answer = _unpack(worker.receive(name, limit))
            seconds = time.perf_counter() - begin
        except (TimeoutError, Ended, ValueError) as error:
            self._stop()
            if isinstance(error, TimeoutError):
                return Answer(f"did not return within {limit:g} s", seconds=limit)
            return Answer(f"{error} instead of returning" if isinstance(error, Ended) else f"answers with what {error}")
        if not isinstance(solver, str):
            self._stop()
        return replace(answer, seconds=seconds)

    def _start(self, path: str) -> Guarded:
        """The worker of a file, once it is loaded; ValueError if it does not load."""
        self._worker = fresh(PROGRAM, path)
        try:
            trouble = self._worker.receive(LOADED, LOADING_SECONDS).decode("utf-8", "replace")
        except TimeoutError:
            trouble = "did not load in time"
        except (Ended, ValueError) as error:
            trouble = f"{error} while loading"
        if trouble:
            self._stop()
            raise ValueError(f"{path}: {trouble[: 2 * EXCERPT_CHARACTERS]}")
        return self._worker

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.end()
        self._worker = None


def _building(case: Case, seed: int) -> float:
    """Seconds to allow the worker for making the instance: five times what it takes here, and one."""
    begin = time.perf_counter()
    case.build(seed)
    return 1.0 + 5.0 * (time.perf_counter() - begin)


def serve_file(requests: int, solver: str, folder: str) -> None:
    """The worker of a file: load, say so, then answer."""
    worker, trouble = os.getpid(), ""
    try:
        function = load(solver)
    except ValueError as error:
        trouble = str(error)
    if os.getpid() != worker:
        return  # a fork that the file made while it was loaded
    write_whole(f"{folder}/{LOADED}", trouble.encode())
    if not trouble:
        _serve(requests, function, None)


def _serve(requests: int, function: SolverFunction, case: Case | None) -> None:
    """The worker: answer one request after another."""
    worker = os.getpid()
    with open(requests) as lines:
        for request in map(json.loads, lines):
            chosen = case if case is not None else select(request["case"])[0]
            packed = _call(function, chosen, int(request["seed"]), Path(request["answer"] + BEGUN))
            if os.getpid() != worker:
                return  # the solver forked, and this is the child: the parent alone answers
            write_whole(request["answer"], packed)


def split(solver: str) -> tuple[Path, str]:
    """ "FILE.py:NAME" as path and name.

    Raises
    ------
    ValueError
        If it is not of that form, or there is no such file.
    """
    path, colon, name = solver.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise sentence(f"solver is {cut(repr(solver))}, wanted FILE.py:NAME")
    if not Path(path).is_file():
        raise sentence(f"there is no file {cut(repr(path))}, wanted FILE.py:NAME")
    return Path(path), name


def load(solver: str) -> SolverFunction:
    """The function NAME of FILE.py. ValueError if the file does not load, or has no such function."""
    path, name = split(solver)
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"the file does not load: {_said(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"the file has no function {name!r}")
    found: SolverFunction = function
    return found


def _said(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # the exception's class is the solver's own, and its __str__ may do anything
        lines = []
    return f"{type(error).__name__}{': ' + lines[0][:EXCERPT_CHARACTERS] if lines else ''}"


def _raised(error: BaseException) -> str:
    """What a solver raises, and where: the last line of the solver's own file, and the last of all if that is
    another's."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is `_call`
    if not frames or frames[0].filename == __file__:
        return f"raises {_said(error)}"
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    shown = dict.fromkeys((frame.filename, frame.lineno, frame.line) for frame in (own[-1], frames[-1]))
    at = [f"{Path(name).name}, line {line}: {(text or '')[:LINE_CHARACTERS]}" for name, line, text in shown]
    return f"raises {_said(error)}; {'; '.join(at)}"


def _call(function: SolverFunction, case: Case, seed: int, begun: Path | None = None, alone: bool = True) -> bytes:
    """Call the solver on a problem made for it alone, and pack what it returns.

    begun : a file that is made when the problem is, and the solver's time begins. alone : whether this process runs
        nothing but the solver; else KeyboardInterrupt is ours, and is raised again.
    """
    problem: Problem = case.build(seed)
    before = fingerprint(problem, exact=True)
    head: dict[str, Any] = {"trouble": ""}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    if begun is not None:
        begun.touch()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            returned = function(problem)
        head["trouble"] = _read(returned, head, arrays)
        if head["trouble"]:
            arrays.clear()
        _pack(head, arrays)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not alone:
            raise
        arrays = {}
        head = {"trouble": _raised(error)}
    try:
        head["changed"] = fingerprint(problem, exact=True) != before
    except Exception:
        head["changed"] = True
    return _pack(head, arrays)


def _pack(head: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    file = io.BytesIO()
    np.savez(file, head=np.array(json.dumps(head)), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _read(returned: Any, head: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    """Put what a solver returned into ``head`` and ``arrays``; returns a sentence if it cannot be read, else ""."""
    point, dual_point = returned, None
    if isinstance(returned, Solution):
        point, dual_point = returned.point, returned.dual_point
        head |= {"primal": float(returned.primal), "lower_bound": float(returned.lower_bound)}
        head["iterations"] = int(returned.iterations)
    elif isinstance(returned, Mapping) and "point" in returned:
        point, dual_point = returned["point"], returned.get("dual_point")
        for key in ("primal", "lower_bound"):
            claim = _array(returned.get(key, math.nan))
            if claim is None or claim.shape != ():
                return f"returns {key!r} as {_kind(returned[key])}, wanted a number"
            head[key] = float(claim)
    for prefix, part in (("point", point), ("dual", dual_point)):
        if part is None and prefix == "dual":
            continue
        named = part if isinstance(part, Mapping) else {"": part}
        if not named and prefix == "point":
            return "returns a point without any array"
        for key, value in named.items():
            array = _array(value)
            if array is None:
                return f"returns {_kind(value)}, wanted an array of numbers, a mapping of arrays, or a Solution"
            arrays[f"{prefix}/{key}"] = array
    size = sum(array.nbytes for array in arrays.values())
    if size > MOST_BYTES - NAMES_ROOM:
        return f"returns {size} bytes, more than the {MOST_BYTES - NAMES_ROOM} that are read"
    head["bare"] = not isinstance(point, Mapping)
    return ""


def _array(value: Any) -> np.ndarray[Any, Any] | None:
    """``value`` as numbers, or None if it is none."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biu":
            return array
        return np.asarray(array, dtype=np.float64) if array.dtype.kind == "f" else None
    except (TypeError, ValueError):
        return None


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return "None" if value is None else f"a {type(value).__name__}"


def _unpack(packed: bytes) -> Answer:
    """The answer in a message. Whatever the message holds, only numbers, and one line of text, are taken from it."""
    try:
        found = read_arrays(io.BytesIO(packed), MOST_BYTES)
        head = json.loads(str(found.pop("head")))
        numbers = {key: float(head.get(key, math.nan)) for key in ("primal", "lower_bound")}
        iterations = head.get("iterations")
        if not isinstance(head["trouble"], str) or not isinstance(iterations, int | None):
            raise ValueError("its head has other fields")
        if any(array.dtype.kind not in "biuf" for array in found.values()):
            raise ValueError("an array is not of numbers")
        trouble = " ".join(head["trouble"].split())[: 2 * EXCERPT_CHARACTERS]
        if trouble:
            return Answer(trouble, changed=bool(head["changed"]))
        point = {key.removeprefix("point/"): value for key, value in found.items() if key.startswith("point/")}
        dual = {key.removeprefix("dual/"): value for key, value in found.items() if key.startswith("dual/")}
        return Answer(
            point=point[""] if head["bare"] else point,
            dual_point=dual or None,
            primal=numbers["primal"],
            lower_bound=numbers["lower_bound"],
            iterations=iterations,
            changed=bool(head["changed"]),
        )
    except Exception as error:
        return Answer(f"answers in a form that cannot be read: {_said(error)}")
