r"""Averaged stochastic gradient (Polyak and Juditsky 1992; step sizes of Xu 2011), for smooth penalties.

    theta <- theta - gamma_t (N/|B| sum_{i in B} grad_i + lam theta),     gamma_t = gamma_0 (1 + lam gamma_0 t)^(-3/4)

over examples in random order, ``batch`` at a time. Each pass reports the average of the iterates since the last pass
whose number is a power of 2, so that early iterates are dropped. gamma_0 is a power of 2 (times the inverse of the
largest curvature): the one with the least P of a sample after a few steps. It ends after ``passes``: without a penalty
nothing else would end it, since the lower bound needs the moments to more digits than it finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.solvers.descent import Here, first, report
from convexstruct.validation.arguments import sentence

#: Batches of the sample by which gamma_0 is chosen: on one or three of them too large a gamma_0 looks best.
SAMPLED_BATCHES = 8
#: Powers of 2 that gamma_0 is chosen from, in units of 1 / (largest curvature): above 1 steps are too long, and where
#: features occur together 1 is far too large.
POWERS = range(-6, 1, 2)


@dataclass(frozen=True)
class AveragedSGD:
    """batch : examples in a step. passes : over all examples, at most; 1 less than a power of 2 ends on the longest
    average. seed : of the order of the examples."""

    batch: int = 16
    passes: int = 255
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, batch=at_least(1), passes=at_least(1), seed=seed)

    def iterate(self, problem: ConditionalRandomField, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield one iterate after each pass; ``start`` gives the first point."""
        if problem.penalty.l1:
            raise sentence(
                f"problem has l1 = {problem.penalty.l1:g}, wanted 0: AveragedSGD is for smooth penalties, use LBFGS"
            )
        rng, theta, own = np.random.default_rng(self.seed), first(problem, start), problem.basis.problem
        yield report(problem, Here.at(own, theta), 1)
        order = rng.permutation(problem.n_examples)
        batches = [own.some(some) for some in _cut(order, self.batch)]
        gamma = _first_step(own, batches, theta)
        mean, taken, t = theta, 0, 0
        for passes in range(1, self.passes + 1):
            if passes & (passes - 1) == 0:
                mean, taken = np.zeros_like(theta), 0
            for at in rng.permutation(len(batches)):
                deadline.check()
                theta = _step(own, batches[at], theta, gamma * (1.0 + problem.penalty.lam * gamma * t) ** -0.75)
                t, taken = t + 1, taken + 1
                mean = mean + (theta - mean) / taken
            done = passes == self.passes
            said = f"after {passes} passes, the limit of AveragedSGD(passes={passes})" if done else ""
            yield report(problem, Here.at(own, mean), 1 + 2 * passes, done=done, message=said)


def _cut(order: Index, size: int) -> list[Index]:
    return [np.sort(order[low : low + size]) for low in range(0, len(order), size)]


def _step(problem: ConditionalRandomField, part: ConditionalRandomField, theta: Vector, gamma: float) -> Vector:
    _, gradient = part.value_and_gradient(theta[: part.dimension])  # a part without edges has no weights of edges
    moved = (1.0 - gamma * problem.penalty.lam) * theta
    moved[: len(gradient)] -= gamma * problem.n_examples / part.n_examples * gradient
    return np.asarray(moved)


def _first_step(problem: ConditionalRandomField, batches: list[ConditionalRandomField], theta: Vector) -> float:
    """gamma_0: of 1 / (largest curvature) times the powers of 2, the one after whose steps the sample's P is least."""
    unit = 1.0 / (problem.penalty.lam + float(problem.curvature(theta).max()) or 1.0)
    best, lowest = unit, np.inf
    for power in POWERS:
        now, gamma = theta, unit * 2.0**power
        for part in batches[:SAMPLED_BATCHES]:
            now = _step(problem, part, now, gamma)
        value = sum(part.value_and_gradient(now[: part.dimension])[0] for part in batches[:SAMPLED_BATCHES])
        sampled = sum(part.n_examples for part in batches[:SAMPLED_BATCHES])
        value = value * problem.n_examples / sampled + float(problem.penalty.value(now))
        if value < lowest:
            best, lowest = gamma, value
    return best
