r"""Paper 4, the example of Approx-Maximum-Entropy (CAMEL), (20.17)-(20.23): Bethe against exact entropy.

A triangle A-B-C of binary variables with two tied features, f00 and f11, on its three edges. Given are
E f00 and E f11, summed over the edges. Three right-hand sides: (2, 0) as (20.17) and (20.18) print it; (5/3, 0), the
means over the three rows of the slide, 000, 010 and 100, whose edges have 3, 1 and 1 pairs 00; and (1.5, 0.3), inside
the polytope.

The first two lie on the border of the polytope: E f11 = 0 needs theta_11 = -infinity, so that the likelihood has no
maximum. The maximum entropy is still attained, and is the infimum of -l.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Vector
from convexstruct.core.experiment import Cell, Progress, Result, Steps
from convexstruct.families.log_linear.examples import triangle
from convexstruct.families.log_linear.existence import no_maximum
from convexstruct.plots import GREY, LOWER, UPPER

NAME = "camel"
PAPER = "paper 4, Approx-Maximum-Entropy, (20.17)-(20.23)"
TITLE = "Approximate maximum entropy (CAMEL) on a triangle, against the exact one"

#: The right-hand sides: name and (E f00, E f11).
SIDES = (("as printed", (2.0, 0.0)), ("the slide's rows", (5.0 / 3.0, 0.0)), ("inside", (1.5, 0.3)))
FORMS = (("exact", "clique_entropy"), ("Bethe", "camel"), ("tree-reweighted", "tree_reweighted"))
#: The picture: E f00, and the number of values of E f11 from 0 to E f00, full and quick.
ALONG, POINTS, QUICK_POINTS = 1.5, 25, 7
COLUMNS = ("right-hand side", "E f00", "E f11", "entropy", "optimum", "certified", "b(0,0)", "b(0,1)", "b(1,1)")


def beliefs(moments: Sequence[float]) -> Vector:
    """b(0, 0), b(0, 1), b(1, 1) of every edge: the moments and the symmetry of the triangle determine them."""
    both, neither = moments[1] / 3.0, moments[0] / 3.0
    return np.array([neither, 0.5 * (1.0 - both - neither), both])


def run(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
    """The optima at the three right-hand sides, and along a line of moments. Nothing is random; ``quick`` draws fewer
    points of the line."""
    from convexstruct.models import FORMULATIONS  # imported here because it loads CVXPY

    points = QUICK_POINTS if quick else POINTS
    steps = Progress(progress, len(SIDES) + points)
    rows: list[list[Cell]] = []
    notes = [
        "the printed right-hand side of (20.17), 2, does not follow from the slide's three rows, which give 5/3",
        "the exact entropy is certified: the bracket that the solver's answer proves, recomputed from the problem",
        "Bethe and tree-reweighted entropies are other problems: their optima are a solver's word",
    ]
    for said, moments in SIDES:
        steps.next(said)
        problem = triangle(moments)
        for name, form in FORMS:
            reference = FORMULATIONS[f"log_linear.{form}"].builder(problem).reference("CLARABEL")
            bracket = f"{reference.lower_bound:.7f} to {reference.upper_bound:.7f}" if reference.certified else None
            rows.append([said, *moments, name, reference.value, bracket, *map(float, beliefs(moments))])
        direction = problem.runaway()
        if direction is not None:
            notes.append(f"E f00 = {moments[0]:.4g}, E f11 = 0: {no_maximum(problem.factors, direction)}")
    line = np.linspace(0.0, ALONG, points)
    values: dict[str, list[float]] = {name: [] for name, _ in FORMS}
    for at in line:
        steps.next(f"E f11 = {at:.3g}")
        problem = triangle((ALONG, float(at)))
        for name, form in FORMS:
            values[name].append(FORMULATIONS[f"log_linear.{form}"].builder(problem).reference("CLARABEL").value)
    if quick:
        notes.append(f"the picture is drawn from {QUICK_POINTS} points, not {POINTS}")
    published = {"(20.17)": "E f00 = 2", "(20.18)": "E f11 = 0", "optimum": "not given"}
    figures = {"Entropies of the triangle": draw(line, values)}
    return Result(NAME, PAPER, COLUMNS, rows, published, notes, steps.seconds, figures)


def draw(line: Vector, values: dict[str, list[float]]) -> Figure:
    """The three entropies along a line of moments, and how far two of them lie from the exact one."""
    figure = Figure(figsize=(10.0, 3.6), layout="constrained")
    whole, apart = figure.subplots(1, 2)
    styles = {"exact": ("black", "-"), "Bethe": (UPPER, "--"), "tree-reweighted": (LOWER, ":")}
    for name, (colour, style) in styles.items():
        whole.plot(line, values[name], color=colour, ls=style, lw=1.6, label=name)
        if name != "exact":
            difference = np.array(values[name]) - np.array(values["exact"])
            apart.plot(line, difference, color=colour, ls=style, lw=1.6, label=name)
    apart.axhline(0.0, color=GREY, lw=0.8)
    whole.set_ylabel("greatest entropy, nats")
    apart.set_ylabel("less the exact one, nats")
    for axes in (whole, apart):
        axes.set_xlabel(rf"$E f_{{11}}$, at $E f_{{00}} = {ALONG:g}$")
        axes.grid(color="#e4e4e4", lw=0.6)
        axes.legend(frameon=False, fontsize="small")
    return figure
