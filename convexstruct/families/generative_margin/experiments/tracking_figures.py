"""Figures of the tracking experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Matrix
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.solvers.proximal_rsd import Record
from convexstruct.plots import GREY, LOWER, ORANGE, UPPER


def bounds(runs: Mapping[str, tuple[Solution, Sequence[Record], float]]) -> Figure:
    """The solver's own primal value and lower bound and the paper's projected estimate against iterations, one panel a
    setting; the gap in the panel's title is certified.

    runs : by setting (solution, its records, the best known upper bound on the optimum).
    """
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for axes, (setting, (solution, records, optimum)) in zip(
        figure.subplots(1, len(runs), squeeze=False)[0], runs.items()
    ):
        trace = solution.trace
        axes.axhline(optimum, color=GREY, lw=0.8, ls=":", label="optimum (best known)")
        axes.plot(trace.iteration, trace.primal, color=UPPER, lw=1.4, label="solver's own primal value")
        axes.plot(trace.iteration, trace.lower_bound, color=LOWER, lw=1.4, label="solver's own lower bound")
        projected = np.array([record.projected for record in records], dtype=float)
        shown = np.where(np.isfinite(projected), projected, np.nan)
        at = np.arange(2, len(records) + 2)  # the first iterate is the start, of which there is no record
        false = shown > optimum
        axes.plot(at[~false], shown[~false], ".", color="#555555", ms=2.5, label="the paper's projected estimate")
        axes.plot(at[false], shown[false], "x", color=ORANGE, ms=3.5, label="the same, above the optimum")
        start = trace.primal[0]
        axes.set_ylim(optimum - 1.1 * (start - optimum), start + 0.15 * (start - optimum))
        axes.set_xscale("log")
        axes.set_title(
            f"{setting}: certified gap {solution.gap:.1e} after {solution.iterations} iterations", fontsize="medium"
        )
        axes.set_xlabel("iteration")
        axes.set_ylabel("objective")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize="x-small", loc="outside lower center", ncols=5)
    return figure


def transitions(settings: Mapping[str, Mapping[str, Matrix]]) -> Figure:
    """Transition matrices (S, S) as pictures, one row a setting, one column a model."""
    width = max(len(models) for models in settings.values())
    figure = Figure(figsize=(2.2 * width + 0.6, 2.3 * len(settings) + 0.2), layout="constrained")
    grid = figure.subplots(len(settings), width, squeeze=False)
    image = None
    for line, (setting, models) in zip(grid, settings.items()):
        for axes, (name, matrix) in zip(line, models.items()):
            image = axes.imshow(matrix, vmin=0.0, vmax=1.0, cmap="Blues")
            axes.set_title(f"{setting}: {name}", fontsize="small")
            axes.set_xticks(np.arange(0, len(matrix), 3), [str(i + 1) for i in range(0, len(matrix), 3)])
            axes.set_yticks(np.arange(0, len(matrix), 3), [str(i + 1) for i in range(0, len(matrix), 3)])
            axes.tick_params(labelsize="x-small")
    if image is not None:
        figure.colorbar(image, ax=grid, shrink=0.6, label="probability")
    return figure
