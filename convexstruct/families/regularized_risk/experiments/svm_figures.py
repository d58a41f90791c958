"""Figures of the SVM solver comparison: one panel a set, one line a solver, of the same colour in every figure.

Where iterations are compared, pegasos-1 is left out: one of its iterations takes one example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from convexstruct.families.regularized_risk.experiments.svm_paths import Path
from convexstruct.plots import BLACK, GREEN, GREY, LOWER, ORANGE, PINK, SKY, UPPER, panels

COLOURS = {
    "pragam": UPPER, "pragam-b": ORANGE, "ls-bmrm": LOWER, "qp-bmrm": SKY, "pegasos-n": GREEN, "pegasos-1": PINK,
    "liblinear": "#444444", "default": BLACK, "gradient": "#8C564B",
}  # fmt: skip
Against = Literal["iteration", "seconds"]
#: By set: the paths by solver, and the optimum.
Sets = Mapping[str, tuple[Mapping[str, Path], float]]
Panels = tuple[Figure, list[Axes]]


def lines(sets: Sets, points: Callable[[Path, float], tuple[Any, Any]], left_out: str, one_run: bool) -> Panels:
    """A panel a set with a line a solver, but for those in ``left_out``. points : x and y of a path and the optimum.
    one_run : whether liblinear's points, each a run of its own, are joined."""
    figure, every = panels(len(sets), size=(1.0 + 3.6 * len(sets), 3.5))
    for axes, (name, (paths, optimum)) in zip(every, sets.items()):
        for solver in [each for each in paths if each not in left_out.split()]:
            few = "." if len(paths[solver].value) < 12 else ""
            style = {"ls": "", "marker": "."} if solver == "liblinear" and not one_run else {"lw": 1.4, "marker": few}
            axes.plot(*points(paths[solver], optimum), color=COLOURS[solver], label=solver, ms=4, **style)
        axes.set(xscale="log")
        axes.set_title(name, fontsize="medium")
    return figure, every


def labelled(drawn: Panels, across: str, up: str) -> Figure:
    """The figure with its labels, and one legend for all panels."""
    figure, every = drawn
    every[0].set_ylabel(up)
    for axes in every:
        axes.set_xlabel(across)
    found = {label: line for axes in every for line, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=1 + 2 * len(every), frameon=False,
                  fontsize="small")  # fmt: skip
    return figure


def gaps(sets: Sets, against: Against) -> Figure:
    """J less its optimum, both axes logarithmic; without pragam-b, which has another objective."""
    left_out = "pragam-b pegasos-1" if against == "iteration" else "pragam-b"
    drawn = lines(sets, lambda path, best: (getattr(path, against), path.gaps(best)), left_out, against == "iteration")
    for axes in drawn[1]:
        axes.set_yscale("log")
        axes.set_ylim(max(axes.get_ylim()[0], 1e-9), 10.0)  # J(0) is 1; bundle methods go far above it
    return labelled(drawn, against, r"$\min_{t' \leq t} J(w_{t'}) - J^*$")


def accuracies(sets: Sets, against: Against) -> Figure:
    """Test accuracy of the best iterate so far, in percent."""
    left_out = "pegasos-1" if against == "iteration" else ""
    drawn = lines(
        sets, lambda path, _: (getattr(path, against), 100 * np.array(path.accuracy)), left_out, against == "iteration"
    )
    for axes, (paths, _) in zip(drawn[1], sets.values()):
        top = 100 * max(max(path.accuracy) for path in paths.values())
        axes.set_ylim(max(100 * min(path.accuracy[0] for path in paths.values()), top - 15), top + 0.5)
    return labelled(drawn, against, "test accuracy, %")


def rates(sets: Sets) -> Figure:
    """Iterations to a gap eps against 1/eps, beside lines that grow like 1/eps and 1/sqrt(eps)."""

    def reached(path: Path, optimum: float) -> tuple[Any, Any]:
        gap = path.gaps(optimum)
        fell = np.diff(gap, prepend=np.inf) < 0
        return 1 / gap[fell], np.array(path.iteration)[fell]

    drawn = lines(sets, reached, "pragam-b pegasos-1", one_run=True)
    for axes, (paths, _) in zip(drawn[1], sets.values()):
        most = max(path.iteration[-1] for name, path in paths.items() if name not in ("pragam-b", "pegasos-1"))
        x = np.geomspace(*axes.get_xlim(), 50)
        for power, style, label in ((1.0, ":", r"$1/\epsilon$"), (0.5, "--", r"$1/\sqrt{\epsilon}$")):
            axes.plot(x, (x / x[0]) ** power, ls=style, color=GREY, lw=1.0, label=label)
        axes.set(yscale="log", ylim=(0.8, 2 * most), xlim=(x[0], x[-1]))
    return labelled(drawn, r"$1/\epsilon$", r"iterations to a gap of $\epsilon$")
