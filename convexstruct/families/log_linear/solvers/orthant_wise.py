r"""Orthant-wise L-BFGS (Andrew and Gao 2007), for penalties with |theta|_1.

Inside an orthant |theta|_1 is linear and P smooth. Each round takes the subgradient v of least norm, multiplies -v by
the L-BFGS matrix of the smooth part, sets entries of this direction d that do not have the sign of -v to 0, and
searches along theta + t d projected to the orthant of theta (of -v where theta is 0): entries that would change their
sign become 0. So the zeros of the solution are exact. H_0 is that of `convexstruct.families.log_linear.solvers.lbfgs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, one_of, read_options
from convexstruct.core.quasi_newton import ARMIJO, SEARCH_TRIALS, VALUE_ROUNDING
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.families.log_linear.solvers.descent import Here, LogLinear
from convexstruct.families.log_linear.solvers.lbfgs import METRICS, rounds


@dataclass(frozen=True)
class OrthantWise:
    """memory : pairs of changes that are kept, at least 1. metric : "scalar" or "diagonal", as in `LBFGS`."""

    memory: int = 6
    metric: str = "diagonal"

    def __post_init__(self) -> None:
        read_options(self, memory=at_least(1), metric=one_of(*METRICS))

    def iterate(
        self, problem: ConditionalRandomField | MarkovRandomField | PseudoLikelihood, start: Solution | None = None
    ) -> Iterator[Iterate]:
        """Yield each point with its bounds; ``start`` gives the first. Without l1 it is L-BFGS with halved steps."""
        yield from rounds(problem, start, self.memory, self.metric, search)


def search(problem: LogLinear, here: Here, direction: Vector) -> tuple[Here | None, int]:
    """The first of the steps 1, 1/2, 1/4, .. along ``direction`` inside the orthant that decreases P, or None; and how
    many were tried."""
    if problem.penalty.l1:
        direction = np.where(direction * here.gradient < 0.0, direction, 0.0)
    orthant = np.where(here.theta != 0.0, np.sign(here.theta), -np.sign(here.gradient))
    noise, length = VALUE_ROUNDING * max(1.0, abs(here.value)), 1.0
    for trial in range(1, SEARCH_TRIALS + 1):
        deadline.check()
        theta = here.theta + length * direction
        if problem.penalty.l1:
            theta[theta * orthant < 0.0] = 0.0
        promised = float(here.gradient @ (theta - here.theta))
        if not promised < 0.0:
            return None, trial - 1
        there = Here.at(problem, theta)
        if there.value <= here.value + ARMIJO * promised + noise:
            return there, trial
        length *= 0.5
    return None, SEARCH_TRIALS
