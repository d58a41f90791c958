r"""The kernel CRF (32) in function space: t = K u is kept beside each point u, so that a line search needs no product
with K.

P's gradient in the inner product <u, v>_K = u'Kv is g = lam u - (z - m(u)); the Euclidean one is K g. Every direction d
used here is a combination of such g and of earlier steps, whose products with K are known: an iteration computes K g
once, and the values along a line, at t + a K d, take forward-backward alone. K is never inverted.

The certified gap of u and its own Gibbs marginals is g'Kg / (2 lam) (see `problem`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences

#: Below this share of |P| a difference of two values is rounding.
VALUE_ROUNDING = 1e-13


@dataclass(frozen=True)
class Value:
    """P at u: t = K u, the value, and the gradient g in the inner product of K."""

    u: Vector
    t: Vector
    value: float
    g: Vector


class FunctionSpace:
    """P, its gradient and its gap, with the number of oracle calls and the seconds spent so far."""

    def __init__(self, problem: GaussianProcessSequences) -> None:
        self.problem = problem
        self.oracle_calls = 0
        self.parts = {"kernel products": 0.0, "forward-backward": 0.0}

    def start(self, solution: Solution | None) -> Value:
        """P at u = 0, or at an earlier solution."""
        u = np.zeros(self.problem.dimension)
        if solution is not None:
            found = self.problem.as_point(solution.point)["u"]
            u = found.copy() if np.isfinite(found).all() else u
        return self.at(u, self.multiply(u))

    def at(self, u: Vector, t: Vector) -> Value:
        """P at u, with t = K u known."""
        p, begin = self.problem, time.perf_counter()
        log_partition, mean = p.log_partition(t)
        self.parts["forward-backward"] += time.perf_counter() - begin
        self.oracle_calls += 1
        value = float(0.5 * p.lam * (u @ t) - p.truth @ t + log_partition)
        return Value(u, t, value, p.lam * u - (p.truth - mean))

    def multiply(self, v: Vector) -> Vector:
        """K v."""
        begin = time.perf_counter()
        product = self.problem.multiply(v)
        self.parts["kernel products"] += time.perf_counter() - begin
        return product

    def report(self, here: Value, kg: Vector, done: bool = False, message: str = "") -> Iterate:
        """The iterate at ``here`` with its bounds, P and P - g'Kg / (2 lam); ``kg`` = K g."""
        gap = max(float(here.g @ kg), 0.0) / (2.0 * self.problem.lam)
        point = {"u": here.u}
        return Iterate(
            point, point, here.value, here.value - gap, self.oracle_calls, dict(self.parts), done=done, message=message
        )

    def exhausted(self, here: Value, kg: Vector) -> bool:
        """Whether the gap is below rounding, so that no further step can be seen to help."""
        return float(here.g @ kg) <= 2.0 * self.problem.lam * VALUE_ROUNDING * max(1.0, abs(here.value))
