from __future__ import annotations

import base64
import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from convexstruct import plots
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.verification.outcome import Fast, Reference, Row, Verdict
from tests.core.test_solution import solution


def trace(primal: list[float], lower: list[float]) -> Trace:
    made = Trace()
    for i, (upper, under) in enumerate(zip(primal, lower), start=1):
        made.append(i, 0.1 * i, i, upper, under)
    return made


def row(case: str, verdict: Verdict, gap: float, version: str = "") -> Row:
    reference = Reference("primal", "CLARABEL", "optimal", 5.0, 1.0, version=version)
    fast = Fast("x", 5.0, 5.0 - gap, gap, 3, 0.1)
    return Row("f", "s", case, "p", "e", reference, fast, verdict, "", trace=trace([6.0, 5.0], [4.0, 5.0 - gap]))


def legend(axes: Axes) -> list[str]:
    drawn = axes.get_legend()
    assert drawn is not None
    return [text.get_text() for text in drawn.get_texts()]


def test_bounds_are_drawn_as_the_trace_has_them_with_labels() -> None:
    axes = plots.bounds(solution())
    upper, lower = axes.get_lines()[:2]
    np.testing.assert_array_equal(upper.get_ydata(), [0.0, -5.0, -6.0])
    np.testing.assert_array_equal(lower.get_ydata(), [np.nan, -7.0, -6.0])
    assert legend(axes) == ["solver's own upper bound", "solver's own lower bound", "certificate"]
    assert axes.get_xlabel() == "seconds"
    assert axes.get_ylabel() == "objective"
    assert "Stepper" in axes.get_title()


@pytest.mark.parametrize("made", [Trace(), trace([1.0], [1.0]), trace([1.0, 1.0], [-math.inf, -math.inf])])
def test_bounds_of_short_or_uncertified_runs_can_be_drawn(made: Trace) -> None:
    axes = plots.bounds(made)
    axes.figure.canvas.draw()
    assert axes.get_title() in ("no certificate", "gap 0 by its own bounds")


def liar() -> Solution:
    """A run that claims a gap of 1e-7, while its points prove 18%."""
    honest = solution()
    worth = replace(honest.certificate, primal=-5.0, lower_bound=-6.0, gap=1 / 6)
    believed = trace([0.0, -5.9999995], [-8.0, -6.0])
    return replace(honest, certificate=worth, status=Status.INACCURATE, trace=believed)


def test_what_a_solver_that_lies_believed_is_not_called_certified() -> None:
    axes = plots.bounds(liar())
    assert axes.get_title() == "Stepper: certified gap 1.7e-01"
    assert not any("certified" in label for label in legend(axes))
    np.testing.assert_array_equal(axes.get_lines()[2].get_ydata(), [-6.0, -5.0])
    low, high = axes.get_ylim()
    assert low < -6.0 < -5.0 < high
    axes = plots.gap({"liar": liar()})
    assert axes.get_ylabel() == "relative gap, solver's own bounds"
    believed, mark = axes.get_lines()[:2]
    assert np.asarray(believed.get_ydata(), dtype=float)[-1] == pytest.approx(5e-7 / 6)
    np.testing.assert_allclose(np.asarray(mark.get_ydata(), dtype=float), [1 / 6])
    assert legend(axes) == ["liar", "certified"]


def test_bounds_that_are_upside_down_are_drawn_as_no_gap_and_said_to_be() -> None:
    wrong = replace(liar(), certificate=replace(liar().certificate, lower_bound=-4.0, gap=-0.2))
    assert plots.bounds(wrong).get_title() == "Stepper: certificate upside down: it proves nothing"
    axes = plots.gap({"wrong": trace([2.0, 1.0], [1.0, 1.18])})
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [0.5, np.nan])
    figure = plots.compare([row("wrong", "failed", -0.18)])
    assert [text.get_text() for text in figure.axes[0].texts if "down" in text.get_text()] == ["upside down"]


def test_gaps_share_a_logarithmic_scale_and_those_that_are_missing_leave_it() -> None:
    axes = plots.gap({"one": trace([2.0, 1.0], [0.0, 0.9]), "two": trace([2.0, 1.0], [-math.inf, 0.999])})
    assert axes.get_yscale() == "log"
    assert np.asarray(axes.get_lines()[0].get_ydata(), dtype=float) == pytest.approx([1.0, 0.1])
    assert plots.gap({"none": trace([1.0], [-math.inf])}, against="iteration").get_yscale() == "linear"
    rows = [row("good", "verified", 1e-5), row("bad", "failed", math.inf), row("zero", "verified", 0.0)]
    figure = plots.compare(rows)
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["good", "bad", "zero"]
    assert right.get_xscale() == "log"
    figure.canvas.draw()


def test_traces_are_one_picture_a_case() -> None:
    figure = plots.traces([row(f"case {i}", "verified", 1e-5) for i in range(4)])
    assert figure is not None
    assert [axes.get_title().split(":")[0] for axes in figure.axes if axes.get_visible()] == [
        "case 0", "case 1", "case 2", "case 3",
    ]  # fmt: skip
    assert plots.traces([]) is None
    assert plots.embedded(figure).startswith("data:image/svg+xml;base64,")


def test_a_legend_wider_than_its_figure_is_not_cut() -> None:
    figure = Figure(figsize=(2, 2))
    axes = figure.subplots()
    axes.plot([1, 2], label="a name that is far longer than the figure is wide, as those of solvers are")
    figure.legend(loc="center")
    page = base64.b64decode(plots.embedded(figure).partition(",")[2]).decode()
    width = re.search(r'width="([0-9.]+)pt"', page)
    assert width is not None
    assert float(width[1]) > 2 * 72


def test_nothing_draws_through_pyplot() -> None:
    before = set(sys.modules)
    plots.bounds(solution())
    assert "matplotlib.pyplot" not in set(sys.modules) - before
