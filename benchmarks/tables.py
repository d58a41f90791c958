"""Tables that several workloads print: seconds to certified gaps, and how they grow with one size; a drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import GAPS, Run, cell, finite

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


def gap_rows(table: Table, runs: Sequence[Run], *more: str, ratios: bool = True) -> None:
    """A row for each of the runs of a workload: seconds to each gap, of all but the first as multiples of its seconds
    too; ``more`` : what the first row says in further columns, an empty cell in the others."""
    for run in runs:
        first = run is runs[0]
        cells = [run.trouble or shown(run, gap, None if first or not ratios else runs[0]) for gap in GAPS]
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


def draw_growth(found: Mapping[str, Sequence[Run]], gaps: tuple[float, float], title: str, path: Path) -> None:
    """A panel for each size that grows, log-log: seconds to two gaps, with the fitted powers; a cross where a run was
    stopped before the smaller gap."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    figure = Figure(figsize=(3.3 * len(found), 3.6), layout="constrained")
    for axes, (what, runs) in zip(figure.subplots(1, len(found), sharey=True, squeeze=False)[0], found.items()):
        sizes = [getattr(run.workload, what) for run in runs]
        axes.set(xscale="log", yscale="log", xlabel=what)
        for gap, colour in zip(gaps, ("#2c6fb3", "#b3452c")):
            seconds = [run.to(gap) for run in runs]
            power = slope(sizes, seconds)
            label = f"to {gap:.0e}" + (f": power {power:.2f}" if math.isfinite(power) else "")
            axes.plot(sizes, [finite(value) or math.nan for value in seconds], "o-", color=colour, ms=4, label=label)
        late = [(size, run.seconds) for size, run in zip(sizes, runs) if not math.isfinite(run.to(gaps[-1]))]
        if late:
            axes.plot(*zip(*late), "x", color="#777777", label=f"stopped before {gaps[-1]:.0e}")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(color="#dddddd", lw=0.6)
        axes.legend(frameon=False, fontsize="small")
    figure.axes[0].set_ylabel("seconds to a certified gap")
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path, dpi=140)
