"""Paper 0, section 3.1: the limits of the two working-set variants.

The online variant keeps one (mu, omega) for all working sets, not one for each. It can reach only points of
conv(union of the D_t), so its limit is the optimum of another problem,

    w* = min_theta -c'theta + eta max_t sum_{k in K_t} eps_k(theta),          subject to (3)-(5),

which is below the optimum of (P). The coordinate variant, which keeps a point for each set, solves (P).

Here w* is computed without either variant. By duality w* = max over p in the simplex of f(p), f(p) the optimum of (P)
with the examples of K_t weighted by p_t. f is concave: each evaluation gives a plane above it. The maximum of the least
of these planes (Kelley 1960) bounds w* from above, and certified values of f bound it from below.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import linprog

from convexstruct.arrays import Vector
from convexstruct.core.certificates import relative_gap
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.core.solution import Solution
from convexstruct.datasets.generated.ring import HARD, ring
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.working_sets import CoordinateWorkingSets, OnlineWorkingSets, runs
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.plots import GREY, LOWER, UPPER, finish, panels
from convexstruct.tolerances import HIGH, MID

NAME = "online-variant"
PAPER = "paper 0, section 3.1, the online learning variant"
TITLE = "Working sets: the limit of the online variant is the optimum of another problem"

SUBSETS = (1, 2, 4, 8)
N_EXAMPLES, LENGTH, N_STATES = 8, 10, 5
#: Seconds that each variant gets with each number of sets: the online variant rests after one, the other goes on.
SECONDS, QUICK_SECONDS = 10.0, 2.0
ETA = 0.5
#: Least weight p_t of a working set, since weights of examples must be positive.
LEAST = 1e-4

COLUMNS = (
    "subsets", "optimum", "worst set", "online limit", "online P", "online gap", "coord. bound", "coord. gap",
    "seconds",
)  # fmt: skip


class Bracket(NamedTuple):
    """lower <= optimum <= upper, both certified."""

    lower: float
    upper: float

    @property
    def middle(self) -> float:
        return 0.5 * (self.lower + self.upper)


def run(sheet: Sheet) -> None:
    """Solve one small instance by both variants with several numbers of working sets; the seed draws it."""
    problem = instance(sheet.seed)
    subsets, limit = sheet.pick((SUBSETS, SECONDS), (SUBSETS[:3], QUICK_SECONDS))
    sheet.total = 3 * len(subsets) + 1
    sheet.step("optimum of (P)")
    truth = solve(problem, tol=HIGH, time_limit=20.0)
    found: dict[int, tuple[Bracket, Solution]] = {}
    for m in subsets:
        begin = sheet.seconds
        sheet.step(f"{m} subsets: optimum of the worst set")
        worst = worst_set_optimum(problem, m, MID.gap)
        sheet.step(f"{m} subsets: online variant")
        online = solve(problem, OnlineWorkingSets(m), tol=HIGH, max_iterations=300, time_limit=limit)
        sheet.step(f"{m} subsets: coordinate variant")
        coordinate = solve(problem, CoordinateWorkingSets(m), tol=MID, max_iterations=1000, time_limit=limit)
        found[m] = worst, online
        sheet.add(
            m, truth.primal, worst.middle, online.lower_bound, online.primal, online.gap, coordinate.lower_bound,
            coordinate.gap, sheet.seconds - begin,
        )  # fmt: skip
    sheet.notes += [
        f"ring of {N_STATES} places, {N_EXAMPLES} sequences of length {LENGTH}, eta {ETA}, seed {sheet.seed}; the "
        f"optimum of (P) is certified to a relative gap of {truth.gap:.0e}, that of the worst set to "
        f"{max(relative_gap(w.upper, w.lower) for w, _ in found.values()):.0e}, by neither of the variants",
        "optimum: of (P); worst set: w*, the optimum with the worst set's violations alone; online limit: the online "
        "variant's certified lower bound; online P, gap: (P) at its best point, and its gap on (P); coord.: the same "
        "of the coordinate variant",
        "with one subset all problems are one; with more, the online variant stops at the optimum of the worst set, "
        "below the optimum of (P), and no number of passes changes that",
        f"the coordinate variant solves (P), slowly: its gap is what {limit:g} s left",
        "the paper warns that the solution 'may be confined in a subset of the feasible region' if sets are badly "
        "chosen: it is confined whenever no set holds all examples",
        "another draw, computed elsewhere: optimum 61.0896; with 2, 4, 8 subsets 38.4388, 27.3939, 19.9802",
    ]
    sheet.left_out(f"8 subsets left out, and each variant stopped after {limit:g} s")
    caption = "Lower bounds of the online variant against passes over the sets; dots: optimum of the worst set."
    sheet.figures[caption] = picture(truth.primal, found)


def instance(seed: int) -> GenerativeMargin:
    """Eight sequences on a ring of five places."""
    data = ring(N_EXAMPLES, LENGTH, N_STATES, HARD, seed)
    return GenerativeMargin.hmm(data.symbols, data.states, N_STATES, data.n_symbols, eta=ETA, loss="ring")


def worst_set_optimum(problem: GenerativeMargin, n_subsets: int, gap: float) -> Bracket:
    """min -c'theta + eta max_t sum_{k in K_t} w_k eps_k by at most 150 cutting planes on the weights of the sets."""
    features = problem.features
    if not isinstance(features, HMMCounts):
        raise ValueError(f"problem has the features {type(features).__name__}, wanted chains: HMMCounts")
    sets = runs(n_subsets, problem.n_examples, partition=True)
    set_of = np.repeat(np.arange(len(sets)), [high - low for low, high in sets])
    p = np.full(len(sets), 1.0 / len(sets))
    planes: list[tuple[float, Vector]] = []
    lower, upper = -np.inf, np.inf
    start = None
    while relative_gap(upper, lower) > gap and len(planes) < 150:
        weighted = replace(problem, features=replace(features, weights=features.weights * p[set_of]))
        solution = solve(weighted, tol=0.1 * gap, start=start)
        lower = max(lower, solution.lower_bound)
        theta = weighted.shift(solution.point["theta"])
        slack = features.weights * problem.evaluate(theta).slack
        slope = problem.eta * np.bincount(set_of, weights=slack).astype(np.float64)
        planes.append((float(-problem.c @ theta), slope))
        upper, p = _highest(planes)
        p = np.maximum(p, LEAST)
        p /= p.sum()
    return Bracket(lower, upper)


def _highest(planes: list[tuple[float, Vector]]) -> tuple[float, Vector]:
    """max over the simplex of the least plane a_j + g_j'p: (value, p)."""
    constant = np.array([a for a, _ in planes])
    slopes = np.array([g for _, g in planes])
    n = slopes.shape[1]
    found = linprog(
        c=np.append(np.zeros(n), -1.0),
        A_ub=np.column_stack((-slopes, np.ones(len(planes)))),
        b_ub=constant,
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, 1.0)] * n + [(None, None)],
    )
    return float(-found.fun), np.asarray(found.x[:n])


def picture(optimum: float, found: dict[int, tuple[Bracket, Solution]]) -> Figure:
    """The solver's own lower bounds against passes, and the optima of the worst set, which are their limits."""
    figure, (axes,) = panels(size=(6.4, 3.6))
    axes.axhline(optimum, color=UPPER, lw=1.2, label="optimum of (P)")
    for (m, (worst, online)), shade in zip(found.items(), np.linspace(1.0, 0.4, len(found))):
        trace = online.trace
        axes.plot(trace.iteration, trace.lower_bound, color=LOWER, alpha=shade, lw=1.4)
        end = trace.iteration[-1], worst.middle
        axes.plot(*end, "o", color=GREY, ms=4)
        text = f"{m} subset{'s' if m > 1 else ''}"
        axes.annotate(text, end, xytext=(5, -3), textcoords="offset points", fontsize="small")
    longest = max(online.trace.iteration[-1] for _, online in found.values())
    finish(axes, "lower right", xscale="log", xlim=(1, 3.0 * longest), ylim=(0.0, 1.08 * optimum),
           xlabel="pass over the working sets", ylabel="solver's own lower bound")  # fmt: skip
    return figure
