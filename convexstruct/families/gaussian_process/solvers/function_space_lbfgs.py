r"""L-BFGS in function space, for the kernel CRF (32) of paper 2: one product with the Gram matrix an iteration.

t = K u is kept beside each point u. P's gradient in the inner product <u, v>_K = u'Kv is g = lam u - (z - m(u)); the
Euclidean one is K g. The pairs of L-BFGS, with <a, b>_K in place of a'b, turn g into a direction d that is a
combination of g, of the last steps s and of the last changes of gradient y. The product of each with K is kept beside
it, so K d is the same combination of these products, and the search along d, at t + a K d, takes forward-backward
alone. K is never inverted.

In this inner product the Hessian is lam + Cov K, Cov the covariance of the counts; in the Euclidean one it is K (lam +
Cov K), whose condition number is larger by a factor of up to that of K.

**Without memory** it is gradient descent in function space, a plain baseline: u <- (1 - a lam) u + a (z - m(u)). That
is the exponentiated gradient method on the dual of (32) (Collins, Globerson, Koo, Carreras and Bartlett 2008, all
sequences at once): the log-potentials t of the Gibbs distributions are multiplied by 1 - a lam and moved by
a K (z - m), which multiplies the distributions by exponentials of the dual's gradient.

The certified gap of u and its own Gibbs marginals is g'Kg / (2 lam) (see `problem`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
        n, here, calls = problem.dimension, first(problem, start), 1
        kg = problem.multiply(here.g)
        pairs = Pairs(self.memory, 2 * n, inner=lambda rows, both: rows[:, :n] @ both[n:])  # u and K u side by side
        fresh = float(here.g @ kg)
        while True:
            norm = float(here.g @ kg)
            if norm < REFRESH_FALL * fresh:
                here, calls = problem.at(here.u, problem.multiply(here.u)), calls + 1
                kg = problem.multiply(here.g)
                fresh = norm = float(here.g @ kg)
            point = {"u": here.u}
            bound = here.value - max(norm, 0.0) / (2.0 * problem.lam)
            now = Iterate(point, point, here.value, bound, calls)
            if norm <= 2.0 * problem.lam * VALUE_ROUNDING * max(1.0, abs(here.value)):
                yield replace(now, done=True, message="the gradient is rounding")
                return
            yield now
            there = None
            if len(pairs):
                both = -pairs.solve(lambda q: q, np.concatenate((here.g, kg)), fit=True)
                there, tries = search(problem, here, both[:n], both[n:])
                calls += tries
            if there is None:  # at first, and where the kept steps give no descent
                pairs.clear()
                scale = min(1.0 / problem.lam, 1.0 / float(np.abs(kg).max()))  # scores move by about 1
                there, tries = search(problem, here, -scale * here.g, -scale * kg)
                calls += tries
            if there is None:
                yield replace(now, done=True, message="no step decreases P any further: rounding")
                return
            kg_there = problem.multiply(there.g)
            if self.memory:
                step = np.concatenate((there.u - here.u, there.t - here.t))
                pairs.add(step, np.concatenate((there.g - here.g, kg_there - kg)))
            here, kg = there, kg_there


def first(problem: GaussianProcessSequences, start: Solution | None) -> Value:
    """P at u = 0, or at an earlier solution."""
    u = np.zeros(problem.dimension)
    if start is not None:
        found = problem.as_point(start.point)["u"]
        u = found.copy() if np.isfinite(found).all() else u
    return problem.at(u, problem.multiply(u))


def search(problem: GaussianProcessSequences, here: Value, d: Vector, kd: Vector) -> tuple[Value | None, int]:
    """The point that `wolfe_search` finds along d, or None, and the points tried; the slope is g'Kd."""

    def at(step: float) -> tuple[Value, float]:
        there = problem.at(here.u + step * d, here.t + step * kd)
        return there, float(there.g @ kd)

    return wolfe_search(at, here.value, float(here.g @ kd), VALUE_ROUNDING * max(1.0, abs(here.value)))
