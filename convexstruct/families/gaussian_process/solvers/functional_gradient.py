r"""Gradient descent in function space, for the kernel CRF (32) of paper 2: a plain baseline.

    u  <-  u - a g = (1 - a lam) u + a (z - m(u)),      g = lam u - (z - m(u))

This is the exponentiated gradient method on the dual of (32) (Collins, Globerson, Koo, Carreras and Bartlett 2008, all
sequences at once): the log-potentials t = K u of the Gibbs distributions are multiplied by 1 - a lam and moved by a K
(z - m), which multiplies the distributions by exponentials of the dual's gradient. The step a is halved until P
decreases by at least half of the decrease that its slope predicts; this holds for every a <= 1/L, L the Lipschitz
constant of g in the inner product of K.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from convexstruct import deadline
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import not_below, read_options
from convexstruct.core.quasi_newton import SEARCH_TRIALS
from convexstruct.core.solution import Solution
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space import VALUE_ROUNDING, FunctionSpace


@dataclass(frozen=True)
class FunctionalGradient:
    """Gradient steps in the inner product of the kernel; they converge linearly, at a rate that depends on the
    condition number.

    growth : factor by which the step grows after each iteration, at least 1, so that a reduced step can become long
        again.
    """

    growth: float = 1.5

    def __post_init__(self) -> None:
        read_options(self, growth=not_below(1))

    def iterate(self, problem: GaussianProcessSequences, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield each point with its bounds; ``start`` gives the first."""
        space = FunctionSpace(problem)
        here = space.start(start)
        step = 1.0 / problem.lam  # with this step u <- (z - m(u)) / lam
        while True:
            kg = space.multiply(here.g)
            if space.exhausted(here, kg):
                yield space.report(here, kg, done=True, message="the gradient is rounding")
                return
            yield space.report(here, kg)
            norm = float(here.g @ kg)
            noise = VALUE_ROUNDING * max(1.0, abs(here.value))
            for _ in range(SEARCH_TRIALS):
                deadline.check()
                there = space.at(here.u - step * here.g, here.t - step * kg)
                if there.value <= here.value - 0.5 * step * norm + noise:
                    break
                step *= 0.5
            else:
                yield space.report(here, kg, done=True, message="no step decreases P any further: rounding")
                return
            here, step = there, min(step * self.growth, 1.0 / problem.lam)
