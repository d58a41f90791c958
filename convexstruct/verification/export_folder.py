"""``convexstruct export``: a folder of cases, and the page that explains them.

The page ``README.md`` has the mathematics, from the docstrings of the classes that the problems are made of and of
their files, the layout of the files (`convexstruct.verification.export`) and how to write an answer
(`convexstruct.verification.answers`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from convexstruct.core.cases import Case
from convexstruct.files import write_whole
from convexstruct.report import Page, Table
from convexstruct.validation.arguments import cut, sentence
from convexstruct.verification import answers
from convexstruct.verification import export as files
from convexstruct.verification.cases import select

Made = TypeVar("Made")


def write_cases(folder: Path, cases: Sequence[Case], seed: int = 0, text: bool = False) -> Iterator[Case]:
    """Write ``cases`` into ``folder``, and then the page that explains them; yields each case once it is written.
    OSError if a file cannot be written.

    text : whether the numbers are written as plain text instead of NPZ. Whoever stops in between has whole files, a
    header for every case whose numbers are all there, and no page.
    """
    kinds: dict[type, None] = {}
    for case in cases:
        kinds |= files.write_case(folder, case, seed, npz=not text, text=text).kinds
        yield case
    write_whole(folder / "README.md", page(cases, kinds, text))


def export(
    path: str, on: str | None, quick: bool, seed: int, text: bool, progress: Callable[[int, int, str], None]
) -> tuple[bool, dict[str, Any], Page]:
    """``convexstruct export``: (whether it ran to its end, the JSON object, the page to print). ValueError if there is
    no such case, or ``path`` is no folder. OSError if a file cannot be written."""
    cases, left_out = files.exportable(select(on, quick=quick, open_only=True))
    if not cases:
        raise sentence("; ".join(left_out))
    written, whole = run_out(write_cases(made(path), cases, seed, text), cases, progress)
    rows = [[case.name, case.family, case.purpose] for case in written]
    end = ", explained by README.md there" if whole else ": interrupted; what is here is whole, README.md is missing"
    lead = f"{len(rows)} of {len(cases)} cases in {path}{end}"
    shown = {"folder": path, "cases": [row[0] for row in rows], "left_out": left_out, "whole": whole}
    table, notes = Table("", ["case", "family", "purpose"], rows), [f"left out: {sentence}" for sentence in left_out]
    return whole, shown, Page("convexstruct export", lead, [table], notes)


def run_out(
    steps: Iterator[Made], cases: Sequence[Case], progress: Callable[[int, int, str], None]
) -> tuple[list[Made], bool]:
    """What ``steps`` yields, one after each of ``cases``, and whether it ran to its end before a KeyboardInterrupt.

    progress : called with (cases done, cases in all, name of the next).
    """
    found: list[Made] = []
    try:
        progress(0, len(cases), cases[0].name)
        for each in steps:
            found.append(each)
            progress(len(found), len(cases), cases[len(found)].name if len(found) < len(cases) else "")
    except KeyboardInterrupt:
        return found, False
    return found, True


def made(path: str) -> Path:
    """The folder of that name, made where it is not there yet. ValueError if something else has that name. OSError if
    it cannot be made."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise sentence(f"{cut(repr(path))} is a file or lies in one, wanted a folder to write to") from None
    return folder


# -- the page ----------------------------------------------------------------------------------------------------------


def page(cases: Sequence[Case], kinds: Mapping[type, None], text: bool) -> str:
    """The page of a folder: its files, how to write an answer, the cases, and the mathematics of every class."""
    rows = "\n".join(f"| `{case.name}` | {case.family} | {case.purpose} |" for case in cases)
    return (
        "\n\n".join(
            [
                "# Cases of convexstruct",
                "Every problem is a minimisation. Arrays are in C order (the last index runs fastest), positions and "
                f"labels count from 0. This folder holds the numbers {'as plain text' if text else 'as NPZ'}.",
                "## The files",
                explained(files),
                "## An answer",
                explained(answers),
                "## The cases",
                f"| case | family | what it would show |\n|---|---|---|\n{rows}",
                "## The mathematics",
                *_explained(kinds),
            ]
        )
        + "\n"
    )


def explained(file: ModuleType) -> str:
    """What the docstring of a file says after its first paragraph."""
    return inspect.cleandoc(file.__doc__ or "").partition("\n\n")[2]


def _explained(kinds: Mapping[type, None]) -> Iterator[str]:
    """The docstrings of the files and classes, problems first; every file's text once."""
    seen: set[str] = set()
    for kind in sorted(kinds, key=lambda kind: not hasattr(kind, "as_point")):
        module = sys.modules[kind.__module__]
        yield f"### {kind.__name__}"
        if module.__name__ not in seen:
            seen.add(module.__name__)
            yield f"```text\n{inspect.cleandoc(module.__doc__ or '')}\n```"
        yield f"```text\n{inspect.cleandoc(kind.__doc__ or '')}\n```"
        for method in ("as_point", "primal"):
            if said := inspect.getdoc(getattr(kind, method, None)):
                yield f"`{method}`:\n\n```text\n{said}\n```"
