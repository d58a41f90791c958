"""Paper 2, appendix B: the time of a projection onto a box with one equality as n grows, "a linear time algorithm".

Four methods project m onto {0 <= a <= 1, <y, a> = 0}, the dual set of an SVM with a bias (times n); m is normal, and
one sign y in five is positive: Newton's steps from the root of a sample (the default), medians of all breakpoints
(Algorithm 2), sorting them, and general QP solvers (Clarabel, and OSQP if it is installed) through CVXPY. They are
compared with one `numpy.partition` of n numbers at the median, which a search by medians cannot undercut. The time of
a general solver is that of its solve without compilation; the other times are in processor seconds, the best of several
runs. Every answer is certified.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.certificates import certify
from convexstruct.core.experiment import Sheet
from convexstruct.families.projection.box import BoxProjection
from convexstruct.oracles.box.projection import Search, project_with_multiplier
from convexstruct.plots import GREEN, GREY, LOWER, ORANGE, UPPER, finish, panels

NAME = "projection"
PAPER = "paper 2, appendix B"
TITLE = "Cost of projecting onto a box with one equality as n grows: by medians, by sorting, by general QP solvers"
COLUMNS = (
    "n", "partition ms", "bracket ms", "medians ms", "sorting ms", "Clarabel ms", "OSQP ms", "bracket / partition",
    "certified gap", "apart",
)  # fmt: skip

SIZES = tuple(10**k for k in range(2, 8))
#: Largest n of each method, so that it needs seconds and a few GiB at most.
SORTING, CLARABEL, OSQP = 1_000_000, 100_000, 100_000
QUICK = (10_000, 1_000)
#: Each method is repeated until this many seconds are spent, and at most this many times.
SECONDS, REPEATS = 0.3, 20
#: Powers are fitted from this n on: below it, Python's overhead dominates.
FITTED = 10_000


class Way(NamedTuple):
    """The result of one method. seconds : of its fastest run. gap : certified, relative. a : its projection."""

    seconds: float
    gap: float
    a: Vector


def run(sheet: Sheet) -> None:
    """Time every method at every n up to its largest; the seed draws m and y."""
    sizes = sheet.pick(SIZES, tuple(n for n in SIZES if n <= QUICK[0]))
    general = sheet.pick(max(CLARABEL, OSQP), QUICK[1])
    with_osqp = importlib.util.find_spec("osqp") is not None
    sheet.total = len(sizes)
    for n in sizes:
        sheet.step(f"n = {n}")
        problem = instance(n, sheet.seed)
        partition = best(partial(np.partition, problem.m, n // 2))
        first, medians = searched(problem, "bracket"), searched(problem, "medians")
        sorting = searched(problem, "sorting") if n <= SORTING else None
        clarabel = solved(problem, "CLARABEL") if n <= min(CLARABEL, general) else None
        osqp = solved(problem, "OSQP") if with_osqp and n <= min(OSQP, general) else None
        exact = [way for way in (medians, sorting) if way is not None]
        ways = (first, medians, sorting, clarabel, osqp)
        sheet.add(
            n, 1e3 * partition, *(None if way is None else 1e3 * way.seconds for way in ways),
            first.seconds / partition, max(abs(way.gap) for way in (first, *exact)),
            max(np.abs(way.a - first.a).max() for way in exact),
        )  # fmt: skip
    table = sheet.table()
    powers = {head: power(sizes, [row[head] for row in table]) for head in COLUMNS[1:7]}
    fitted = [f"{head.removesuffix(' ms')} n^{p:.2f}" for head, p in powers.items() if p is not None]
    sheet.notes += [
        "partition: one numpy.partition of n numbers at the median, the yardstick; bracket: the default, Newton's "
        "steps from the root of a sample's problem; medians: Algorithm 2; Clarabel, "
        "OSQP: what they say they took; certified gap: the largest of the exact ways; apart: the largest difference of "
        "answers",
        f"fitted from n = {FITTED} on: {', '.join(fitted) or 'too few sizes'}",
        f"left out: sorting above {SORTING}, general solvers above {CLARABEL}",
    ]
    if not with_osqp:
        sheet.notes.append("left out: OSQP, which is not installed")
    sheet.left_out(f"n above {QUICK[0]}, and general solvers above {QUICK[1]}, left out")
    figure, (axes,) = panels(size=(6.4, 4.0))
    styles = {
        "partition ms": (GREY, ":"), "bracket ms": (LOWER, "-"), "medians ms": (GREEN, "-"),
        "sorting ms": (UPPER, "-"), "Clarabel ms": ("#555555", "--"), "OSQP ms": (ORANGE, "--"),
    }  # fmt: skip
    for head, (colour, line) in styles.items():
        shown = [(row["n"], row[head]) for row in table if row[head] is not None]
        if shown:
            axes.plot(*zip(*shown), color=colour, ls=line, marker="o", ms=3, lw=1.4, label=head.removesuffix(" ms"))
    finish(axes, xscale="log", yscale="log", xlabel="n", ylabel="milliseconds")
    sheet.figures["Milliseconds of one projection against n."] = figure


def instance(n: int, seed: int) -> BoxProjection:
    """{0 <= a <= 1, <y, a> = 0}: the dual of an SVM with a bias, times n."""
    rng = np.random.default_rng([81, seed, n])
    return BoxProjection(rng.normal(size=n), 0.0, 1.0, np.where(rng.random(n) < 0.2, 1.0, -1.0), 0.0)


def best(call: Callable[[], object]) -> float:
    """Processor seconds of the fastest of several calls, which is disturbed least by other processes."""
    found: list[float] = []
    spent = 0.0
    while len(found) < 3 or (spent < SECONDS and len(found) < REPEATS):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
        spent += found[-1]
    return min(found)


def searched(problem: BoxProjection, search: Search) -> Way:
    """The projection by the package's own oracle, with one of its searches for the root."""

    def project() -> tuple[Vector, float]:
        return project_with_multiplier(problem.m, problem.lower, problem.upper, problem.s, problem.z, None, search)

    a, rho = project()
    return Way(best(project), certify(problem, a, {"rho": np.array(rho)}).gap, a)


def solved(problem: BoxProjection, solver: str) -> Way | None:
    """The projection by a general solver: the second of two solves of one program, which needs no compilation."""
    from convexstruct.models.projection.boxes import box

    formulation = box(problem)
    seconds = [formulation.reference(solver) for _ in range(2)]
    if not seconds[-1].accurate:
        return None
    solution = formulation.problem.solution
    own = solution.attr.get("solve_time") or seconds[-1].seconds
    a = np.asarray(formulation.variables["a"].value)
    return Way(float(own), certify(problem, a).gap, a)


def power(sizes: Sequence[float], seconds: Sequence[float | None]) -> float | None:
    """p of seconds ~ n^p, by least squares in logarithms over n >= `FITTED`; None with fewer than two."""
    kept = [(n, s) for n, s in zip(sizes, seconds) if s is not None and n >= FITTED]
    if len(kept) < 2:
        return None
    x, y = np.log(np.array(kept)).T
    return float(np.polyfit(x, y, 1)[0])
