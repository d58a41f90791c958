"""Answers to cone programs, judged: ``convexstruct verify --answers FOLDER`` where the folder holds cone programs.

What an answer is, and what of it is judged, is said by `convexstruct.verification.export_cones`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.cases import Case
from convexstruct.core.certificates import certify, relative_gap
from convexstruct.tolerances import REFERENCE_ACCURACY, Profile, met, upside_down
from convexstruct.validation.arguments import cut, seed, sentence, whole
from convexstruct.verification.answers import Refused, array, content, find
from convexstruct.verification.cases import select
from convexstruct.verification.cone_program import ConeProgram, compiled
from convexstruct.verification.export_cones import FORMAT, TABLE, Stated, scales, state
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.outcome import NO_CERTIFICATE, Fast, Reference, Row, Verdict

#: What may be in an answer, and how many axes it has.
PARTS = {"x": 1, "y": 1, "value": 0}


@dataclass(frozen=True)
class Written:
    """A program whose header lies in a folder. name : CASE.FORMULATION. head : the header."""

    name: str
    folder: Path
    head: dict[str, Any]


def holds_programs(folder: Path) -> bool:
    """Whether cone programs were exported to ``folder``."""
    return (folder / TABLE).is_file()


def written(folder: Path, on: str | None, quick: bool) -> list[Written]:
    """The programs in ``folder`` that belong to the cases ``on``, in the order of the cases. ValueError if ``on`` is no
    family and no case, or none of the cases has a program here."""
    names = {case.name: place for place, case in enumerate(select(on, quick=quick, open_only=True))}
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            head = json.loads(path.read_text(encoding="utf-8"))
            if head["format"] == FORMAT and head["case"] in names and head.keys() >= {"seed", "scale", "fingerprint"}:
                found.append(Written(path.stem, folder, head))
        except (OSError, ValueError, LookupError, TypeError):
            continue  # an answer, or something else
    if not found:
        wanted = "of the cases" if on is None else f"of {on}"
        raise sentence(f"{cut(repr(str(folder)))} holds no cone program {wanted}, wanted some to judge")
    return sorted(found, key=lambda program: names[program.head["case"]])


def read(folder: Path, name: str, n: int, m: int) -> dict[str, Any]:
    """The answer to a program of n variables and m rows: "x", perhaps "y", or "value" alone. Raises `Refused` if
    there is none, or it cannot be read."""
    path = find(folder, name)
    found = content(path)
    try:
        if isinstance(found, np.ndarray):
            found = {"value": found[0]} if len(found) == 1 != n else {"x": found}
        parts = {key: array(key, found[key]) for key in PARTS if found.get(key) is not None}
        if not parts.keys() & {"x", "value"}:
            raise ValueError("holds neither x nor a value")
        for key, wanted in (("x", (n,)), ("y", (m,)), ("value", ())):
            if key in parts and parts[key].shape != wanted:
                raise ValueError(f"has {key} of shape {parts[key].shape}, wanted {wanted}")
            if key in parts and not np.isfinite(parts[key]).all():
                raise ValueError(f"has {key} with entries that are not finite")
        return parts
    except ValueError as error:
        raise Refused(f"wrote {path.name}, which {error}") from None


def judged(program: Written, wanted: Profile, name: str) -> Row:
    """The verdict on the answer to ``program``. name : of the one who answered."""
    head = program.head
    (case,) = select(head["case"], open_only=True)
    reference = Reference(program.name, "bracket", "stored", math.nan, math.nan)
    try:
        stated = _stated(case, program)
        if stated.name != program.name or fingerprint(stated.instance.problem) != head["fingerprint"]:
            raise Refused("answers other data: the program was exported by another version, export it again")
        lower, upper = stated.bracket()
        reference = replace(
            reference, value=(lower + upper) / 2, lower_bound=lower, upper_bound=upper, version="stored"
        )
        compact = compiled(stated.formulation)
        answer = read(program.folder, program.name, len(compact.c), len(compact.b))
        # Cone solvers stop at about 1e-8, also in absolute terms: so far from the bracket may a value be.
        least = REFERENCE_ACCURACY / wanted.gap * float(stated.instance.problem.trivial_value)
        fast, verdict, note = _verdict(compact, answer, (lower, upper), least, wanted, name)
    except Refused as error:
        fast, verdict, note = Fast(name), "failed", str(error)
    reaches = met(fast.gap) if verdict == "verified" else None
    return Row(
        case.family, case.system, program.name, case.paper, case.equations, reference, fast, verdict, note, reaches
    )


def _stated(case: Case, program: Written) -> Stated:
    """What the header says was exported; `Refused` if nothing can have been."""
    try:
        scale = whole("scale", program.head["scale"], least=1)
        if scale > 1 and not scales(case):
            raise ValueError(f"{case.name} cannot be made larger")
        return state(case, seed("seed", program.head["seed"]), scale)
    except ValueError as error:
        raise Refused(f"answers {program.name}.json, which is no header of a program: {error}") from None


def _verdict(
    program: ConeProgram, answer: dict[str, Any], bracket: tuple[float, float], least: float, wanted: Profile, name: str
) -> tuple[Fast, Verdict, str]:
    lower = bracket[0]
    if "x" not in answer:
        value = float(answer["value"])
        beyond = _beyond(value, bracket, least)
        fast = Fast(name, value, lower, beyond)
        return fast, *_compared("the value alone was given: it", beyond, bracket, wanted)
    x = answer["x"]
    value = program.value(x)
    if "value" in answer and abs(float(answer["value"]) - value) > wanted.gap * max(abs(value), least):
        return Fast(name, value, lower), "failed", f"claims the value {answer['value']:.9g}, its x has {value:.9g}"
    kind, violation = program.violation(x)
    if violation > wanted.feasibility:
        return Fast(name, value, lower), "failed", f"x is infeasible: outside a {kind} cone by {violation:.2g}"
    feasible = "x is feasible" if violation == 0 else f"x is feasible to {violation:.1g}"
    beyond = _beyond(value, bracket, least)
    primal, gap = _certified(program, x, answer.get("y"), lower, wanted)
    if beyond <= wanted.gap and wanted.met_by(gap):
        return Fast(name, primal, lower, gap), "verified", f"{feasible}, its point is optimal to {gap:.1e}, certified"
    start = f"{feasible}, no optimal point is read from it{'' if 'y' in answer else ' without y'}; its value"
    start = f"{feasible}; its value" if beyond > wanted.gap else start
    return Fast(name, value, lower, beyond), *_compared(start, beyond, bracket, wanted)


def _certified(program: ConeProgram, x: Vector, y: Vector | None, lower: float, wanted: Profile) -> tuple[float, float]:
    """(upper bound, relative gap) of the point that the formulation reads from x and y; inf where there is none.

    The lower bound is the better of the bracket's and the one that the multipliers prove.
    """
    found = program.recovered(x, y)
    if found is None:
        return math.inf, math.inf
    try:
        certificate = certify(found.problem, found.point, found.dual_point, wanted.floor)
    except ValueError:
        return math.inf, math.inf
    if certificate.infeasibility > wanted.feasibility:
        return math.inf, math.inf
    gap = relative_gap(certificate.primal, max(lower, certificate.lower_bound), certificate.least)
    return certificate.primal, math.inf if upside_down(gap) else max(gap, 0.0)


def _beyond(value: float, bracket: Sequence[float], least: float) -> float:
    """How far ``value`` lies outside the bracket, relative to it or to ``least``; 0 inside."""
    lower, upper = bracket
    return max(lower - value, value - upper, 0.0) / max(abs(value), least)


def _compared(start: str, beyond: float, bracket: Sequence[float], wanted: Profile) -> tuple[Verdict, str]:
    if not all(map(math.isfinite, bracket)):
        return "unverified", NO_CERTIFICATE
    shown = f"the certified bracket [{bracket[0]:.10g}, {bracket[1]:.10g}]"
    if beyond == 0:
        return "verified", f"{start} lies in {shown}, and no more is certified"
    if beyond <= wanted.gap:
        return "verified", f"{start} lies in {shown} to {beyond:.1e} (relative), and no more is certified"
    return "failed", f"{start} misses {shown} by {beyond:.1e} (relative), wanted {wanted.gap:.0e}"
