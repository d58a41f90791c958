r"""L-BFGS in function space, for the kernel CRF (32) of paper 2: one product with the Gram matrix an iteration.

The pairs of L-BFGS with the inner product <a, b>_K = a'Kb in place of a'b: they turn g = lam u - (z - m) into a
direction d that is a combination of g, of the last steps s and of the last changes of gradient y. The product of each
with K is kept beside it, so K d is the same combination of these products, and the search along d takes
forward-backward alone.

In this inner product the Hessian is lam + Cov K, Cov the covariance of the counts; in the Euclidean one it is K (lam +
Cov K), whose condition number is larger by a factor of up to that of K. Preconditioning further by (lam + c G)^{-1}
takes as many iterations: the labels of most positions are soon certain, and their covariance is then far from any
constant c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options
from convexstruct.core.quasi_newton import Pairs, wolfe_search
from convexstruct.core.solution import Solution
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space import VALUE_ROUNDING, FunctionSpace, Value

#: t = K u is updated along with u, and rounding errors add up. It is computed anew when the gap has fallen to this
#: share of that at the last such time.
REFRESH_FALL = 1e-2


@dataclass(frozen=True)
class FunctionSpaceLBFGS:
    """L-BFGS in the inner product of the kernel, with both bounds at every iteration.

    memory : the number of steps kept, at least 1; with small lam more are useful.
    """

    memory: int = 100

    def __post_init__(self) -> None:
        read_options(self, memory=at_least(1))

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
                fresh = float(here.g @ kg)
            if space.exhausted(here, kg):
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
            step = np.concatenate((there.u - here.u, there.t - here.t))
            pairs.add(step, np.concatenate((there.g - here.g, kg_there - kg)))
            here, kg = there, kg_there


def search(space: FunctionSpace, here: Value, d: Vector, kd: Vector) -> Value | None:
    """The point that `wolfe_search` finds along d, or None; the slope is g'Kd."""

    def at(step: float) -> tuple[Value, float]:
        there = space.at(here.u + step * d, here.t + step * kd)
        return there, float(there.g @ kd)

    return wolfe_search(at, here.value, float(here.g @ kd), VALUE_ROUNDING * max(1.0, abs(here.value)))[0]
