"""How seconds and memory grow with one size: powers, rows of a table, a drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Run, cell, finite, shown

if TYPE_CHECKING:
    from rich.table import Table


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
