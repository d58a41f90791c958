"""The results of verification: a `Row` for each case, an `Outcome` for the run; as strict JSON, text and HTML."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from convexstruct.core.trace import Trace

Verdict = Literal["verified", "failed", "unverified"]
#: The columns of a table of rows.
HEADS = ("case", "reference", "by", "lower bound", "primal", "gap", "seconds", "ratio", "verdict", "note")
#: The fields of a reference in the JSON of a row.
REFERENCE_KEYS = ("formulation", "solver", "status", "value", "seconds")
#: The note where neither a bracket nor a dual point gives a lower bound.
NO_CERTIFICATE = "no certificate exists for this problem: nothing is claimed about optimality"


@dataclass(frozen=True)
class Reference:
    """The optimum a formulation gives, and a bracket around it.

    formulation, solver : their names. status : of the solver; ignored where there is a bracket.
    value : its optimum. seconds : building, compiling and solving. lower_bound, upper_bound : proven bracket of the
    optimum, -inf and inf where there is none. version : of the solver, where the reference was stored.
    note : how it was obtained, unless it is from the case's own formulation by a solver that reports "optimal".
    trouble : why it is no reference, in one sentence; "" if it is one.
    """

    formulation: str
    solver: str
    status: str
    value: float
    seconds: float
    lower_bound: float = -math.inf
    upper_bound: float = math.inf
    version: str = ""
    note: str = ""
    trouble: str = ""

    @property
    def accurate(self) -> bool:
        return not self.trouble and math.isfinite(self.value)


@dataclass(frozen=True)
class Fast:
    """The result of the solver on trial: bounds and gap by `certify`, iterations as it reports, seconds as measured."""

    solver: str
    primal: float = math.inf
    lower_bound: float = -math.inf
    gap: float = math.inf
    iterations: int | None = None
    seconds: float = math.nan


@dataclass(frozen=True)
class Row:
    """One case: reference against fast path, and the verdict with its reason in one sentence."""

    family: str
    system: str
    case: str
    paper: str
    equations: str
    reference: Reference
    fast: Fast
    verdict: Verdict
    note: str
    profile: str | None = None
    trace: Trace | None = field(default=None, repr=False, compare=False)

    @property
    def ratio(self) -> float:
        """Seconds of the reference over seconds of the fast path; NaN unless both were measured in this run."""
        measured = self.reference.seconds > 0 and self.fast.seconds > 0 and not self.reference.version
        return self.reference.seconds / self.fast.seconds if measured else math.nan

    def cells(self) -> dict[str, str]:
        """The row as a table shows it, by heading."""
        return {
            "case": self.case,
            "reference": number(self.reference.value, 9),
            "by": f"{self.reference.formulation}, {self.reference.solver}",
            "lower bound": number(self.fast.lower_bound, 9),
            "primal": number(self.fast.primal, 9),
            "gap": number(self.fast.gap, 2),
            "seconds": number(self.fast.seconds, 2),
            "ratio": number(self.ratio, 2),
            "verdict": self.verdict,
            "note": self.note,
        }

    def as_json(self) -> dict[str, Any]:
        """The row as ``convexstruct verify --json`` prints it; what is not finite is null."""
        own = {name: getattr(self, name) for name in ("family", "system", "case", "paper", "equations")}
        parts = {
            "reference": {name: getattr(self.reference, name) for name in REFERENCE_KEYS},
            "fast": asdict(self.fast),
        }
        shown = {**own, **parts, "ratio": self.ratio, "verdict": self.verdict, "note": self.note}
        strict: dict[str, Any] = finite(shown)
        return strict


@dataclass(frozen=True)
class Outcome:
    """All rows of a run, and what was left out of it, each in one sentence.

    interrupted : whether the run was ended from outside; its rows are those decided until then.
    """

    rows: Sequence[Row]
    left_out: Sequence[str] = ()
    title: str = "convexstruct verify"
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether something ran to the end and every row is verified."""
        return bool(self.rows) and not self.interrupted and all(row.verdict == "verified" for row in self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "rows": [row.as_json() for row in self.rows], "left_out": list(self.left_out)}

    def count(self) -> str:
        """E.g. "12 verified, 1 failed"."""
        counted = {v: sum(row.verdict == v for row in self.rows) for v in ("verified", "failed", "unverified")}
        said = ", ".join(f"{n} {verdict}" for verdict, n in counted.items() if n) or "nothing ran"
        return f"interrupted: {said}" if self.interrupted else said

    def families(self) -> dict[str, Outcome]:
        """The rows of each family by themselves, in the order of the run."""
        names = dict.fromkeys(row.family for row in self.rows)
        return {name: Outcome([row for row in self.rows if row.family == name], (), name) for name in names}

    def summary(self) -> tuple[list[str], list[list[str]]]:
        """Headings and one row a family: its cases, their verdicts, the worst gap, the median ratio, seconds in all."""
        heads = ["family", "cases", "verdicts", "worst gap", "median ratio", "seconds"]
        rows = []
        for name, part in self.families().items():
            ratios = [row.ratio for row in part.rows if math.isfinite(row.ratio)]
            # A run without a gap counts as one of infinity, which is shown as "-".
            gaps = [row.fast.gap if math.isfinite(row.fast.gap) else math.inf for row in part.rows]
            cells = (number(max(gaps), 2), number(float(np.median(ratios or [math.nan])), 2))
            seconds = sum(row.fast.seconds for row in part.rows if math.isfinite(row.fast.seconds))
            rows.append([name, str(len(part)), part.count(), *cells, number(seconds, 2)])
        return heads, rows

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of the table, as text; the ratio only where both paths were timed in this run."""
        timed = any(math.isfinite(row.ratio) for row in self.rows)
        kept = [head for head in HEADS if timed or head != "ratio"]
        shown = [row.cells() for row in self.rows]
        return kept, [[cells[head] for head in kept] for cells in shown]

    def __repr__(self) -> str:
        heads, rows = self.cells()
        widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads) - 1)]
        lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths)), row[-1]]) for row in [heads, *rows]]
        return "\n".join([f"{self.title}: {self.count()}", *lines])

    def _repr_html_(self) -> str:
        heads, rows = self.cells()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
        cells = [[f"<td>{html.escape(cell)}</td>" for cell in row] for row in rows]
        for row in cells:  # the note is a sentence: notebooks set cells to the right, and the last one narrow
            row[-1] = row[-1].replace("<td>", '<td style="text-align: left; min-width: 14em">', 1)
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        title = html.escape(f"{self.title}: {self.count()}")
        return f"<p><b>{title}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def number(value: float, digits: int) -> str:
    """``value`` in so many digits; a dash if it is not finite."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "-"


def finite(value: Any) -> Any:
    """``value`` for strict JSON: mappings, lists, text and finite numbers; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return finite(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def strict_json(value: Any) -> str:
    """One JSON object without NaN or Infinity tokens."""
    return json.dumps(finite(value), allow_nan=False, ensure_ascii=False)
