"""Models with hidden variables by expectation-maximisation (paper 4; Dempster, Laird, Rubin 1977).

A round computes the posteriors of the hidden labels (E step), which give a convex upper bound on P that equals P at the
present theta, and minimises this bound by L-BFGS (M step): it is P of a fully observed model with expected features for
its data. P never rises: if the bound falls, P falls by at least as much, so that the M step need not be exact. The
method ends at a stationary point, with the status STATIONARY where P's gradient says so, and nothing else is claimed of
it. Of several starts the best result is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.rounds import Patience
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.solvers.descent import Here, ended, report, starts
from convexstruct.families.log_linear.solvers.lbfgs import HIDDEN_PATIENCE, LBFGS, descent

#: An M step ends where the largest entry of the bound's gradient has fallen to this share: the next E step gives
#: another bound, with another minimum.
GRADIENT_FALL = 0.3


@dataclass(frozen=True)
class ExpectationMaximisation:
    """memory : pairs of changes that L-BFGS keeps, at least 1. restarts : number of starts, at least 1.
    spread : standard deviation of the normal distribution that starts are drawn from. seed : of the draws."""

    memory: int = LBFGS.memory
    restarts: int = 1
    spread: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, memory=at_least(1), restarts=at_least(1), spread=positive, seed=at_least(0))

    def iterate(self, problem: HiddenField, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield the point after each M step; ``start`` gives the first, and the others are drawn."""
        calls, own, best = 0, problem.basis.problem, None
        for last, theta in starts(problem, start, self.restarts, self.spread, self.seed):
            here, patience = Here.at(own, theta), Patience(HIDDEN_PATIENCE, least_unit(problem))
            while not patience.ended(here.value, 0.0):
                bound = own.majorant(here.theta)
                there = Here.at(bound, here.theta)
                wanted = GRADIENT_FALL * float(np.abs(there.gradient).max(initial=0.0))
                calls += 2
                for there, tries in descent(bound, there, self.memory):  # noqa: B020
                    calls += tries
                    if float(np.abs(there.gradient).max(initial=0.0)) <= wanted:
                        break
                here = Here.at(own, there.theta)
                yield report(problem, here, calls)
            best = here if best is None or here.value < best.value else best
            end = ended(problem, best, "no step decreases P any further")
            yield replace(report(problem, best, calls, done=last, message=end.message), stationary=end.stationary)
