r"""Contrastive divergence (paper 4, 20.6): the model's moments from chains that start on the data.

    theta <- prox of R [theta + a_t (E_D f - E_D- f)],      D- = the samples after k sweeps of Gibbs sampling at theta

No ln Z and no inference: a sweep draws each variable from its conditional (`convexstruct.inference.gibbs`), all samples
at once. As k grows, E_D- f becomes the model's moments and this is stochastic gradient ascent on the likelihood. For
small k the direction is the gradient of no function, and its fixed points are near the maximum, not at it (Hinton 2002;
Carreira-Perpinan and Hinton 2005).

**Erratum.** The slides call this a step on l_CD, with D- taken for fixed. There ln Z cancels: l_CD is linear in theta,
and unbounded unless the moments agree.

Everything is in the units of one sample: R is divided by C M. Steps are a_t = step / (1 + t / decay), and the result is
the mean of all theta, each weighted by the number of its step, since a single theta is as noisy as the chains. Nothing
is certified.

The Hessian of the log likelihood of one sample is -Cov f, and ascent overshoots where a step exceeds 2 over its largest
eigenvalue. By default a_0 is of its own for each parameter, 1 / (L v_j): v_j the variance of its feature, L the largest
eigenvalue of the covariance of f_j / sqrt(v_j). Both are the larger of what they are under the data, the model's at the
maximum, and under uniform labels, the model's at theta = 0.
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
from convexstruct.core.options import at_least, or_none, positive, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.features.graphs.factors import Factors
from convexstruct.inference.gibbs import Gibbs
from convexstruct.rounding import EPS, TINY
from convexstruct.validation.arguments import sentence

#: Steps of the power method for the largest eigenvalue of a covariance: it is found to a few percent.
POWER_STEPS = 20


class Step(NamedTuple):
    """theta (d,) after a step, and the mean so far, each theta weighted by its number."""

    theta: Vector
    mean: Vector


@dataclass(frozen=True)
class ContrastiveDivergence:
    """k : sweeps from the data in each step. steps : number of steps.

    step : a_0, nats of a parameter for each unit of a moment; None: `first_steps` of the problem. decay : steps until
    it is half of that. seed : of the chains.
    """

    k: int = 1
    steps: int = 500
    step: float | None = None
    decay: float = 100.0
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = {"step": or_none(positive), "decay": positive, "seed": seed}
        read_options(self, k=at_least(1), steps=at_least(1), **numbers)

    def iterate(
        self, problem: MarkovRandomField | ApproximateField, start: Solution | None = None
    ) -> Iterator[Iterate]:
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

    def walk(self, problem: MarkovRandomField | ApproximateField, theta: Vector | None = None) -> Iterator[Step]:
        """Yield theta and the mean so far after every step."""
        factors, samples, weights = problem.factors, problem.samples, problem.weights
        if samples is None or weights is None:
            raise sentence("problem has moments and no samples, wanted samples: chains start on them")
        rng, sampler = np.random.default_rng(self.seed), Gibbs(factors)
        unit = problem.scale.C * problem.mass
        penalty = Penalty(problem.penalty.lam / unit, problem.penalty.l1 / unit)
        wanted, shares = problem.sums / problem.mass, weights / problem.mass
        theta = np.zeros(factors.dimension) if theta is None else theta.copy()
        mean = theta
        largest = first_steps(factors, samples, shares) if self.step is None else self.step
        for t in range(self.steps):
            flat = np.asarray(factors.design @ theta)
            chains = sampler.sweeps(flat, samples, self.k, rng)
            gradient = wanted - factors.moments(factors.counts(chains, shares))
            length = largest / (1.0 + t / self.decay)
            theta = penalty.prox(theta + length * gradient, length)
            mean = mean + 2.0 / (t + 2.0) * (theta - mean)
            yield Step(theta, mean)

    def _iterate(self, mean: Vector, done: int) -> Iterate:
        said = f"contrastive divergence (k = {self.k}) after {done} steps: the gradient of no likelihood, and no bound"
        return Iterate({"theta": mean}, None, math.inf, -math.inf, done, done=True, message=said)


def first_steps(factors: Factors, samples: Labels, shares: Vector) -> Vector:
    """1 / (L v_j) for each parameter (d,), at the samples (m, n) with weights ``shares`` (m,) and at as many uniform
    ones: see the head of this file. 1 for a feature that does not vary."""
    rng = np.random.default_rng(0)
    uniform = np.column_stack([rng.integers(card, size=len(samples)) for card in factors.cards])
    found = []
    for drawn, weights in ((samples, shares), (uniform, np.full(len(samples), 1.0 / len(samples)))):
        features = factors.joint_each(drawn)
        mean = np.asarray(features.T @ weights)
        square = np.asarray(features.power(2).T @ weights)
        noise = 4.0 * len(drawn) * EPS * square  # of two sums over the samples
        found.append((features, weights, mean, np.where(square - mean**2 > noise, square - mean**2, 0.0)))
    spread = np.maximum(found[0][3], found[1][3])
    scale = np.where(spread > 0, 1.0 / np.sqrt(np.maximum(spread, TINY)), 0.0)
    largest = 0.0
    for features, weights, mean, _ in found:
        v, size = rng.normal(size=factors.dimension), 0.0
        for _ in range(POWER_STEPS):
            v *= scale
            v = scale * (np.asarray(features.T @ (weights * (features @ v))) - mean * float(mean @ v))
            size = float(np.linalg.norm(v))
            v /= size or 1.0
        largest = max(largest, size)
    return np.where(scale > 0, scale**2 / (largest or 1.0), 1.0)
