"""Figures of the SVM solver comparison: one panel a set, one line a solver, of the same colour in every figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from convexstruct.families.regularized_risk.experiments.svm_paths import Path
from convexstruct.plots import BLACK, GREEN, GREY, LOWER, ORANGE, PINK, SKY, UPPER

COLOURS = {
    "pragam": UPPER,
    "pragam-b": ORANGE,
    "ls-bmrm": LOWER,
    "qp-bmrm": SKY,
    "pegasos-n": GREEN,
    "pegasos-1": PINK,
    "liblinear": "#444444",
    "default": BLACK,
}

Against = Literal["iteration", "seconds"]


def _shown(paths: Mapping[str, Path], against: Against, objective: bool) -> dict[str, Path]:
    """Without pragam-b where objectives are compared (it has another one), and without pegasos-1 where iterations are
    compared (one of its iterations takes one example)."""
    left_out = {"pragam-b"} if objective else set()
    left_out |= {"pegasos-1"} if against == "iteration" else set()
    return {name: path for name, path in paths.items() if name not in left_out}


def _line(solver: str, path: Path, against: Against) -> dict[str, Any]:
    """The style of a line: only dots where each point is a separate run, dots on the line where points are few."""
    if solver == "liblinear" and against == "seconds":
        return {"ls": "", "marker": ".", "ms": 4}
    return {"lw": 1.4, "marker": "." if len(path.value) < 12 else None}


def _panels(n: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(1.0 + 3.6 * n, 3.5), layout="constrained")
    return figure, list(figure.subplots(1, n, squeeze=False)[0])


def _legend(figure: Figure, panels: list[Axes]) -> None:
    found = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(
        found.values(), found.keys(), loc="outside lower center", ncols=1 + 2 * len(panels), frameon=False,
        fontsize="small",
    )  # fmt: skip


def gaps(sets: Mapping[str, tuple[Mapping[str, Path], float]], against: Against) -> Figure:
    """J less its optimum, both axes logarithmic. sets : by name (paths by solver, optimum)."""
    figure, panels = _panels(len(sets))
    for axes, (name, (paths, optimum)) in zip(panels, sets.items()):
        for solver, path in _shown(paths, against, objective=True).items():
            axes.plot(getattr(path, against), path.gaps(optimum), color=COLOURS[solver], label=solver,
                      **_line(solver, path, against))  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(max(axes.get_ylim()[0], 1e-9), 10.0)  # J(0) is 1; bundle methods go far above it
        axes.set_title(name, fontsize="medium")
        axes.set_xlabel("iteration" if against == "iteration" else "seconds")
    panels[0].set_ylabel(r"$\min_{t' \leq t} J(w_{t'}) - J^*$")
    _legend(figure, panels)
    return figure


def accuracies(sets: Mapping[str, tuple[Mapping[str, Path], float]], against: Against) -> Figure:
    """Test accuracy of the best iterate so far, in percent."""
    figure, panels = _panels(len(sets))
    for axes, (name, (paths, _)) in zip(panels, sets.items()):
        for solver, path in _shown(paths, against, objective=False).items():
            axes.plot(getattr(path, against), 100 * np.asarray(path.accuracy), color=COLOURS[solver], label=solver,
                      **_line(solver, path, against))  # fmt: skip
        top = 100 * max(max(path.accuracy) for path in paths.values())
        axes.set_ylim(max(100 * min(path.accuracy[0] for path in paths.values()), top - 15), top + 0.5)
        axes.set_xscale("log")
        axes.set_title(name, fontsize="medium")
        axes.set_xlabel("iteration" if against == "iteration" else "seconds")
    panels[0].set_ylabel("test accuracy, %")
    _legend(figure, panels)
    return figure


def rates(sets: Mapping[str, tuple[Mapping[str, Path], float]]) -> Figure:
    """Iterations to a gap eps against 1/eps, beside lines that grow like 1/eps and 1/sqrt(eps)."""
    figure, panels = _panels(len(sets))
    for axes, (name, (paths, optimum)) in zip(panels, sets.items()):
        most = 1.0
        for solver, path in _shown(paths, "iteration", objective=True).items():
            gap = path.gaps(optimum)
            fell = np.diff(gap, prepend=np.inf) < 0
            axes.plot(1 / gap[fell], np.asarray(path.iteration)[fell], color=COLOURS[solver], lw=1.4, label=solver)
            most = max(most, path.iteration[-1])
        axes.set_xscale("log")
        axes.set_yscale("log")
        low, high = axes.get_xlim()
        x = np.geomspace(low, high, 50)
        for power, style, label in ((1.0, ":", r"$1/\epsilon$"), (0.5, "--", r"$1/\sqrt{\epsilon}$")):
            axes.plot(x, (x / x[0]) ** power, ls=style, color=GREY, lw=1.0, label=label)
        axes.set_ylim(0.8, 2 * most)
        axes.set_xlim(low, high)
        axes.set_title(name, fontsize="medium")
        axes.set_xlabel(r"$1/\epsilon$")
    panels[0].set_ylabel(r"iterations to a gap of $\epsilon$")
    _legend(figure, panels)
    return figure
