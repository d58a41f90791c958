"""Paper 1, "Max-margin loss surrogates": the hinges of margin and slack scaling as functions of the margin.

One node with two labels per loss: the true one, and one that costs E. At w the margin is m = <w, df>, and the hinge
under margin scaling is max(0, E - m), under slack scaling max(0, E (1 - m)); both lie above the loss itself, E [m < 0].
The first hinge is positive until m >= E, the second until m >= 1: margin scaling demands more margin than slack
scaling of labels that cost more than 1, and less of labels that cost less. With two wrong labels in one example the
surrogate is the maximum over both: the right-hand panel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.experiment import Cell, Progress, Result, Steps
from convexstruct.families.structured_svm.problem import Scaling, StructuredSVM
from convexstruct.plots import GREY, LOWER, UPPER

NAME = "surrogates"
PAPER = "paper 1, slides on max-margin loss surrogates"
TITLE = "Margin and slack surrogates of the loss"

LOSSES = (0.5, 1.0, 2.0, 4.0)
#: Two wrong labels at once: a slight mistake and a grave one.
BOTH = (1.0, 4.0)
COLUMNS = ("margin m", "loss E", "E [m < 0]", "margin hinge", "slack hinge")
SCALINGS: tuple[Scaling, ...] = ("margin", "slack")


def hinge(costs: Sequence[float], margins: Matrix, scaling: Scaling) -> Vector:
    """The hinge of one node whose wrong labels cost ``costs`` and lie ``margins`` (n, labels) below the truth; (n,).

    The only feature is constant; w_node[s] = -m_s, with m = 0 for the truth, so that <w, df> = m_s.
    """
    table = np.array([[0.0, *costs]])
    problem = StructuredSVM.read(
        [np.ones((1, 1))], [[0]], len(costs) + 1, edges="none", loss=[table], scaling=scaling, C=1.0
    )
    points = np.column_stack((np.zeros(len(margins)), -margins))
    return np.array([problem.most_violated(w).hinge[0] for w in points])


def run(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
    """The surrogates on a grid of margins; a table at a few of them, and the picture of the slides.

    ``quick`` and ``seed`` change nothing.
    """
    steps = Progress(progress, 2)
    steps.next("hinges")
    grid = np.linspace(-2.0, 5.0, 281)
    curves = {(loss, scaling): hinge((loss,), grid[:, None], scaling) for loss in LOSSES for scaling in SCALINGS}
    rows: list[list[Cell]] = []
    for loss in LOSSES:
        for m in (-1.0, 0.0, 0.5, 1.0, loss):
            at = int(np.argmin(np.abs(grid - m)))
            charged = [float(curves[loss, scaling][at]) for scaling in SCALINGS]
            rows.append([float(grid[at]), loss, loss * float(grid[at] < 0), *charged])
    steps.next("pictures")
    published = {"picture": "E = 4, margins from -2 to 3, without numbers"}
    notes = [
        "every number is the hinge that StructuredSVM finds by decoding, not a formula drawn",
        "margin scaling asks a label that costs E for a margin of E, slack scaling asks every wrong label for 1",
        "the right-hand panel has a label of cost 1 at margin m and one of cost 4 at margin 2: past m = 1 slack "
        "scaling charges nothing; margin scaling still charges for the second, whatever m is",
    ]
    figures = {"Surrogates of the loss": draw(grid, curves)}
    return Result(NAME, PAPER, COLUMNS, rows, published, notes, steps.seconds, figures)


def draw(grid: Vector, curves: dict[tuple[float, Scaling], Vector]) -> Figure:
    """One panel a loss, and one with two wrong labels."""
    figure = Figure(figsize=(12.0, 2.9), layout="constrained")
    panels = figure.subplots(1, len(LOSSES) + 1)
    for axes, loss in zip(panels, LOSSES):
        axes.step(grid, loss * (grid < 0), color=GREY, lw=1.2, ls=":", where="mid", label="loss")
        axes.plot(grid, curves[loss, "margin"], color=UPPER, lw=1.6, label="margin scaling")
        axes.plot(grid, curves[loss, "slack"], color=LOWER, lw=1.6, ls="--", label="slack scaling")
        axes.set_title(f"E = {loss:g}", fontsize="medium")
    both = np.column_stack((grid, np.full_like(grid, 2.0)))
    axes = panels[-1]
    axes.step(grid, BOTH[0] * (grid < 0), color=GREY, lw=1.2, ls=":", where="mid")
    axes.plot(grid, hinge(BOTH, both, "margin"), color=UPPER, lw=1.6)
    axes.plot(grid, hinge(BOTH, both, "slack"), color=LOWER, lw=1.6, ls="--")
    axes.set_title("E = 1 at m, E = 4 at 2", fontsize="medium")
    for axes in panels:
        axes.set(xlabel="margin m", ylim=(-0.2, 8.0), xlim=(grid[0], grid[-1]))
        axes.grid(color="#e4e4e4", lw=0.6)
    panels[0].set_ylabel("charged")
    panels[0].legend(frameon=False, fontsize="small")
    return figure
