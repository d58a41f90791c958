r"""Maximum likelihood with additive smoothing: the baseline of paper 0, section 4, in closed form.

    theta_ij = ln (n_ij + a) - ln sum_j (n_ij + a),      n = sum_k w_k counts_k(s*)

n counts every event of the fully observed examples, hidden or not; a >= 0 is a pseudo-count for each event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import not_below, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.validation.arguments import number


def maximum_likelihood(problem: GenerativeMargin, smoothing: float = 0.0) -> Vector:
    """theta (d,) of the smoothed relative frequencies of the problem's examples, weighted. ValueError if ``smoothing``
    is negative or not finite.

    A block that never occurs (its parents' values do not) takes its prior c_i without smoothing, and is uniform with
    it. Without smoothing, events that never occur have theta = -inf.
    """
    smoothing = number("smoothing", smoothing, least=0)
    layout = problem.layout
    counts = problem.truth_counts + smoothing
    total = layout.block_sum(counts)[layout.block_of]
    met = total > 0
    probability = np.where(met, counts / np.where(met, total, 1.0), problem.c)
    positive = probability > 0
    return np.where(positive, np.log(np.where(positive, probability, 1.0)), -np.inf)


@dataclass(frozen=True)
class MaximumLikelihood:
    """Maximum likelihood as a solver with one iterate: the baseline, not an optimum of (P), and without a lower bound.

    smoothing : pseudo-count a >= 0. With 0, an event that never occurs has probability 0: then P = inf where c is
        positive there (uniform c, say), and finite only where c is 0 too.
    """

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        read_options(self, smoothing=not_below(0))

    def iterate(self, problem: GenerativeMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield the one estimate; ``start`` is not read, since the estimate is in closed form."""
        theta = maximum_likelihood(problem, self.smoothing)
        message = "maximum likelihood, in closed form: it does not minimise (P), and bounds it from above only"
        value = problem.evaluate(theta).value
        yield Iterate({"theta": theta}, None, value, -np.inf, oracle_calls=1, done=True, message=message)
