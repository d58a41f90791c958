"""Cone programs with proved optima, as files: ``convexstruct export --conic``.

Every case is written as the cone program of its formulation; where that is built by constraint generation, as that of
another formulation with the same optimum. ``PROGRAM`` is CASE.FORMULATION. Its files are

    PROGRAM.cbf      the Conic Benchmark Format
    PROGRAM.npz      the arrays "A.data", "A.indices", "A.indptr" (CSR), "b", "c", "offset", and of the cones "zero",
                     "nonnegative", "second_order", "semidefinite" (lists of sizes) and "exponential"
    PROGRAM.json     a header: "sense" ("MIN" or "MAX"), "optimum" (the certified bracket of the formulation's value),
                     "variables", "rows", "nonzeros", "cones", and which case, seed and data it is of

An answer to PROGRAM is one file, ``PROGRAM.answer``, or that name with ``.npz``, ``.json``, ``.csv`` or ``.txt`` after
it. It holds x, and perhaps y: as arrays "x" and "y" in NPZ, as {"x": [..], "y": [..]} in JSON, or x alone as plain
numbers. Or it holds the value alone: {"value": number}, or one plain number. ``convexstruct verify --answers FOLDER``
then judges

    x           whether b - A x lies in the cones, and the point of the problem that the formulation reads from x (and
                from y, where it is needed: many duals have their point in the multipliers), by the certificate of the
                problem. Where no point can be read, the value at x must lie in the bracket, which is said
    a value     against the bracket only, which is said
"""

from __future__ import annotations

import csv
import inspect
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convexstruct.core.cases import Case, Instance
from convexstruct.core.driver import solve
from convexstruct.files import write_whole
from convexstruct.report import Page, Table
from convexstruct.tolerances import HIGH
from convexstruct.validation.arguments import refuse
from convexstruct.verification import cone_program
from convexstruct.verification.cases import select
from convexstruct.verification.cone_program import ConeProgram, benchmark_format, compiled
from convexstruct.verification.export import lines, packed
from convexstruct.verification.export_folder import explained, made, run_out
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.references import compute, formulate, others, stored

FORMAT = "convexstruct cone program 1"
#: The table of a folder, by which `verify` sees what it holds.
TABLE = "programs.csv"
#: Entries of A that a program may have: more would make files of more than about 50 MB.
MOST_NONZEROS = 1_000_000
HEADS = ["program", "sense", "lower bound", "upper bound", "variables", "rows", "nonzeros", "cones"]


@dataclass(frozen=True, eq=False)
class Stated:
    """A case and the formulation whose cone program stands for it. name : CASE.FORMULATION. scale : of the case."""

    name: str
    case: Case
    seed: int
    instance: Instance
    formulation: Any
    scale: int = 1

    def bracket(self) -> tuple[float, float]:
        """The certified bracket of the formulation's optimum: the stored one, else computed now; of a larger instance
        by the fast path."""
        problem = self.instance.problem
        if self.scale > 1:
            solution = solve(problem, self.case.solver, HIGH)
            return self._in_its_unit(solution.lower_bound, solution.primal)
        found = stored(self.case, problem) or compute(self.case, self.seed)
        return self._in_its_unit(found.lower_bound, found.upper_bound)

    def _in_its_unit(self, lower: float, upper: float) -> tuple[float, float]:
        unit = 1.0 if self.case.unit is None else float(self.case.unit(self.instance.problem))
        return lower / unit, upper / unit


def scales(case: Case) -> bool:
    """Whether larger instances of the case can be made."""
    return "scale" in inspect.signature(case.make).parameters


def state(case: Case, seed: int, scale: int = 1) -> Stated:
    """The case's formulation, or another of the same optimum where that one is no single program. ValueError if there
    is none.

    scale : of the instance. Its name is CASE-xSCALE.FORMULATION where that is above 1.
    """
    from convexstruct.models import Formulation

    make: Any = case.make
    instance, times = (make(seed, scale=scale), f"-x{scale}") if scale > 1 else (make(seed), "")
    for name in (case.formulation, *others(case)):
        try:
            formulation = formulate(case, instance, name)
        except ValueError:
            continue  # too large to be written out, or of a kind that it does not state
        if isinstance(formulation, Formulation):
            return Stated(f"{case.name}{times}.{name}", case, seed, instance, formulation, scale)
    raise ValueError(f"{case.name}: no formulation states it as one cone program")


def header(stated: Stated, program: ConeProgram) -> dict[str, Any]:
    lower, upper = stated.bracket()
    sizes: dict[str, list[int]] = {}
    for kind, rows, n in program.cones.blocks:
        sizes.setdefault(kind, []).append(n or rows)
    return {
        "format": FORMAT,
        "program": stated.name,
        "case": stated.case.name,
        "family": stated.case.family,
        "formulation": stated.formulation.name,
        "source": stated.formulation.source,
        "seed": stated.seed,
        "scale": stated.scale,
        "fingerprint": fingerprint(stated.instance.problem),
        "sense": "MAX" if program.maximise else "MIN",
        "optimum": {"lower_bound": lower, "upper_bound": upper},
        "variables": len(program.c),
        "rows": len(program.b),
        "nonzeros": int(program.A.nnz),
        "cones": sizes,
    }


def write_program(folder: Path, stated: Stated) -> dict[str, Any]:
    """Write one program, its header last, each file whole or not at all; returns the header. ValueError if it is too
    large, or has a cone that is not exported. OSError if a file cannot be written."""
    program = compiled(stated.formulation)
    if program.A.nnz > MOST_NONZEROS:
        raise ValueError(f"{stated.name}: {program.A.nnz} nonzeros, more than {MOST_NONZEROS}")
    head, cones = header(stated, program), program.cones
    bracket = f"{head['optimum']['lower_bound']!r} <= optimum <= {head['optimum']['upper_bound']!r}, certified"
    sizes = {
        "zero": cones.zero, "nonnegative": cones.nonnegative, "second_order": np.array(cones.second_order, np.int64),
        "semidefinite": np.array(cones.semidefinite, np.int64), "exponential": cones.exponential,
    }  # fmt: skip
    arrays = {"A": program.A, "b": program.b, "c": program.c, "offset": np.array(program.offset)}
    write_whole(folder / f"{stated.name}.npz", packed(arrays | {k: np.asarray(v) for k, v in sizes.items()}))
    comments = [
        f"convexstruct {stated.formulation.name} of {stated.case.name}, seed {stated.seed}",
        bracket,
    ]
    write_whole(folder / f"{stated.name}.cbf", benchmark_format(program, comments))
    write_whole(folder / f"{stated.name}.json", lines(head))
    return head


def row(head: dict[str, Any]) -> list[str]:
    """The line of a program in the table."""
    cones = ", ".join(
        f"{sum(sizes) if kind in ('zero', 'nonnegative') else _counted(sizes)} {kind}"
        for kind, sizes in head["cones"].items()
    )
    bounds = [repr(head["optimum"][side]) for side in ("lower_bound", "upper_bound")]
    counts = [str(head[key]) for key in ("variables", "rows", "nonzeros")]
    return [head["program"], head["sense"], *bounds, *counts, cones]


def _counted(sizes: Sequence[int]) -> str:
    """ "3 x 11, 5" for sizes 11, 11, 11, 5; exponential cones, all of three rows, by their number."""
    counts = {size: list(sizes).count(size) for size in dict.fromkeys(sizes)}
    return " and ".join(f"{count} x {size}" if count > 1 else str(size) for size, count in counts.items())


def write_programs(
    folder: Path, cases: Sequence[Case], seed: int, left_out: list[str], scale: int = 1
) -> Iterator[dict[str, Any] | None]:
    """Write the cone programs of ``cases`` into ``folder``, then the table and the page. OSError if a file cannot be
    written.

    Yields the header of each case's program once that is written; None where it has no program, or one that is too
    large: a sentence in ``left_out`` says which. Stopped in between, it leaves whole programs and no table.
    """
    heads = []
    for case in cases:
        try:
            head = write_program(folder, state(case, seed, scale))
        except ValueError as error:
            left_out.append(str(error))
            yield None
            continue
        heads.append(head)
        yield head
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADS, *map(row, heads)])
    write_whole(folder / "README.md", page(heads, left_out))
    write_whole(folder / TABLE, text.getvalue())


def page(heads: Sequence[dict[str, Any]], left_out: Sequence[str]) -> str:
    """The page of a folder: the form, the files, how to answer, and the table."""
    rows = "\n".join(f"| {' | '.join(row(head))} |" for head in heads)
    table = f"| {' | '.join(HEADS)} |\n{'|---' * len(HEADS)}|\n{rows}"
    missing = "\n".join(f"- {sentence}" for sentence in left_out)
    parts = [
        "# Cone programs of convexstruct",
        "Structured prediction as conic optimisation, each program with a proved bracket of its optimum.",
        "## The form", explained(cone_program), "## The files and an answer", explained(sys.modules[__name__]),
        "## The programs", table,
    ]  # fmt: skip
    return "\n\n".join([*parts, *(["Left out:", missing] if missing else [])]) + "\n"


def export(
    path: str, on: str | None, quick: bool, seed: int, scale: int, progress: Callable[[int, int, str], None]
) -> tuple[bool, dict[str, Any], Page]:
    """``convexstruct export --conic``: (whether it ran to its end, the JSON object, the page to print). ValueError if
    there is no such case, none of them can be made ``scale`` times as large, or ``path`` is no folder. OSError if a
    file cannot be written."""
    cases = [case for case in select(on, quick=quick, open_only=True) if scale == 1 or scales(case)]
    if not cases:
        refuse("scale", scale, f"1: no larger instances of {on} can be made")
    left_out: list[str] = []
    done, whole = run_out(write_programs(made(path), cases, seed, left_out, scale), cases, progress)
    heads = [head for head in done if head is not None]
    end = ", explained by README.md there" if whole else f": interrupted; what is here is whole, {TABLE} is missing"
    notes = [f"left out: {sentence}" for sentence in left_out]
    shown = {"folder": path, "programs": heads, "left_out": left_out, "whole": whole}
    table = Table("", HEADS, [row(head) for head in heads])
    return whole, shown, Page("convexstruct export --conic", f"{len(heads)} programs in {path}{end}", [table], notes)
