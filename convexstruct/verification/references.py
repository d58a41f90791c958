"""Reference optima: what a formulation of ``convexstruct.models`` says, and the same as stored files.

Stored references serve anyone's own solver: value, certified bracket, solver and version, and the fingerprint of the
problem's data, so that a changed generator is noticed. One file a family, ``references/<family>.json``. `refresh`
writes it whole or not at all, into the package, or into the user's cache where the package cannot be written.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from convexstruct.certificates import Problem
from convexstruct.files import write_whole
from convexstruct.tolerances import HIGH, ROUNDING
from convexstruct.verification.cases import Case, cases_for
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.outcome import Reference, finite

PACKAGED = Path(__file__).parent / "references"


def compute(case: Case, seed: int = 0) -> Reference:
    """Solve the case's formulation in CVXPY; the bracket is what `certify` makes of the point and dual point read back.

    ``seconds`` counts building, compiling and solving. An instance built backwards brings its own bracket.
    """
    instance = case.make(seed)
    importlib.import_module("convexstruct.models")
    begin = time.perf_counter()
    formulation = formulate(case, instance.problem)
    said = formulation.reference(case.formulation_solver)
    seconds = time.perf_counter() - begin
    reference = Reference(case.formulation, said.solver, said.status, float(said.value), seconds)
    if instance.optimum is not None:
        rounding = ROUNDING * max(1.0, abs(instance.optimum))
        return replace(reference, lower_bound=instance.optimum - rounding, upper_bound=instance.optimum + rounding)
    return reference


def formulate(case: Case, problem: Problem) -> Any:
    """The case's formulation of ``problem``."""
    known: Mapping[str, Any] = importlib.import_module("convexstruct.models").FORMULATIONS
    name = f"{case.family}.{case.formulation}"
    if name not in known:
        raise ValueError(f"formulation {name!r} is unknown, wanted one of {', '.join(known)}")
    return known[name].builder(problem)


def bracketed(case: Case, seed: int = 0) -> Reference:
    """`compute`, with a certified bracket: from the formulation's own dual point, else from the fast path's."""
    from convexstruct.solvers import solve

    reference = compute(case, seed)
    if math.isfinite(reference.lower_bound) or not case.certified:
        return reference
    problem = case.build(seed)
    own = formulate(case, problem).solve(case.formulation_solver)
    lower, upper = own.lower_bound, own.primal
    if not math.isfinite(lower) or own.gap > HIGH.gap:
        fast = solve(problem, case.solver, HIGH)
        lower, upper = max(lower, fast.lower_bound), min(upper, fast.primal)
    return replace(reference, lower_bound=lower, upper_bound=upper)


def cache() -> Path:
    """Where references go if the package cannot be written: ``CONVEXSTRUCT_CACHE``, else the user's cache."""
    named = os.environ.get("CONVEXSTRUCT_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convexstruct"
    return base / "references"


def stored(case: Case, problem: Problem) -> Reference | None:
    """The stored reference of ``case``, or None if there is none for exactly this data; the cache comes first."""
    wanted = fingerprint(problem)
    for folder in (cache(), PACKAGED):
        entry = _read(folder / f"{case.family}.json").get(case.name)
        if entry is not None and entry["fingerprint"] == wanted:
            numbers: dict[str, Any] = {k: math.nan if v is None else v for k, v in entry.items() if k != "fingerprint"}
            for key, unknown in (("lower_bound", -math.inf), ("upper_bound", math.inf)):
                numbers[key] = unknown if math.isnan(numbers[key]) else numbers[key]
            return Reference(**numbers)
    return None


def refresh(family: str, step: Callable[[Case], None] | None = None, into: Path | None = None) -> Path:
    """Recompute and store the references of a family; returns the file written.

    Raises
    ------
    ValueError
        If a reference is not accurate or lies outside its own bracket: then nothing is written.
    """
    entries: dict[str, Any] = {}
    for case in cases_for(family, open_only=True):
        if step is not None:
            step(case)
        reference = bracketed(case)
        slack = case.accuracy * max(1.0, abs(reference.value))
        if not reference.accurate:
            raise ValueError(f"the reference of {case.name} has status {reference.status!r}: nothing was written")
        if not reference.lower_bound - slack <= reference.value <= reference.upper_bound + slack:
            raise ValueError(
                f"the reference of {case.name}, {reference.value:.10g}, lies outside its bracket "
                f"[{reference.lower_bound:.10g}, {reference.upper_bound:.10g}]: nothing was written"
            )
        entry = asdict(replace(reference, seconds=round(reference.seconds, 3), version=version(reference.solver)))
        entries[case.name] = {"fingerprint": fingerprint(case.build()), **entry}
    text = json.dumps(finite(entries), indent=2, allow_nan=False) + "\n"
    folders = [into] if into is not None else [PACKAGED, cache()]
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / f"{family}.json", text, "references")
        except OSError as error:
            reason = error
            continue
        return folder / f"{family}.json"
    raise ValueError(f"references cannot be written to {' or '.join(map(str, folders))}: {reason.strerror}")


def version(solver: str) -> str:
    """The installed version of CVXPY and of a solver it calls, e.g. "cvxpy 1.6.0, clarabel 0.9.0"."""
    found = []
    for name in ("cvxpy", solver.lower()):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(name)
    return ", ".join(found)


def _read(path: Path) -> dict[str, Any]:
    try:
        entries: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries


def stale(cases: Iterable[Case]) -> list[str]:
    """The names of those cases whose stored reference is missing or belongs to other data."""
    return [case.name for case in cases if stored(case, case.build()) is None]
