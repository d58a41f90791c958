r"""Contrastive divergence (paper 4, 20.6): the model's moments from chains that start on the data.

    theta <- prox of R [theta + a_t (E_D f - E_D- f)],      D- = the samples after k sweeps of Gibbs sampling at theta

No ln Z and no inference: a sweep draws each variable from its conditional (`convexstruct.inference.gibbs`), all samples
at once. As k grows, E_D- f becomes the model's moments and this is stochastic gradient ascent on the likelihood. For
small k the direction is the gradient of no function, and its fixed points are near the maximum, not at it (Hinton 2002;
Carreira-Perpinan and Hinton 2005). ``persistent`` chains continue from their last states (Tieleman 2008).

Everything is in the units of one sample: R is divided by C M. Steps are a_t = step / (1 + t / decay), and the result is
the mean of all theta, each weighted by the number of its step, since a single theta is as noisy as the chains. Nothing
is certified.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Labels, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, positive, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.families.log_linear.wide_field import WideField
from convexstruct.inference.gibbs import Gibbs
from convexstruct.validation.arguments import sentence


class Step(NamedTuple):
    """theta (d,) after a step, the mean so far, each theta weighted by its number, and the samples D- (m, n)."""

    theta: Vector
    mean: Vector
    perturbed: Labels


@dataclass(frozen=True)
class ContrastiveDivergence:
    """k : sweeps from the data in each step. persistent : whether chains continue from their last states instead.
    steps : number of steps.

    step : a_0, nats of a parameter for each unit of a moment; about 1 suits features of size 1. decay : steps until it
    is half of that. seed : of the chains.
    """

    k: int = 1
    persistent: bool = False
    steps: int = 500
    step: float = 1.0
    decay: float = 100.0
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, k=at_least(1), persistent=flag, steps=at_least(1), step=positive, decay=positive, seed=seed)

    def iterate(self, problem: MarkovRandomField | WideField, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield one iterate, the mean theta; ``start`` gives the first theta."""
        mean, done = np.zeros(problem.factors.dimension), 0
        try:
            for step in self.walk(problem, None if start is None else start.point["theta"]):
                mean, done = step.mean, done + 1
        except deadline.DeadlinePassed:
            if done:
                yield self._iterate(mean, done)
            raise
        yield self._iterate(mean, done)

    def walk(self, problem: MarkovRandomField | WideField, theta: Vector | None = None) -> Iterator[Step]:
        """Yield theta, the mean so far and the samples after every step."""
        factors, samples, weights = problem.factors, problem.samples, problem.weights
        if samples is None or weights is None:
            raise sentence("problem has moments and no samples, wanted samples: chains start on them")
        rng, sampler = np.random.default_rng(self.seed), Gibbs(factors)
        unit = problem.scale.C * problem.mass
        penalty = Penalty(problem.penalty.lam / unit, problem.penalty.l1 / unit)
        wanted, shares = problem.sums / problem.mass, weights / problem.mass
        theta = np.zeros(factors.dimension) if theta is None else theta.copy()
        mean, chains = theta, samples
        for t in range(self.steps):
            flat = np.asarray(factors.design @ theta)
            chains = sampler.sweeps(flat, chains if self.persistent else samples, self.k, rng)
            gradient = wanted - factors.moments(factors.counts(chains, shares))
            length = self.step / (1.0 + t / self.decay)
            theta = penalty.prox(theta + length * gradient, length)
            mean = mean + 2.0 / (t + 2.0) * (theta - mean)
            yield Step(theta, mean, chains)

    def _iterate(self, mean: Vector, done: int) -> Iterate:
        kind = "persistent chains" if self.persistent else f"k = {self.k}"
        said = f"contrastive divergence ({kind}) after {done} steps: the gradient of no likelihood, and no bound"
        return Iterate({"theta": mean}, None, math.inf, -math.inf, done, done=True, message=said)
