"""Paper 4, Figure 20.1: the log-likelihood surface of the Markov network A-B-C.

Two free parameters, theta_1 = ln phi_1[a1, b1] and theta_2 = ln phi_2[b1, c1], all others 0; M = 100 instances with
M[a1, b1] = 90 and M[b1, c1] = 15, so that l(theta) = 90 theta_1 + 15 theta_2 - 100 ln Z. It is concave, and its maximum
is where the model's moments are 0.9 and 0.15.

**By hand.** With p = e^theta_1 / (1 + e^theta_1), q the same of theta_2 and r = P(b1), E f_1 = r p and E f_2 = r q; the
four labellings with b0 weigh 1 each, so that r = 1 / (1 + 4 (1 - p) (1 - q)). With p = 0.9 / r and q = 0.15 / r this is
5 r^2 - 5.2 r + 0.54 = 0, whose greater root is r.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.features.graphs.factors import factors_of_features
from convexstruct.plots import GREY, LOWER, UPPER

NAME = "log-likelihood-surface"
PAPER = "paper 4, Figure 20.1"
TITLE = "The log-likelihood surface of the Markov network A-B-C"
COLUMNS = ("point", "theta_1", "theta_2", "log-likelihood", "E f_1", "E f_2")
PUBLISHED = {"picture": "a surface and its level lines, without numbers"}

#: M, M[a1, b1] and M[b1, c1].
INSTANCES, FIRST, SECOND = 100.0, 90.0, 15.0
#: Ranges of theta_1 and theta_2 of the surface, and points in each, full and quick.
RANGES, POINTS, QUICK_POINTS = ((-2.0, 9.0), (-8.0, 3.0)), 56, 23
#: Rows of the table: (theta_1, theta_2).
SHOWN = ((0.0, 0.0), (2.0, 0.0), (4.0, 0.0), (4.0, -2.0), (8.0, -4.0))
#: Relative gap; the relative error of theta is then about its square root.
GAP = 1e-10


def network() -> MarkovRandomField:
    """Counts of (A, B) and (B, C); cells that the paper does not name have no feature."""
    both = np.array([[0.0, 0.0], [0.0, 1.0]])
    factors = factors_of_features([2, 2, 2], [[((0, 1), both)], [((1, 2), both)]])
    counts = [[[INSTANCES - m, 0.0], [0.0, m]] for m in (FIRST, SECOND)]
    return MarkovRandomField.read(factors, counts=counts)


def by_hand() -> Vector:
    """The maximum likelihood parameters."""
    r = (5.2 + math.sqrt(5.2**2 - 4.0 * 5.0 * 0.54)) / 10.0
    share = np.array([FIRST, SECOND]) / INSTANCES / r
    return np.log(share / (1.0 - share))


def surface(problem: MarkovRandomField, first: Vector, second: Vector) -> Matrix:
    """l(theta) on a grid, (points of theta_2, points of theta_1)."""
    return np.array([[-problem.value_and_gradient(np.array([x, y]))[0] for x in first] for y in second])


def run(sheet: Sheet) -> None:
    """The surface, its maximum with certified bounds, and the moments there. Nothing is random; a quick run draws it on
    a coarser grid."""
    sheet.total = 2
    sheet.step("maximum")
    problem = network()
    solution = solve(problem, tol=GAP)
    theta = solution.point["theta"]
    for name, at in [("maximum", theta), ("maximum by hand", by_hand()), *(("", np.array(one)) for one in SHOWN)]:
        value, gradient = problem.value_and_gradient(at)
        sheet.add(name, *at, -value, *(gradient + problem.sums) / problem.mass)
    sheet.step("surface")
    grids = [np.linspace(*limits, sheet.pick(POINTS, QUICK_POINTS)) for limits in RANGES]
    sheet.notes += [
        f"certified: {-solution.primal:.8g} <= maximum of the log-likelihood <= {-solution.lower_bound:.8g}",
        "the moments of the model at the maximum are those of the data, 0.9 and 0.15 (Theorem 20.3.1)",
    ]
    sheet.left_out(f"the surface is drawn from {QUICK_POINTS} points each way, not {POINTS}")
    sheet.figures["The log-likelihood of A-B-C"] = draw(grids, surface(problem, *grids), theta)


def draw(grids: list[Vector], heights: Matrix, theta: Vector) -> Figure:
    """The surface, and its level lines with the maximum."""
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    solid = figure.add_subplot(1, 2, 1, projection="3d")
    x, y = np.meshgrid(*grids)
    solid.plot_surface(x, y, heights, cmap="viridis", lw=0, antialiased=True)
    solid.view_init(elev=28, azim=-120)
    flat = figure.add_subplot(1, 2, 2)
    top = float(heights.max())
    levels = top - np.array([640.0, 480.0, 320.0, 240.0, 160.0, 120.0, 80.0, 40.0, 20.0, 10.0, 5.0, 1.0])
    lines = flat.contour(x, y, heights, levels=levels, colors=LOWER, linewidths=0.9, linestyles="solid")
    flat.clabel(lines, levels[::3], fontsize=7, fmt="%.0f")
    flat.plot(*theta, "o", color=UPPER, ms=5)
    flat.annotate("maximum", tuple(theta), xytext=(6, -14), textcoords="offset points", color=UPPER, fontsize=9)
    flat.axhline(0.0, color=GREY, lw=0.5)
    flat.axvline(0.0, color=GREY, lw=0.5)
    for axes in (solid, flat):
        axes.set(xlabel=r"$\ln \phi_1[a^1, b^1]$", ylabel=r"$\ln \phi_2[b^1, c^1]$")
    solid.set_zlabel("log-likelihood")
    return figure
