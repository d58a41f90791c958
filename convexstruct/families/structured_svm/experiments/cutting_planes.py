r"""Paper 1, "Convergence results" and "Single slack formulation": how many constraints cutting planes add, beside the
theorems.

    one slack an example   at most max(2 N Dmax / eps, 8 C Dmax R^2 / eps^2) labellings          (`n_slack_bound`)
    one slack in all       at most log2(Dmax / (4 R^2 C)) + 16 R^2 C / eps cuts                  (`one_slack_bound`)

in the scale 1/2 |w|^2 + (C/N) sum_i xi_i, with the largest loss Dmax and R = max |e_i(y) df_i(y)| (the slides print R^2
as an inner product and misprint the logarithm; corrected in `solvers.n_slack` and `one_slack`). The chains
are generated and short, so that R is the maximum over all labellings, written out, and the algorithms are those of the
theorems: the restricted problem is solved exactly after each labelling, and no labelling comes from a cache.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.core.solution import Solution
from convexstruct.datasets.generated.structured import random_chains
from convexstruct.families.structured_svm.problem import Scaling, StructuredSVM
from convexstruct.families.structured_svm.solvers.n_slack import NSlack, n_slack_bound
from convexstruct.families.structured_svm.solvers.one_slack import OneSlack, one_slack_bound
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.plots import GREY, LOWER, UPPER, finish, panels

NAME = "cutting-planes"
PAPER = "paper 1, slides on convergence results [TJHA05] and the single slack formulation [JFY09]"
TITLE = "Cutting planes: constraints added until none is violated by more than eps, beside the theorems' bounds"
COLUMNS = (
    "scaling", "examples", "eps", "R", "n-slack", "n-slack bound", "n-slack at once", "one-slack", "one-slack bound",
    "one-slack, cache", "P - D, n-slack", "P - D, one-slack", "C eps",
)  # fmt: skip

#: Length, labels and features of the chains; C of paper 1.
LENGTH, N_LABELS, N_FEATURES, C_MEAN = 5, 4, 6, 1.0
EPS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
#: Number of examples where eps varies; numbers of examples where eps is `FIXED`.
EXAMPLES, SIZES, FIXED = 40, (5, 10, 20, 40, 80, 160), 0.01
QUICK_EXAMPLES, QUICK_EPS, QUICK_SIZES = 10, EPS[:5:2], SIZES[:3]
SCALINGS: tuple[Scaling, ...] = ("margin", "slack")
#: A relative gap too small to stop a run: each run ends by its own rule, the one of the theorems.
NEVER = 1e-15

#: The algorithms of the two theorems, as the table calls them.
NAMES = ("n-slack", "one-slack")


class Counts(NamedTuple):
    """Constraints until none is violated by more than eps, and what is left between the certified bounds.

    n_slack : labellings, the problem solved after each. at_once : labellings, the problem solved once a pass over the
    examples. one_slack : cuts. cached : cuts, some from the cache. n_gap, one_gap : P - D, certified, of n_slack and of
    one_slack.
    """

    n_slack: int
    at_once: int
    one_slack: int
    cached: int
    n_gap: float
    one_gap: float


def run(sheet: Sheet) -> None:
    """Count for several eps, and for several numbers of examples; the seed draws the chains."""
    examples, every_eps, sizes = sheet.pick((EXAMPLES, EPS, SIZES), (QUICK_EXAMPLES, QUICK_EPS, QUICK_SIZES))
    wanted: dict[tuple[Scaling, int], tuple[float, ...]] = {("margin", n): (FIXED,) for n in sizes}
    wanted["margin", examples] = tuple(sorted({*every_eps, FIXED}, reverse=True))
    wanted["slack", examples] = every_eps
    sheet.total = sum(map(len, wanted.values()))
    for (scaling, n), some in wanted.items():
        problem = instance(n, scaling, sheet.seed)
        r = radius(problem)
        for eps in some:
            sheet.step(f"{scaling} scaling, {n} examples, eps {eps:g}")
            found = count(problem, eps)
            sheet.add(
                scaling, n, eps, r, found.n_slack, n_slack_bound(problem, eps, r), found.at_once, found.one_slack,
                one_slack_bound(problem, eps, r), found.cached, found.n_gap, found.one_gap, C_MEAN * eps,
            )  # fmt: skip
    table = sheet.table()
    sheet.notes += [
        f"chains of {LENGTH} nodes, {N_LABELS} labels, {N_FEATURES} features, C = {C_MEAN:g} in paper 1's scale, "
        f"Hamming loss; R over all {N_LABELS**LENGTH} labellings of each; n-slack: labellings, the problem solved "
        "after each; at once: labellings, the problem solved once a pass; one-slack: cuts, each from the oracle; "
        "cache: cuts, some of them from labellings found before",
        "P - D: between the certified bounds at the end, which both theorems put at C eps or below",
        f"rows of eps {FIXED:g}: constraints against the number of examples, which is what [JFY09] is about",
    ]
    sheet.left_out(
        f"{EXAMPLES - examples} of the {EXAMPLES} examples, half of the eps, and more than {QUICK_SIZES[-1]} examples "
        "left out"
    )
    sheet.figures[
        "Left and middle: constraints against eps (dots) and the theorems' bounds (dashed). Right: "
        f"constraints against the number of examples, eps {FIXED:g}, margin scaling."
    ] = draw(table, examples)


def instance(n: int, scaling: Scaling = "margin", seed: int = 0) -> StructuredSVM:
    """The problem of ``n`` chains."""
    g = random_chains(n, LENGTH, N_LABELS, N_FEATURES, seed=seed)
    return StructuredSVM.read(g.node_features, g.labels_each, N_LABELS, scaling=scaling, C_mean=C_MEAN)


def radius(problem: StructuredSVM) -> float:
    """R = max |e_i(y) df_i(y)|, over all labellings written out."""
    every = enumerate_pairwise(problem.features, problem.loss)
    norms = np.sqrt(np.asarray(every.difference.multiply(every.difference).sum(axis=1)).ravel())
    return float((norms * every.loss if problem.scaling == "slack" else norms).max())


def count(problem: StructuredSVM, eps: float) -> Counts:
    """Run all four solvers until they end by their own rules."""
    n_slack = solve(problem, NSlack(eps=eps, block=1, inner=0.0), tol=NEVER)
    at_once = solve(problem, NSlack(eps=eps, inner=0.0), tol=NEVER)
    one_slack = solve(problem, OneSlack(eps=eps, cache=0), tol=NEVER)
    cached = solve(problem, OneSlack(eps=eps), tol=NEVER)
    return Counts(
        added(n_slack), added(at_once), added(one_slack), added(cached),
        n_slack.primal - n_slack.lower_bound, one_slack.primal - one_slack.lower_bound,
    )  # fmt: skip


def added(solution: Solution) -> int:
    """The constraints added, read from the solver's message; a note of the driver on rounding may precede it."""
    (number,) = re.findall(r"(\d+) (?:labellings added|cuts from)", solution.message)
    return int(number)


def draw(table: list[dict[str, Any]], examples: int) -> Figure:
    """Counts and bounds against eps, one panel a scaling; counts against the number of examples."""
    figure, every = panels(len(SCALINGS) + 1, size=(11.0, 3.5))
    every[0].sharey(every[1])
    shown = [[row for row in table if row["scaling"] == each and row["examples"] == examples] for each in SCALINGS]
    fixed = [row for row in table if row["scaling"] == "margin" and row["eps"] == FIXED]
    for axes, rows, head in zip(
        every, (*shown, sorted(fixed, key=lambda row: int(row["examples"]))), ("eps", "eps", "")
    ):
        x = [float(row[head or "examples"]) for row in rows]
        for name, colour in zip(NAMES, (UPPER, LOWER)):
            axes.plot(x, [row[name] for row in rows], color=colour, lw=1.6, marker="o", ms=3, label=name)
            if head:
                bounds = [row[f"{name} bound"] for row in rows]
                axes.plot(x, bounds, color=colour, lw=1.0, ls="--", label=f"bound on {name}")
        axes.grid(color=GREY, alpha=0.2, lw=0.6)
        finish(axes, "best" if axes is every[0] else None, xscale="log", yscale="log", xlabel=head or "examples")
    for axes, scaling in zip(every, SCALINGS):
        axes.invert_xaxis()
        axes.set_title(f"{scaling} scaling, {examples} examples", fontsize="medium")
    every[-1].set(ylim=(1, 1000), title=f"margin scaling, eps {FIXED:g}")
    every[0].set_ylabel("constraints added")
    return figure
