"""Reference optima, computed from the formulations of ``convexstruct.models`` or read from stored files.

Stored references serve anyone's own solver: value, certified bracket, solver and version, and the fingerprint of the
problem's data, so that a changed generator is noticed. One file a family, ``families/<family>/optima.json``. `refresh`
writes it whole or not at all, into the package, or into the user's cache where the package cannot be written. The cache
serves only data of which the package has no optimum.

Foreign code may write wherever the user may. So the files are read into memory once, before any of it starts
(`untouched`), and what it left in them is put aside when it has ended.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cache as cache_in_memory
from pathlib import Path
from typing import Any

from convexstruct.core import registry
from convexstruct.core.cases import Case, Instance
from convexstruct.core.certificates import Problem, least_unit, magnitude, relative_gap
from convexstruct.files import user_cache, write_whole
from convexstruct.tolerances import HIGH, ROUNDING
from convexstruct.validation.arguments import among, sentence
from convexstruct.verification.cases import cases_for
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.outcome import Reference, finite

#: The solver that is tried after another one has failed.
OTHER_SOLVER = {"CLARABEL": "SCS", "SCS": "CLARABEL"}


def compute(case: Case, seed: int = 0) -> Reference:
    """The reference optimum of ``case`` with a proven bracket, by the first of these that gives one:

    1. the case's formulation, by its solver;
    2. another formulation of the same optimum, by the same solver (`others`);
    3. the case's formulation, by another solver;
    4. the stored optimum of exactly this data.

    An answer is judged by its own certificate, and by the optimum where that is known by construction, never by the
    solver's status. A value that misses its bracket by no more than the case's accuracy is moved into it. ``note`` says
    which of the four gave the reference and why those before it failed; if all fail, ``trouble`` says why. ``seconds``
    is the time of building, compiling and solving it, without failed attempts.
    """
    instance = case.make(seed)
    failed: list[Reference] = []
    for found in _answers(case, instance):
        if found.accurate:
            proved = min(max(found.value, found.lower_bound), found.upper_bound)
            return replace(found, value=proved, note=_how(found, failed))
        failed.append(found)
    kept = stored(case, instance.problem)
    if kept is not None and _within(kept, instance.problem, case.accuracy):
        return replace(kept, note=_how(kept, failed))
    why = "no optimum of this data is stored" if kept is None else "the stored optimum lies outside its bracket"
    return replace(failed[0], trouble="; ".join([*(each.trouble for each in failed), why]))


def others(case: Case) -> list[str]:
    """The formulations with the same optimum as the case's own, in the order in which they are tried: the case's
    ``second`` alone if it has one, else those after its own in the family's list, then those before it."""
    if case.second:
        return [case.second]
    known = [entry for entry in _formulations().values() if entry.family == case.family]
    own = next((at for at, entry in enumerate(known) if entry.name == case.formulation), None)
    if own is None:
        return []
    return [entry.name for entry in (*known[own + 1 :], *known[:own]) if entry.optimum == known[own].optimum]


def formulate(case: Case, instance: Instance, name: str = "") -> Any:
    """The case's formulation of ``instance``, or the one called ``name``; ValueError if there is none of that name."""
    known = _formulations()
    full = f"{case.family}.{name or case.formulation}"
    if full not in known:
        raise ValueError(f"formulation {full!r} is unknown, wanted {among(full, known)}")
    arguments = {} if case.arguments is None else case.arguments(instance)
    return known[full].builder(instance.problem, **arguments)


def _formulations() -> Mapping[str, Any]:
    # CVXPY takes a second to import, and a run against stored references does without.
    known: Mapping[str, Any] = importlib.import_module("convexstruct.models").FORMULATIONS
    return known


def _answers(case: Case, instance: Instance) -> Iterator[Reference]:
    """The answers of the formulations, in the order of `compute`; each is computed only when the caller asks for it."""
    yield _answer(case, instance, case.formulation, case.formulation_solver)
    for name in others(case):
        try:
            formulate(case, instance, name)
        except ValueError:
            continue  # too large to be written out, or of a kind that it does not state
        yield _answer(case, instance, name, case.formulation_solver)
        break
    yield _answer(case, instance, case.formulation, OTHER_SOLVER.get(case.formulation_solver, "CLARABEL"))


def _answer(case: Case, instance: Instance, name: str, solver: str) -> Reference:
    """The answer of one formulation by one solver, judged."""
    begin = time.perf_counter()
    try:
        formulation = formulate(case, instance, name)
        built = time.perf_counter() - begin
        said = formulation.reference(solver)
    except Exception as error:
        trouble = f"{name} by {solver} raises {type(error).__name__}: {error}"
        return Reference(name, solver, "not solved", math.nan, math.nan, trouble=trouble)
    unit = 1.0 if case.unit is None else float(case.unit(instance.problem))
    found = Reference(
        name, said.solver, said.status, unit * said.best, built + said.seconds, unit * said.lower_bound,
        unit * said.upper_bound, trouble=said.trouble(case.accuracy),
    )  # fmt: skip
    if found.accurate and not said.certified and case.certified:
        found = _closed(case, instance.problem, found)
    return found if instance.optimum is None else _known(found, instance, case.accuracy)


def _closed(case: Case, problem: Problem, found: Reference) -> Reference:
    """``found``, the answer of a formulation without a dual witness, with the fast path's lower bound."""
    from convexstruct.core.driver import solve

    found = replace(found, lower_bound=solve(problem, case.solver, HIGH).lower_bound)
    gap = relative_gap(found.upper_bound, found.lower_bound, least_unit(problem))
    if abs(gap) > case.accuracy or not _within(found, problem, case.accuracy):
        bracket = f"[{found.lower_bound:.10g}, {found.upper_bound:.10g}]"
        return replace(found, trouble=f"{found.formulation} by {found.solver} at {found.value:.10g} has {bracket}")
    return found


def _known(found: Reference, instance: Instance, accuracy: float) -> Reference:
    """``found`` with the optimum that is known by construction as its bracket, and with trouble if it misses it.

    The bracket is as wide as the gap's divisor makes `ROUNDING`: an optimum of 0 has one that certifies 0.
    """
    optimum = instance.optimum
    assert optimum is not None
    rounding = ROUNDING * magnitude(instance.problem, optimum)
    exact = replace(found, lower_bound=optimum - rounding, upper_bound=optimum + rounding)
    missed = found.accurate and not _within(exact, instance.problem, accuracy)
    trouble = f"{found.formulation} by {found.solver} misses the optimum known by construction, {optimum:.9g}"
    return replace(exact, trouble=trouble) if missed else exact


def _within(reference: Reference, problem: Problem, accuracy: float) -> bool:
    """Whether the value lies in its bracket, up to accuracy * |value|, or up to `least_unit` for an optimum about 0."""
    slack = max(accuracy * abs(reference.value), least_unit(problem))
    return reference.lower_bound - slack <= reference.value <= reference.upper_bound + slack


def _how(found: Reference, failed: Sequence[Reference]) -> str:
    """Where the reference comes from and why; "" if from the case's own formulation with the status "optimal"."""
    if failed:
        who = f"the stored optimum ({found.formulation}, {found.version})" if found.version else ""
        return f"by {who or f'{found.formulation}, {found.solver}'}, as {'; '.join(each.trouble for each in failed)}"
    if found.status == "optimal":
        return ""
    return f"{found.formulation} by {found.solver} says {found.status}, but its answer certifies the optimum"


def packaged(family: str) -> Path:
    """The file of stored optima in the family's folder."""
    return registry.families()[family].folder / "optima.json"


def cache() -> Path:
    """Where references go if the package cannot be written: ``CONVEXSTRUCT_CACHE``, else the user's cache."""
    named = os.environ.get("CONVEXSTRUCT_CACHE")
    return (Path(named) if named else user_cache()) / "references"


def stored(case: Case, problem: Problem) -> Reference | None:
    """The stored reference of ``case``, or None if there is none for exactly this data; the package comes first.
    ValueError, one sentence, if a file of references is damaged."""
    wanted = fingerprint(problem)
    for file in _files(case.family):
        known = _read(file).get(case.name)
        if known is not None and known[0] == wanted:
            return known[1]
    return None


@contextmanager
def untouched(families: Iterable[str]) -> Iterator[list[str]]:
    """Inside, foreign code runs: the references of ``families`` are in memory before it, and a file of any family that
    differs after it is put back. The list gets a sentence for each. ValueError if one of ``families`` is damaged
    before."""
    for family in families:
        for file in _files(family):
            _read(file)
    before = {file: _content(file) for family in registry.families() for file in _files(family)}
    said: list[str] = []
    try:
        yield said
    finally:
        for file, content in before.items():
            if _content(file) != content:
                aside = file.with_name(file.name + ".changed")
                with suppress(OSError):
                    if os.path.lexists(file):
                        file.replace(aside)
                    if content is not None:
                        write_whole(file, content)
                said.append(f"{file} was changed while the solver ran, and put back; what was there is in {aside.name}")


def refresh(family: str, step: Callable[[Case], None] | None = None, into: Path | None = None) -> Path:
    """Recompute and store the references of a family; returns the file written. ValueError if a case has no reference
    but the stored one: then nothing is written."""
    entries: dict[str, Any] = {}
    for case in cases_for(family):
        if step is not None:
            step(case)
        reference = compute(case)
        if reference.version or not reference.accurate:
            raise ValueError(
                f"{case.name} has no reference: {reference.note or reference.trouble}; nothing was written"
            )
        entry = asdict(replace(reference, seconds=round(reference.seconds, 3), version=version(reference.solver)))
        del entry["trouble"]
        entries[case.name] = {"fingerprint": fingerprint(case.build()), **entry}
    text = json.dumps(finite(entries), indent=2, allow_nan=False) + "\n"
    name = f"{family}.json"
    files = [into / name] if into is not None else [packaged(family), cache() / name]
    for file in files:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, text, "references")
        except OSError as error:
            reason = error
            continue
        _read.cache_clear()
        return file
    raise ValueError(f"references cannot be written to {' or '.join(map(str, files))}: {reason.strerror}")


def version(solver: str) -> str:
    """The installed version of CVXPY and of a solver it calls, e.g. "cvxpy 1.6.0, clarabel 0.9.0"."""
    found = []
    for name in ("cvxpy", solver.lower()):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(name)
    return ", ".join(found)


def _files(family: str) -> tuple[Path, Path]:
    return packaged(family), cache() / f"{family}.json"


def _content(file: Path) -> bytes | None:
    """What is in a file; None if there is none, b"" if what is there cannot be read, a folder or a pipe say."""
    with suppress(OSError):
        return file.read_bytes() if file.is_file() else b"" if os.path.lexists(file) else None
    return b""


@cache_in_memory
def _read(path: Path) -> Mapping[str, tuple[str, Reference]]:
    """The fingerprint and the reference of each case in a file, none if there is no file."""
    try:
        entries: Any = json.loads(path.read_text(encoding="utf-8"))
        return {name: _entry(**entry) for name, entry in entries.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, TypeError, AttributeError):
        raise sentence(f"{path} is no file of references, wanted one that --refresh wrote: remove it") from None


def _entry(fingerprint: str, **given: Any) -> tuple[str, Reference]:
    """An entry of a file; TypeError or ValueError if it is none. A bound that is missing is infinite."""
    unknown = {"value": math.nan, "seconds": math.nan, "lower_bound": -math.inf, "upper_bound": math.inf}
    numbers = {key: default if given[key] is None else given[key] for key, default in unknown.items() if key in given}
    texts = [fingerprint, *(value for key, value in given.items() if key not in unknown)]
    if not all(isinstance(text, str) for text in texts) or {*map(type, numbers.values())} - {int, float}:
        raise TypeError
    return fingerprint, Reference(**(given | numbers))
