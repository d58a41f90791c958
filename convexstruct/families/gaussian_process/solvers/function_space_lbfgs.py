r"""L-BFGS in function space, for the kernel CRF (32) of paper 2: one product with the Gram matrix an iteration.

t = K u is kept beside each point u. P's gradient in the inner product <u, v>_K = u'Kv is g = lam u - (z - m(u)); the
Euclidean one is K g. The pairs of L-BFGS, with <a, b>_K in place of a'b, turn g into a direction d that is a
combination of g, of the last steps s and of the last changes of gradient y. The product of each with K is kept beside
it, so K d is the same combination of these products, and the search along d, at t + a K d, takes forward-backward
alone. K is never inverted.

In this inner product the Hessian is lam + Cov K, Cov the covariance of the counts; in the Euclidean one it is K (lam +
Cov K), whose condition number is larger by a factor of up to that of K. Preconditioning further by (lam + c G)^{-1}
takes as many iterations: the labels of most positions are soon certain, and their covariance is then far from any
constant c.

**Without memory** it is gradient descent in function space, a plain baseline: u <- (1 - a lam) u + a (z - m(u)). That
is the exponentiated gradient method on the dual of (32) (Collins, Globerson, Koo, Carreras and Bartlett 2008, all
sequences at once): the log-potentials t of the Gibbs distributions are multiplied by 1 - a lam and moved by
a K (z - m), which multiplies the distributions by exponentials of the dual's gradient.

The certified gap of u and its own Gibbs marginals is g'Kg / (2 lam) (see `problem`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options
from convexstruct.core.quasi_newton import Pairs, wolfe_search
from convexstruct.core.solution import Solution
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences, Value

#: Below this share of |P| a difference of two values is rounding.
VALUE_ROUNDING = 1e-13
#: t = K u is updated along with u, and rounding errors add up. It is computed anew when the gap has fallen to this
#: share of that at the last such time.
REFRESH_FALL = 1e-2


@dataclass(frozen=True)
class FunctionSpaceLBFGS:
    """L-BFGS in the inner product of the kernel, with both bounds at every iteration.

    memory : the number of steps kept; with small lam more are useful, and 0 is the plain gradient.
    """

    memory: int = 100

    def __post_init__(self) -> None:
        read_options(self, memory=at_least(0))

    def iterate(self, problem: GaussianProcessSequences, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield each point with its bounds; ``start`` gives the first."""
        space = FunctionSpace(problem)
        here = space.start(start)
        kg = space.multiply(here.g)
        n = problem.dimension
        pairs = Pairs(self.memory, 2 * n, inner=lambda rows, both: rows[:, :n] @ both[n:])  # u and K u side by side
        fresh = float(here.g @ kg)
        while True:
            norm = float(here.g @ kg)
            if norm < REFRESH_FALL * fresh:
                here = space.at(here.u, space.multiply(here.u))
                kg = space.multiply(here.g)
                fresh = norm = float(here.g @ kg)
            if norm <= 2.0 * problem.lam * VALUE_ROUNDING * max(1.0, abs(here.value)):
                yield space.report(here, kg, done=True, message="the gradient is rounding")
                return
            yield space.report(here, kg)
            there = None
            if len(pairs):
                both = -pairs.solve(lambda q: q, np.concatenate((here.g, kg)), fit=True)
                there = search(space, here, both[:n], both[n:])
            if there is None:  # at first, and where the kept steps give no descent
                pairs.clear()
                scale = min(1.0 / problem.lam, 1.0 / float(np.abs(kg).max()))  # scores move by about 1
                there = search(space, here, -scale * here.g, -scale * kg)
            if there is None:
                yield space.report(here, kg, done=True, message="no step decreases P any further: rounding")
                return
            kg_there = space.multiply(there.g)
            if self.memory:
                step = np.concatenate((there.u - here.u, there.t - here.t))
                pairs.add(step, np.concatenate((there.g - here.g, kg_there - kg)))
            here, kg = there, kg_there


class FunctionSpace:
    """P with its gradient and its gap, and the number of oracle calls and the seconds spent so far."""

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
        begin = time.perf_counter()
        found = self.problem.at(u, t)
        self.parts["forward-backward"] += time.perf_counter() - begin
        self.oracle_calls += 1
        return found

    def multiply(self, v: Vector) -> Vector:
        """K v."""
        begin = time.perf_counter()
        product: Vector = self.problem.multiply(v)
        self.parts["kernel products"] += time.perf_counter() - begin
        return product

    def report(self, here: Value, kg: Vector, done: bool = False, message: str = "") -> Iterate:
        """The iterate at ``here`` with its bounds, P and P - g'Kg / (2 lam); ``kg`` = K g."""
        gap = max(float(here.g @ kg), 0.0) / (2.0 * self.problem.lam)
        point = {"u": here.u}
        return Iterate(
            point, point, here.value, here.value - gap, self.oracle_calls, dict(self.parts), done=done, message=message
        )


def search(space: FunctionSpace, here: Value, d: Vector, kd: Vector) -> Value | None:
    """The point that `wolfe_search` finds along d, or None; the slope is g'Kd."""

    def at(step: float) -> tuple[Value, float]:
        there = space.at(here.u + step * d, here.t + step * kd)
        return there, float(there.g @ kd)

    return wolfe_search(at, here.value, float(here.g @ kd), VALUE_ROUNDING * max(1.0, abs(here.value)))[0]
