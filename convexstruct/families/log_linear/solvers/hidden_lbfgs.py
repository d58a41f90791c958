"""Models with hidden variables by the gradient of paper 4, unclamped minus clamped expectations, and L-BFGS.

P is not convex. The method is that of `.lbfgs`, with l1 that of `.orthant_wise`; pairs without positive curvature are
not kept, so that every direction is one of descent. The method ends at a stationary point and reports its residual;
nothing else is claimed of it. theta = 0 is stationary wherever hidden labels may be permuted, so that starts are drawn
at random; of several the best result is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.quasi_newton import Pairs
from convexstruct.core.rounds import Patience
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.solvers import orthant_wise
from convexstruct.families.log_linear.solvers.descent import Here, LogLinear
from convexstruct.families.log_linear.solvers.lbfgs import Metric, search, stepped

#: A start ends after so many rounds in which P fell by rounding alone.
PATIENCE = 8


@dataclass(frozen=True)
class HiddenLBFGS:
    """memory : pairs of changes that L-BFGS keeps, at least 1. restarts : number of starts, at least 1.
    spread : standard deviation of the normal distribution that starts are drawn from. seed : of the draws."""

    memory: int = 12
    restarts: int = 1
    spread: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, memory=at_least(1), restarts=at_least(1), spread=positive, seed=at_least(0))

    def iterate(self, problem: HiddenField, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield each point; ``start`` gives the first, and the others are drawn."""
        calls = 0
        for last, theta in each_start(problem, start, self.restarts, self.spread, self.seed):
            here, patience = Here.at(problem, theta), Patience(PATIENCE, least_unit(problem))
            calls += 1
            for here, tries in descent(problem, here, self.memory):  # noqa: B020
                calls += tries
                yield report(problem, here, calls)
                if patience.ended(here.value, 0.0):
                    break
            yield report(problem, here, calls, ended=True, done=last)


def each_start(
    problem: HiddenField, start: Solution | None, restarts: int, spread: float, seed: int
) -> Iterator[tuple[bool, Vector]]:
    """(whether it is the last, theta) of each start: the one given, or 0 where P is convex, and draws."""
    rng = np.random.default_rng(seed)
    restarts = 1 if problem.observed else restarts
    for k in range(restarts):
        theta = spread * rng.normal(size=problem.dimension)
        if k == 0 and start is not None:
            theta = np.array(start.point["theta"], dtype=np.float64)
        elif problem.observed:
            theta = np.zeros(problem.dimension)
        yield k + 1 == restarts, theta


def descent(problem: LogLinear, here: Here, memory: int) -> Iterator[tuple[Here, int]]:
    """Points of L-BFGS from ``here`` on, none with a greater P than the one before, and the number of evaluations of
    each; ends where no step lowers P."""
    pairs, metric = Pairs(memory, problem.dimension), Metric(problem, "diagonal")
    along = orthant_wise.search if problem.penalty.l1 else search
    for step in count():
        metric.renew(step, here)
        there, tries = stepped(problem, here, pairs, metric, along)
        if there is None or there.value > here.value:
            return
        here = there
        yield here, tries


def report(problem: HiddenField, here: Here, calls: int, ended: bool = False, done: bool = False) -> Iterate:
    """The iterate of a point; where a start has ``ended``, its message gives the stationarity of the point. Where the
    value is so near 0 that its rounding decides about the gap, the certificate's upper bound stands for it."""
    theta, value = here.theta, here.value
    if not problem.observed and value < least_unit(problem):
        value = problem.primal({"theta": theta}).upper
    bound = here.lower_bound(problem.penalty) if problem.observed else 0.0
    said = ""
    if ended:
        said = f"stationary up to {problem.stationarity(theta):.1e} of the largest expected feature"
        if not problem.observed:
            said += "; P is not convex, and nothing is claimed of other points"
    return Iterate({"theta": theta}, lambda: problem.witness(theta), value, bound, calls, done=done, message=said)
