"""Anyone's solver in a process of its own, so that a hang can be ended and a crash survived.

The child makes the problem, calls the solver, looks whether its input is still the same, and sends plain arrays back:
a head in JSON and arrays in ``.npy`` form, read without pickle. What the solver prints goes to standard error.

A solver named FILE.py:NAME runs in a fresh interpreter, which loads the file by its path. A Python callable runs in a
fork of this process where there is one (Linux); elsewhere it runs right here, and a hang cannot be ended.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from convexstruct.certificates import Problem
from convexstruct.solution import Solution
from convexstruct.verification.cases import Case, select
from convexstruct.verification.fingerprint import fingerprint

#: Seconds a solver's file may take to load: imports, compilation.
LOADING = 120.0
#: Whether a callable can be given a process of its own.
FORKS = sys.platform.startswith("linux")
#: As much of a foreign error message as fits a sentence.
EXCERPT = 200

SolverFunction = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Answer:
    """What came back from a solver.

    trouble : one sentence if it gave no answer (raised, hung, died, returned something else), or "".
    point : the array or mapping it returned. dual_point : its dual point, if any.
    primal, lower_bound : what it claims, NaN if it claims nothing. seconds, iterations : as measured, as reported.
    changed : whether its input was another one afterwards.
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
    _process: Any = field(default=None, init=False, repr=False)
    _pipe: Connection | None = field(default=None, init=False, repr=False)

    @property
    def name(self) -> str:
        if isinstance(self.solver, str):
            path, _, name = self.solver.rpartition(":")
            return f"{Path(path).name}:{name}"
        return str(getattr(self.solver, "__name__", type(self.solver).__name__))

    def __enter__(self) -> Entrant:
        if isinstance(self.solver, str):
            split(self.solver)
            self._start()
        elif not callable(self.solver):
            raise ValueError(f"solver is a {type(self.solver).__name__}, wanted a function of one problem")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def answer(self, case: Case, seed: int, limit: float) -> Answer:
        """Let it solve ``case``; never raises for what the solver does."""
        if not isinstance(self.solver, str):
            if not FORKS:
                return _unpack(_call(self.solver, case, seed))
            self._start(case)
        elif self._process is None:
            self._start()
        assert self._pipe is not None
        try:
            self._pipe.send_bytes(json.dumps({"case": case.name, "seed": seed}).encode())
            # The child may need a moment to build the instance before its clock starts.
            if not self._pipe.poll(limit + _building(case, seed)):
                self._stop()
                return Answer(f"did not return within {limit:g} s", seconds=limit)
            answer = _unpack(self._pipe.recv_bytes())
        except (EOFError, ConnectionError):
            self._process.join(1.0)
            code = self._process.exitcode
            self._stop()
            return Answer(f"ended its process (exit code {code}) instead of returning")
        if not isinstance(self.solver, str):
            self._stop()
        if answer.seconds > limit:
            return Answer(f"took {answer.seconds:.3g} s, more than the limit of {limit:g} s", seconds=answer.seconds)
        return answer

    def _start(self, case: Case | None = None) -> None:
        fresh = isinstance(self.solver, str)
        context: Any = multiprocessing.get_context("spawn" if fresh else "fork")
        here, there = context.Pipe()
        arguments = (there, None if fresh else here, self.solver, case)
        self._process = context.Process(target=_serve, args=arguments)
        with warnings.catch_warnings():
            # From Python 3.12 a fork beside threads is warned about; the child only computes, then ends.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        there.close()
        self._pipe = here
        loaded = "did not load in time"
        try:
            if here.poll(LOADING):
                loaded = here.recv_bytes().decode()
        except (EOFError, ConnectionError):
            loaded = "ended its process while loading"
        if loaded:
            self._stop()
            raise ValueError(f"{self.solver}: {loaded}")

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def _building(case: Case, seed: int) -> float:
    begin = time.perf_counter()
    case.build(seed)
    return 1.0 + 5.0 * (time.perf_counter() - begin)


def _serve(pipe: Connection, parents: Connection | None, solver: SolverFunction | str, case: Case | None) -> None:
    """The child: load, say so, then answer one request after another, until the parent is gone."""
    if parents is not None:
        parents.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    function: SolverFunction
    try:
        function = load(solver) if isinstance(solver, str) else solver
    except ValueError as error:
        pipe.send_bytes(str(error).encode())
        return
    pipe.send_bytes(b"")
    while True:
        try:
            request = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        chosen = case if case is not None else select(request["case"])[0]
        pipe.send_bytes(_call(function, chosen, int(request["seed"])))


def split(solver: str) -> tuple[Path, str]:
    """ "FILE.py:NAME" as path and name.

    Raises
    ------
    ValueError
        If it is not of that form, or there is no such file.
    """
    path, colon, name = solver.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise ValueError(f"solver is {solver!r}, wanted FILE.py:NAME")
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path!r}, wanted FILE.py:NAME")
    return Path(path), name


def load(solver: str) -> SolverFunction:
    """The function NAME of FILE.py.

    Raises
    ------
    ValueError
        If the file does not load, or has no such function.
    """
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
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[0][:EXCERPT] if lines else ''}"


def _call(function: SolverFunction, case: Case, seed: int) -> bytes:
    """Call the solver on a problem of its own, and pack what comes back."""
    problem: Problem = case.build(seed)
    before = fingerprint(problem, exact=True)
    head: dict[str, Any] = {"trouble": ""}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    begin = time.perf_counter()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            returned = function(problem)
        head["seconds"] = time.perf_counter() - begin
        head["trouble"] = _read(returned, head, arrays)
    except (Exception, SystemExit) as error:
        head["seconds"] = time.perf_counter() - begin
        head["trouble"] = f"raises {_said(error)}"
    head["changed"] = fingerprint(problem, exact=True) != before
    file = io.BytesIO()
    np.savez(file, head=np.array(json.dumps(head)), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _read(returned: Any, head: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    """Take apart what a solver returned; a sentence if it is nothing that can be read."""
    point, dual_point = returned, None
    if isinstance(returned, Solution):
        point, dual_point = returned.point, returned.dual_point
        head |= {"primal": returned.primal, "lower_bound": returned.lower_bound, "iterations": returned.iterations}
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
    with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
        head = json.loads(str(archive["head"]))
        found = {key: archive[key] for key in archive.files}
    if head["trouble"]:
        return Answer(head["trouble"], seconds=head["seconds"], changed=head["changed"])
    point = {key.removeprefix("point/"): value for key, value in found.items() if key.startswith("point/")}
    dual = {key.removeprefix("dual/"): value for key, value in found.items() if key.startswith("dual/")}
    return Answer(
        point=point[""] if head["bare"] else point,
        dual_point=dual or None,
        primal=head.get("primal", math.nan),
        lower_bound=head.get("lower_bound", math.nan),
        seconds=head["seconds"],
        iterations=head.get("iterations"),
        changed=head["changed"],
    )
