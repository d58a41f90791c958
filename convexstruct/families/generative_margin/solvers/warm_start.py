"""The theta at which the decomposition methods start: that of an earlier solution, or uniform distributions."""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.problem import GenerativeMargin

#: theta, in nats, that stands for -inf in a start (a probability of 0): solvers need a finite one.
LEAST_THETA = -60.0


def starting_theta(problem: GenerativeMargin, start: Solution | None) -> Vector:
    """A feasible, finite theta: that of ``start``, or else uniform distributions."""
    if start is None:
        return np.asarray(problem.trivial()[0]["theta"])
    theta = problem.as_point(start.point)["theta"]
    if np.isnan(theta).any():
        return problem.uniform()
    return np.asarray(problem.repair({"theta": np.maximum(theta, LEAST_THETA)})["theta"])
