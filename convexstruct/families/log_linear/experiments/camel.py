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
from typing import Any

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.experiment import Sheet
from convexstruct.families.log_linear.examples import triangle
from convexstruct.families.log_linear.existence import no_maximum
from convexstruct.plots import GREY, LOWER, UPPER, lines, panels

NAME = "camel"
PAPER = "paper 4, Approx-Maximum-Entropy, (20.17)-(20.23)"
TITLE = "Approximate maximum entropy (CAMEL) on a triangle, against the exact one"
COLUMNS = ("right-hand side", "E f00", "E f11", "entropy", "optimum", "certified", "b(0,0)", "b(0,1)", "b(1,1)")
PUBLISHED = {"(20.17)": "E f00 = 2", "(20.18)": "E f11 = 0", "optimum": "not given"}

#: The right-hand sides: name and (E f00, E f11).
SIDES = (("as printed", (2.0, 0.0)), ("the slide's rows", (5.0 / 3.0, 0.0)), ("inside", (1.5, 0.3)))
FORMS = (("exact", "clique_entropy"), ("Bethe", "camel"), ("tree-reweighted", "tree_reweighted"))
#: The picture: E f00, and the number of values of E f11 from 0 to E f00, full and quick.
ALONG, POINTS, QUICK_POINTS = 1.5, 25, 7


def beliefs(moments: Sequence[float]) -> Vector:
    """b(0, 0), b(0, 1), b(1, 1) of every edge: the moments and the symmetry of the triangle determine them."""
    both, neither = moments[1] / 3.0, moments[0] / 3.0
    return np.array([neither, 0.5 * (1.0 - both - neither), both])


def run(sheet: Sheet) -> None:
    """The optima at the three right-hand sides, and along a line of moments. Nothing is random; a quick run draws fewer
    points of the line."""
    from convexstruct.models import FORMULATIONS  # imported here because it loads CVXPY

    def optimum(problem: Any, form: str) -> Any:
        return FORMULATIONS[f"log_linear.{form}"].builder(problem).reference("CLARABEL")

    points = sheet.pick(POINTS, QUICK_POINTS)
    sheet.total = len(SIDES) + points
    sheet.notes += [
        "the printed right-hand side of (20.17), 2, does not follow from the slide's three rows, which give 5/3",
        "the exact entropy is certified: the bracket that the solver's answer proves, recomputed from the problem",
        "Bethe and tree-reweighted entropies are other problems: their optima are a solver's word",
    ]
    for said, moments in SIDES:
        sheet.step(said)
        problem = triangle(moments)
        for name, form in FORMS:
            found = optimum(problem, form)
            bracket = f"{found.lower_bound:.7f} to {found.upper_bound:.7f}" if found.certified else None
            sheet.add(said, *moments, name, found.value, bracket, *beliefs(moments))
        direction = problem.runaway()
        if direction is not None:
            sheet.notes.append(f"E f00 = {moments[0]:.4g}, E f11 = 0: {no_maximum(problem.factors, direction)}")
    line, values = np.linspace(0.0, ALONG, points), []
    for at in line:
        sheet.step(f"E f11 = {at:.3g}")
        values.append([optimum(triangle((ALONG, float(at))), form).value for _, form in FORMS])
    sheet.left_out(f"the picture is drawn from {QUICK_POINTS} points, not {POINTS}")
    exact, bethe, reweighted = np.array(values).T
    figure, (whole, apart) = panels(2, size=(10.0, 3.6))
    others = {"Bethe": (bethe, UPPER, "--"), "tree-reweighted": (reweighted, LOWER, ":")}
    across = rf"$E f_{{11}}$, at $E f_{{00}} = {ALONG:g}$"
    curves = {"exact": (exact, "black", "-"), **others}
    lines(whole, line, curves, xlabel=across, ylabel="greatest entropy, nats")
    less = {name: (each - exact, *style) for name, (each, *style) in others.items()}
    lines(apart, line, less, xlabel=across, ylabel="less the exact one, nats")
    apart.axhline(0.0, color=GREY, lw=0.8)
    for axes in (whole, apart):
        axes.grid(color="#e4e4e4", lw=0.6)
    sheet.figures["Entropies of the triangle"] = figure
