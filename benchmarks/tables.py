"""Tables that several workloads print: seconds to certified gaps, and how they grow with one size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.measure import GAPS, Run, cell

if TYPE_CHECKING:
    from rich.table import Table

#: Columns that hold words; the others hold numbers.
WORDS = ("workload", "solver", "goal", "what grows")


def shown(run: Run, gap: float, fast: Run | None = None) -> str:
    """Seconds to ``gap``, and their ratio to those of the fast path; "> s" if a run of s seconds did not reach it."""
    seconds = run.to(gap)
    if math.isfinite(seconds):
        ratio = seconds / fast.to(gap) if fast is not None else 0.0
        return f"{seconds:.2f}" + (f" ({ratio:.{0 if ratio >= 9.5 else 1}f}x)" if ratio else "")
    if run.trouble:
        return "?"
    return "" if run.gap <= run.workload.tol else f"> {run.seconds:.3g}"


def new_table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in WORDS else "right", no_wrap=True)
    return table


def gap_table(title: str, *more: str) -> Table:
    """A table of `gap_rows`."""
    head = ("workload", "solver", *(f"{gap:.0e}" for gap in GAPS), *more, "final gap", "peak MiB", "before")
    return new_table(title, *head)


def gap_rows(table: Table, runs: Sequence[Run], *more: str) -> None:
    """A row for each of the runs of a workload: seconds to each gap, of all but the first as multiples of its seconds
    too; ``more`` : what the first row says in further columns, an empty cell in the others."""
    for run in runs:
        first = run is runs[0]
        cells = [run.trouble or shown(run, gap, None if first else runs[0]) for gap in GAPS]
        tail = [cell(run.gap, ".1e"), cell(run.peak, ".0f"), cell(run.before, ".0f")]
        said = more if first else [""] * len(more)
        table.add_row(run.workload.name if first else "", run.solver, *cells, *said, *tail)
    table.add_section()


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """p of seconds = a size^p, by least squares in logarithms over the finite entries; NaN with fewer than two."""
    kept = [(size, value) for size, value in zip(sizes, seconds) if math.isfinite(value)]
    if len(kept) < 2:
        return math.nan
    x, y = [math.log(size) for size, _ in kept], [math.log(value) for _, value in kept]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle_x) * (a - middle_x) for a in x)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y)) / spread


def growth_rows(table: Table, what: str, sizes: Sequence[float], runs: Sequence[Run], gaps: Sequence[float]) -> None:
    """A row for each size of ``what``: seconds to each gap, peak memory; then the fitted powers."""
    for size, run in zip(sizes, runs):
        table.add_row(what, f"{size:g}", *(shown(run, gap) for gap in gaps), cell(run.peak, ".0f"))
    powers = [cell(slope(sizes, [run.to(gap) for run in runs]), ".2f") for gap in gaps]
    table.add_row("  fitted power", "", *powers, "")
    table.add_section()
