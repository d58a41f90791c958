"""Rows of a verification as lines of text, each written as soon as its row is decided.

The widths of the columns are fixed before the first row: the names are known by then, and numbers have a fixed number
of digits.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from convexstruct.core.cases import Case
from convexstruct.verification.outcome import HEADS, Row

#: Characters of the columns whose text is not known beforehand; a longer cell moves the cells after it to the right.
WIDTHS = {
    "reference": 12, "lower bound": 12, "primal": 12, "gap": 7, "seconds": 7, "ratio": 7, "verdict": 10,
}  # fmt: skip
#: Columns of text, aligned to the left.
TEXT = ("case", "by", "verdict", "note")
#: Characters that the column of notes gets at least; on a terminal without room for it, notes are lines of their own.
NOTE_WIDTH = 30
#: Columns that are left out, in this order, on a narrow terminal; notes on what is not verified are kept.
OPTIONAL = ("note", "by", "seconds", "reference", "ratio")


class Lines:
    """The lines of a run over ``cases``, within ``width`` characters; ``timed`` : whether both paths are timed."""

    def __init__(self, cases: Sequence[Case], width: int, timed: bool) -> None:
        self.width = width
        self._several = len({case.family for case in cases}) > 1
        self._family = ""
        names = {
            "case": max((len(case.name) for case in cases), default=0),
            "by": max((len(f"{case.formulation}, {case.formulation_solver}") for case in cases), default=0),
        }
        self._columns = {
            head: max(len(head), names.get(head, 0), WIDTHS.get(head, 0)) for head in HEADS if timed or head != "ratio"
        }
        for head in OPTIONAL:
            if self._used + (NOTE_WIDTH if "note" in self._columns else -2) > width:
                self._columns.pop(head, None)

    @property
    def _used(self) -> int:
        """Characters of a line before its note."""
        return sum(size + 2 for head, size in self._columns.items() if head != "note")

    def of(self, row: Row) -> Iterator[str]:
        """The lines of one row, after the headings where its family is new."""
        if row.family != self._family:
            if self._several:
                yield from ("", row.family) if self._family else (row.family,)
            self._family = row.family
            yield self._line({head: head for head in self._columns})
        cells = row.cells()
        if "note" in self._columns:
            first, *rest = textwrap.wrap(cells["note"], max(self.width - self._used, NOTE_WIDTH)) or [""]
            yield self._line({**cells, "note": first})
            yield from (" " * self._used + line for line in rest)
            return
        yield self._line(cells)
        if row.verdict != "verified" or row.reference.note:
            yield from textwrap.wrap(cells["note"], self.width, initial_indent="    ", subsequent_indent="    ")

    def _line(self, cells: dict[str, str]) -> str:
        parts = [
            cells[head].ljust(size) if head in TEXT else cells[head].rjust(size) for head, size in self._columns.items()
        ]
        return "  ".join(parts).rstrip()
