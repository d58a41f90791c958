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

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.experiment import Sheet
from convexstruct.families.structured_svm.problem import Scaling, StructuredSVM
from convexstruct.plots import GREY, LOWER, UPPER, finish, panels

NAME = "surrogates"
PAPER = "paper 1, slides on max-margin loss surrogates"
TITLE = "Margin and slack surrogates of the loss"
COLUMNS = ("margin m", "loss E", "E [m < 0]", "margin hinge", "slack hinge")
PUBLISHED = {"picture": "E = 4, margins from -2 to 3, without numbers"}

LOSSES = (0.5, 1.0, 2.0, 4.0)
#: Two wrong labels at once: a slight mistake and a grave one.
BOTH = (1.0, 4.0)
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


def run(sheet: Sheet) -> None:
    """The surrogates on a grid of margins; a table at a few of them, and the picture of the slides. Nothing is random,
    and a quick run leaves nothing out."""
    sheet.total = 1
    sheet.step("hinges")
    grid = np.linspace(-2.0, 5.0, 281)
    curves = {(loss, scaling): hinge((loss,), grid[:, None], scaling) for loss in LOSSES for scaling in SCALINGS}
    for loss in LOSSES:
        for m in (-1.0, 0.0, 0.5, 1.0, loss):
            at = int(np.argmin(np.abs(grid - m)))
            sheet.add(grid[at], loss, loss * (grid[at] < 0), *(curves[loss, scaling][at] for scaling in SCALINGS))
    sheet.notes += [
        "every number is the hinge that StructuredSVM finds by decoding, not a formula drawn",
        "margin scaling asks a label that costs E for a margin of E, slack scaling asks every wrong label for 1",
        "the right-hand panel has a label of cost 1 at margin m and one of cost 4 at margin 2: past m = 1 slack "
        "scaling charges nothing; margin scaling still charges for the second, whatever m is",
    ]
    figure, every = panels(len(LOSSES) + 1, size=(12.0, 2.9))
    both = np.column_stack((grid, np.full_like(grid, 2.0)))
    drawn = [(f"E = {loss:g}", loss, [curves[loss, scaling] for scaling in SCALINGS]) for loss in LOSSES]
    drawn.append(
        (f"E = {BOTH[0]:g} at m, E = {BOTH[1]:g} at 2", BOTH[0], [hinge(BOTH, both, each) for each in SCALINGS])
    )
    for axes, (title, loss, (margin, slack)) in zip(every, drawn):
        axes.step(grid, loss * (grid < 0), color=GREY, lw=1.2, ls=":", where="mid", label="loss")
        axes.plot(grid, margin, color=UPPER, lw=1.6, label="margin scaling")
        axes.plot(grid, slack, color=LOWER, lw=1.6, ls="--", label="slack scaling")
        axes.grid(color="#e4e4e4", lw=0.6)
        legend, said = ("best", "charged") if axes is every[0] else (None, "")
        finish(axes, legend, title=title, xlabel="margin m", ylabel=said, ylim=(-0.2, 8.0), xlim=(grid[0], grid[-1]))
    sheet.figures["Surrogates of the loss"] = figure
