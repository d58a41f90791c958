"""Baum-Welch for hidden Markov models: expectation-maximisation from several starts side by side.

The recursions are those of `convexstruct.inference.baum_welch`. P never rises; each start ends at a stationary point,
and nothing else is claimed of that point.

**Stationary** is what `HiddenMarkov.slopes` measures. An iteration from p lowers P by at least the sum over rows of
W KL(p' | p), where p' = c / W are the shares of the row's expected counts c, and W their sum.
By Pinsker's inequality KL >= 2 max |p' - p|^2, so that |c - W p| <= sqrt(W fall / 2) where P falls by no more than
``fall``: the slope per position is at most sqrt(fall per position / 2), 7e-6 by default. The status is STATIONARY where
it is at most `descent.STATIONARY`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from convexstruct import deadline
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, not_below, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.hidden_markov import TABLES, HiddenMarkov
from convexstruct.families.log_linear.solvers.descent import STATIONARY
from convexstruct.inference.baum_welch import maximised
from convexstruct.inference.hidden_markov import HiddenMarkovModels, random_models


@dataclass(frozen=True)
class BaumWelch:
    """restarts : number of starts trained side by side, at least 1. seed : of the draws. fall : a start has ended where
    P falls by no more than this in an iteration, in nats per observed position."""

    restarts: int = 1
    seed: int = 0
    fall: float = 1e-10

    def __post_init__(self) -> None:
        read_options(self, restarts=at_least(1), seed=at_least(0), fall=not_below(0))

    def iterate(self, problem: HiddenMarkov, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield the best model after each iteration; ``start`` is one of the starts, and the others are drawn."""
        models = _starts(problem, start, self.restarts, self.seed)
        expectation, bound, calls = problem.expectation(models), float(problem.frequencies), 0
        before = np.full(models.n_models, np.inf)
        while True:
            deadline.check()
            found = expectation(models)
            calls += 1
            values = -found.log_likelihood
            best, done = int(values.argmin()), bool((before - values <= self.fall * problem.weight).all())
            now = Iterate(problem.point_of(models, best), {}, float(values[best]), bound, calls)
            if done:
                slope = float(problem.slopes(models, found)[best])
                said = (
                    f"the largest entry of P's gradient in the logits is {slope:.1e} nats a position; P is not convex, "
                    "and nothing is claimed of other points"
                )
                yield replace(now, done=True, message=said, stationary=slope <= STATIONARY)
                return
            yield now
            before, models = values, maximised(models, found)


def _starts(problem: HiddenMarkov, start: Solution | None, restarts: int, seed: int) -> HiddenMarkovModels:
    """Models with rows drawn uniformly from the simplex; the first is ``start``, if there is one."""
    drawn = random_models(restarts, problem.n_states, problem.observed.n_symbols, seed)
    if start is not None:
        for name, table in zip(TABLES, (drawn.initial, drawn.transition, drawn.emission[:, 0])):
            table[0] = start.point[name]
    return drawn
