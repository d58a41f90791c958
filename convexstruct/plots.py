"""The pictures of the package; each draws on axes it is given, or on a figure of its own, and returns the axes.

Nothing here uses pyplot: a figure appears in a notebook because it is returned, and nowhere else.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter

from convexstruct.arrays import Vector
from convexstruct.core.certificates import relative_gap
from convexstruct.core.trace import Trace
from convexstruct.tolerances import PROFILES, upside_down
from convexstruct.validation.arguments import choice, described, number, refuse, sequence

#: Okabe and Ito's colours (2008), which readers of any colour vision tell apart; without the yellow, pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LOWER, UPPER, GREEN, PINK, ORANGE, SKY, BLACK = PALETTE
GREY = "#777777"
#: Dashes and markers of the solid lines of a figure, in their order; the first is left without markers.
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1)), ":")
MARKERS = ("o", "s", "^", "v", "X", "P", "*", "<", ">")
#: Gaps below this are drawn here on a logarithmic scale, and said to be 0.
LEAST_GAP = 1e-12
#: Names of the two lines of a run in legends: bounds that a solver reports on the way are its own, not certified.
LEGEND = {"upper": "solver's own upper bound", "lower": "solver's own lower bound"}
#: Colour and marker of each verdict.
VERDICTS = {"verified": (GREEN, "o"), "failed": (UPPER, "X"), "unverified": (ORANGE, "s")}

#: What a run may be drawn against: columns of its trace.
AXES = ("seconds", "iteration")
Against = Literal["seconds", "iteration"]


class Solved(Protocol):
    """What a picture shows of a solve: `convexstruct.core.solution.Solution` has it."""

    @property
    def trace(self) -> Trace: ...

    @property
    def solver(self) -> str: ...

    @property
    def primal(self) -> float: ...

    @property
    def lower_bound(self) -> float: ...

    @property
    def gap(self) -> float: ...


def new_axes() -> Axes:
    """Axes on a figure of their own."""
    return Figure(figsize=(6.4, 3.6), layout="constrained").subplots()


def _drawn_on(axes: Any) -> Axes:
    """``axes``, or new ones; ValueError if they are no axes of matplotlib's."""
    if axes is not None and not isinstance(axes, Axes):
        refuse("axes", axes, "axes of matplotlib")
    return axes if axes is not None else new_axes()


def _trace(name: str, solution: Any) -> Trace:
    """The trace that is to be drawn; ValueError if what came is neither a trace nor has one."""
    trace = solution if isinstance(solution, Trace) else getattr(solution, "trace", None)
    if not isinstance(trace, Trace):
        refuse(name, solution, "a Solution or its Trace")
    return trace


def _rows(rows: Any, least: int = 0) -> list[Any]:
    found = sequence("rows", rows, "rows of a verification", least=least)
    for row in found:
        if not all(hasattr(row, name) for name in ("case", "verdict", "reference", "fast", "trace")):
            refuse("rows", row, "rows of a verification")
    return found


def bounds(
    solution: Solved | Trace,
    axes: Axes | None = None,
    against: Against = "seconds",
    certified: tuple[float, float] | None = None,
) -> Axes:
    """The solver's own best bounds against time or iterations, and the certificate as one mark at their end.

    The lines are bounds that the solver computed, which prove nothing; only the certificate's gap is named.

    solution : a `Solution` or its `Trace`. axes : where to draw. against : "seconds" or "iteration".
    certified : (lower bound, primal) of a certificate; that of ``solution`` unless given, none for a trace.

    Raises
    ------
    ValueError
        If an argument is none of these.
    """
    trace = _trace("solution", solution)
    solved = None if isinstance(solution, Trace) else solution
    axes = _drawn_on(axes)
    choice("against", against, AXES)
    if certified is not None:
        low, high = sequence("certified", certified, "(lower bound, primal)", length=2)
        certified = number("certified", low, infinite=True), number("certified", high, infinite=True)
    if certified is None and solved is not None:
        certified = (solved.lower_bound, solved.primal)
    x = np.asarray(getattr(trace, against), dtype=float)
    upper = np.asarray(trace.primal, dtype=float)
    lower = np.asarray(trace.lower_bound, dtype=float)
    both = np.isfinite(upper) & np.isfinite(lower)
    axes.plot(x, np.where(np.isfinite(upper), upper, np.nan), color=UPPER, label=LEGEND["upper"], lw=1.6)
    axes.plot(x, np.where(np.isfinite(lower), lower, np.nan), color=LOWER, label=LEGEND["lower"], lw=1.6, ls="--")
    axes.fill_between(x, lower, upper, where=both, color=GREY, alpha=0.15, lw=0)
    if len(x) == 1:
        axes.plot(x, upper, "o", color=UPPER, ms=4)
        axes.plot(x, lower, "o", color=LOWER, ms=4)
    if certified is not None and len(x):
        _mark(axes, float(x[-1]), certified)
        upper, lower = np.append(upper, certified[1]), np.append(lower, certified[0])
    _zoom(axes, upper, lower)
    axes.set_xlabel(against)
    axes.set_ylabel("objective")
    name = "" if solved is None else solved.solver.split(" (")[0]
    ends = _said(trace, certified)
    axes.set_title(f"{name}: {ends}" if name else ends, fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
    axes.ticklabel_format(axis="y", useOffset=False)
    return axes


def _mark(axes: Axes, x: float, certified: tuple[float, float]) -> None:
    """A certificate: a bar from its lower bound to its primal value, both marked."""
    known = [value for value in certified if math.isfinite(value)]
    axes.plot([x] * len(known), known, color="black", marker="D", ms=4, lw=1.2, label="certificate", zorder=4)


def _said(trace: Trace, certified: tuple[float, float] | None) -> str:
    """What a picture of a run may say of its gap."""
    if certified is None:
        last = trace.gaps()[-1] if len(trace) else math.inf
        return f"gap {_in_words(last)} by its own bounds" if math.isfinite(last) else "no certificate"
    reached = relative_gap(certified[1], certified[0], trace.least)
    if upside_down(reached):
        return "certificate upside down: it proves nothing"
    return f"certified gap {_in_words(reached)}" if math.isfinite(reached) else "no certificate"


def _in_words(reached: float) -> str:
    """A gap as text: "0" where it is 0 or negative by rounding."""
    return f"{reached:.1e}" if reached > 0 else "0"


def _zoom(axes: Axes, upper: Vector, lower: Vector) -> None:
    """Limit the vertical axis to the bounds of the later rounds: those of the first rounds are so wide that the
    later ones could not be told apart."""
    best_upper, best_lower = upper[np.isfinite(upper)], lower[np.isfinite(lower)]
    if not (len(best_upper) and len(best_lower)):
        return
    end = 0.5 * (best_upper[-1] + best_lower[-1])
    half = len(best_upper) // 4, len(best_lower) // 4
    reach = max(best_upper[half[0]] - end, end - best_lower[half[1]], 1e-9 * max(1.0, abs(end)))
    axes.set_ylim(end - 1.3 * reach, end + 1.3 * reach)


def gap(traces: Mapping[str, Solved | Trace], axes: Axes | None = None, against: Against = "seconds") -> Axes:
    """The relative gap of several runs by the solvers' own bounds, on a logarithmic scale, with the profiles as lines.

    Where a `Solution` is given, the certified gap is one mark at the end of its line; bounds that are upside down have
    no gap, and are left out. ValueError if ``traces`` maps no names to solutions or traces.
    """
    axes = _drawn_on(axes)
    choice("against", against, AXES)
    if not isinstance(traces, Mapping):
        refuse("traces", traces, "a mapping of names to solutions or traces")
    seen: list[float] = []
    marked = False
    for at, (name, solution) in enumerate(traces.items()):
        trace = _trace(f"traces[{described(name)}]", solution)
        shown = np.array([_drawn(reached) for reached in trace.gaps()])
        (line,) = axes.plot(
            getattr(trace, against), shown, label=name, lw=1.5, color=PALETTE[at % len(PALETTE)],
            ls=DASHES[at % len(DASHES)], marker=MARKERS[at % len(MARKERS)], ms=4,
            markevery=1 if len(shown) < 12 else (0.02 * (at % 5), 0.12),
        )  # fmt: skip
        seen.extend(shown[np.isfinite(shown)].tolist())
        end = math.nan if isinstance(solution, Trace) else _drawn(solution.gap)
        if len(trace) and math.isfinite(end):
            axes.plot(getattr(trace, against)[-1], end, "D", color=line.get_color(), mec="black", ms=5, zorder=4)
            seen.append(end)
            marked = True
    if seen:
        axes.set_yscale("log")
        _profile_lines(axes, min(seen), max(seen), vertical=False)
        if marked:
            axes.plot([], [], "D", color="none", mec="black", ms=5, label="certified")
        if min(seen) <= LEAST_GAP:
            _zero_line(axes)
        axes.legend(frameon=False, fontsize="small")
    axes.set_xlabel(against)
    axes.set_ylabel("relative gap, solver's own bounds")
    return axes


def _drawn(reached: float) -> float:
    """A gap as a logarithmic scale shows it: at least `LEAST_GAP`, NaN where it is infinite or upside down."""
    return max(reached, LEAST_GAP) if math.isfinite(reached) and not upside_down(reached) else math.nan


def _zero_line(axes: Axes) -> None:
    """Say that what lies at `LEAST_GAP` is a gap of 0, or smaller than that."""
    _written(axes, f"gap 0 (or below {LEAST_GAP:.0e})", (0.0, LEAST_GAP), ("axes fraction", "data"), xytext=(3, 3),
             textcoords="offset points", va="bottom")  # fmt: skip


def _profile_lines(axes: Axes, low: float, high: float, vertical: bool) -> None:
    """The gaps of the profiles that lie near those drawn, from ``low`` to ``high``."""
    for profile in PROFILES.values():
        if 0.01 * low <= profile.gap <= 100 * high:
            line = axes.axvline if vertical else axes.axhline
            line(profile.gap, color=GREY, lw=0.8, ls=":", zorder=0)
            if vertical:
                _written(axes, profile.name, (profile.gap, 1.0), ("data", "axes fraction"), ha="center", va="bottom")
            else:
                _written(axes, profile.name, (1.0, profile.gap), ("axes fraction", "data"), ha="right", va="bottom")


def _written(axes: Axes, text: str, at: tuple[float, float], scales: Any, **settings: Any) -> None:
    """Small grey text at a place whose coordinates are of these kinds."""
    axes.annotate(text, at, xycoords=scales, fontsize="x-small", color=GREY, **settings)


def compare(rows: Sequence[Any]) -> Figure:
    """Each case of a verification: its certified gap, and seconds of reference over seconds of the fast path. rows : of
    `convexstruct.verification.outcome.Row`."""
    rows = _rows(rows, least=1)
    figure = Figure(figsize=(9.0, 1.1 + 0.27 * max(len(rows), 3)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    place = np.arange(len(rows))
    gaps = [_drawn(row.fast.gap) for row in rows]
    stored = any(row.reference.version for row in rows)
    seconds = [(math.nan if row.reference.version else row.reference.seconds, row.fast.seconds) for row in rows]
    for y, value, row in zip(place, gaps, rows):
        colour, marker = VERDICTS[row.verdict]
        left.scatter([value], [y], color=colour, marker=marker, s=28, zorder=3)
        if value <= LEAST_GAP:
            left.annotate("0", (value, y), xytext=(6, 0), textcoords="offset points", va="center", fontsize="small")
        if math.isnan(value):
            said = "upside down" if upside_down(row.fast.gap) else "no gap"
            left.annotate(said, (0.02, y), xycoords=("axes fraction", "data"), va="center", fontsize="small")
    finite = [value for value in gaps if math.isfinite(value)]
    if finite:
        left.set_xscale("log")
        _profile_lines(left, min(finite), max(finite), vertical=True)
    for y, (slow, fast) in zip(place, seconds):
        right.plot([slow, fast], [y, y], color=GREY, lw=1, zorder=1)
        right.scatter([slow], [y], color=LOWER, marker="s", s=24, zorder=3)
        right.scatter([fast], [y], color=UPPER, s=24, zorder=3)
    if any(math.isfinite(t) and t > 0 for pair in seconds for t in pair):
        right.set_xscale("log")
    if not stored:
        right.scatter([], [], color=LOWER, marker="s", s=24, label="reference")
    right.scatter([], [], color=UPPER, s=24, label="solver on trial" if stored else "fast path")
    right.legend(frameon=False, fontsize="small", loc="best")
    left.set_yticks(place, [row.case for row in rows])
    left.yaxis.set_minor_locator(NullLocator())
    left.set_ylim(len(rows) - 0.5, -0.5)
    left.set_xlabel("certified relative gap")
    right.set_xlabel("seconds")
    for axes in (left, right):
        axes.grid(axis="x", color="#dddddd", lw=0.6)
        axes.set_axisbelow(True)
    return figure


def traces(rows: Sequence[Any]) -> Figure | None:
    """The solvers' own bounds against time and the certificate, one small picture a case, for rows as in `compare`;
    None without a trace."""
    shown = [row for row in _rows(rows) if row.trace is not None and len(row.trace)]
    if not shown:
        return None
    columns = min(3, len(shown))
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.5 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, row in zip(grid, shown):
        assert row.trace is not None
        certified = (row.fast.lower_bound, row.fast.primal)
        bounds(row.trace, axes, certified=certified)
        axes.get_legend().remove()
        axes.set_title(f"{row.case}: {_said(row.trace, certified)}", fontsize="small")
        axes.tick_params(labelsize="x-small")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        if math.isfinite(row.reference.value):
            axes.axhline(row.reference.value, color="black", lw=0.9, ls=":")
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    handles = [
        grid[0].plot([], [], color=UPPER, label=LEGEND["upper"])[0],
        grid[0].plot([], [], color=LOWER, ls="--", label=LEGEND["lower"])[0],
        grid[0].plot([], [], "D", color="black", ms=4, label="certificate")[0],
        grid[0].plot([], [], color="black", lw=0.9, ls=":", label="reference optimum")[0],
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=4 if columns > 1 else 1, frameon=False, fontsize="small"
    )
    return figure


def panels(columns: int = 1, rows: int = 1, *, size: tuple[float, float], **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of ``size`` (inches), and its axes row by row. options : of matplotlib's ``subplots``."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).ravel())


def lines(axes: Axes, x: Any, curves: Mapping[str, tuple[Any, str, str]], **settings: Any) -> None:
    """Lines against ``x``. curves : by label (y, colour, matplotlib's format). settings : as `finish` takes them."""
    for label, (y, colour, style) in curves.items():
        axes.plot(x, y, style, color=colour, lw=1.5, ms=4, label=label)
    finish(axes, **settings)


def finish(axes: Axes, legend: Any = "best", **settings: Any) -> None:
    """Scales, labels and limits of axes, and their legend. legend : its place; None for none."""
    axes.set(**settings)
    axes.title.set_fontsize("medium")
    if legend is not None:
        axes.legend(frameon=False, fontsize="small", loc=legend)


def bars(
    axes: Axes, numbers: Sequence[float], errors: Sequence[float | None], colour: Any, form: str = "{:.1%}"
) -> None:
    """Horizontal bars of numbers, written as ``form`` says, with whiskers where all errors are known."""
    place, known = np.arange(len(numbers)), [error for error in errors if error is not None]
    axes.barh(place, numbers, xerr=known if len(known) == len(numbers) else None, color=colour, alpha=0.85, height=0.65,
              error_kw={"lw": 1.0, "capsize": 2})  # fmt: skip
    for at, each in zip(place, numbers):
        axes.annotate(form.format(each), (axes.get_xlim()[0], at), xytext=(5, 0), textcoords="offset points",
                      va="center", color="white", fontsize="small")  # fmt: skip
    if form.endswith("%}"):
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def named_bars(axes: Axes, names: Sequence[str]) -> None:
    """The names of horizontal bars, the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def signed(axes: Axes, table: Any, most: float, **options: Any) -> AxesImage:
    """A table as a picture, blue below 0 and red above, of full colour at -+``most``."""
    axes.tick_params(length=0)
    return axes.imshow(table, cmap="RdBu_r", vmin=-most, vmax=most, **options)


def told_apart(figure: Figure) -> Figure:
    """The figure, with a dash and a marker of its own for each solid line that has a label (the same label in several
    panels has the same), in its legends too; and without offsets at the axes, such as "+1.9e2".

    A line with a marker at each point stays solid and gets a marker of its own: in such pictures a dash may have a
    meaning, which the caption says."""
    lines = [line for axes in figure.axes for line in axes.get_lines() if line.get_linestyle() == "-"]
    names = dict.fromkeys(name for line in lines if not (name := str(line.get_label())).startswith("_"))
    style = {name: (DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)], i) for i, name in enumerate(names)}
    legends = [*figure.legends, *(legend for axes in figure.axes if (legend := axes.get_legend()) is not None)]
    keys = [line for legend in legends for line in legend.legend_handles if isinstance(line, Line2D)]
    for line in [*lines, *(key for key in keys if key.get_linestyle() == "-")]:
        if (name := str(line.get_label())) in style:
            dash, marker, i = style[name]
            if line.get_marker() not in ("", "None", None):
                line.set(marker=marker)
            else:
                line.set(
                    linestyle=dash, marker=marker if i else "", markevery=1 if line in keys else (0.02 * (i % 5), 0.12)
                )
            line.set_markersize(min(line.get_markersize(), 4.0))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(written := axis.get_major_formatter(), ScalarFormatter):
                written.set_useOffset(False)
    return figure


def embedded(figure: Figure) -> str:
    """A figure as a data address, for a page that must hold everything: its lines `told_apart`, its legends whole."""
    file = io.BytesIO()
    told_apart(figure).savefig(file, format="svg", bbox_inches="tight")
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
