r"""Learning by importance-sampled likelihood (paper 4, 20.6, "Sample based learning").

    minimise over theta   C [M ln Z_K(theta) - <theta, s>] + R(theta),
    ln Z_K(theta) = ln Z(theta_0) + ln (1/K sum_k exp <theta - theta_0, f(x_k)>),         x_1 .. x_K from p of theta_0

This estimate is convex in theta, and its gradient is C [M sum_k w_k f(x_k) - s] + grad R, where the weights w_k are
proportional to exp <theta - theta_0, f(x_k)>. L-BFGS minimises it while theta is near to theta_0: the *effective number
of samples* 1 / sum_k w_k^2 is at least ``renew`` times K, and no parameter has moved a score by more than
`LONGEST_MOVE` nats, since the weights do not see what all samples have in common. At the border samples are drawn anew,
with the present theta for theta_0. Where the minimum lies inside they are drawn once more, at this minimum, and the run
ends with that of the new estimate, if it lies inside too. Its distance from the likelihood's falls as 1 / sqrt(K).

**Erratum.** The slides leave out that the estimate need not have a minimum. Without a penalty it falls without end
where s / M lies outside the hull of the f(x_k), as it may where samples are few: along a direction that separates the
two, <theta, s> / M grows faster than ln Z_K. A run that ends before theta rests says so, by a linear program; with
weight l1 of |theta|_1 moments within l1 / (C M) of the hull count as inside.

Samples of a `MarkovRandomField` are exact, and so is ln Z(theta_0); its certificate judges the result. On a graph that
is too wide (`ApproximateField`) the first samples are uniform, those of theta_0 = 0. Later ones are drawn from the old
ones with their weights and moved by Gibbs sampling at the new theta_0, and ln Z is the sum of the estimated changes
(resample and move: N. Chopin, Biometrika 89, 2002). Nothing bounds its error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Labels, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.existence import outside
from convexstruct.families.log_linear.importance import uniform_samples
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.families.log_linear.solvers.descent import Here, warning
from convexstruct.families.log_linear.solvers.lbfgs import descent
from convexstruct.inference.gibbs import Gibbs
from convexstruct.validation.arguments import number

#: The most nats by which one parameter may move a score before samples are drawn anew.
LONGEST_MOVE = 1.0
#: theta counts as the minimum of the estimate where no entry of the gradient is above this share of C M max |f|: the
#: noise of a million samples, 1e-3, is far larger.
STATIONARY = 1e-6
#: Why theta may move for ever, as part of a message.
UNBOUNDED = ": no mixture of the last samples has the moments of the data, so that the estimate has no minimum"


@dataclass(frozen=True)
class ImportanceSampling:
    """samples : K, at least 2. renew : the share of K below which the effective number of samples may not fall, between
    0 and 1. draws : how often samples are drawn, at most. sweeps : of Gibbs sampling for each draw on a wide graph.
    seed : of the samples."""

    samples: int = 2000
    renew: float = 0.5
    draws: int = 100
    sweeps: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "renew", number("renew", self.renew, above=0, below=1))
        read_options(self, samples=at_least(2), draws=at_least(1), sweeps=at_least(1), seed=seed)

    def iterate(
        self, problem: MarkovRandomField | ApproximateField, start: Solution | None = None
    ) -> Iterator[Iterate]:
        """Yield each theta with its objective, estimated on a wide graph; ``start`` gives the first."""
        rng, calls, inside = np.random.default_rng(self.seed), 0, 0
        theta = np.zeros(problem.dimension) if start is None else np.array(start.point["theta"], dtype=np.float64)
        estimate = self._first(problem, theta, rng)
        for draw in range(1, self.draws + 1):
            here, unit = Here.at(estimate, theta), STATIONARY * estimate.largest_gradient
            for here, tries in descent(estimate, here):  # noqa: B020
                calls += tries
                yield self._iterate(estimate, here, draw, calls)
                if estimate.refused or float(np.abs(here.gradient).max(initial=0.0)) <= unit:
                    break
            theta, inside = here.theta, 0 if estimate.refused else inside + 1
            if inside == 2 or draw == self.draws:
                moves = "" if inside == 2 else ", and theta still moves"
                moves += UNBOUNDED if moves and estimate.unbounded else ""
                yield self._iterate(estimate, here, draw, calls, f"after {draw} draws{moves}")
                return
            estimate = self._renewed(estimate, theta, rng)

    def _first(self, problem: MarkovRandomField | ApproximateField, theta: Vector, rng: np.random.Generator) -> Sampled:
        """The estimate with samples of ``theta``; on a wide graph by way of some parameters between 0 and theta."""
        if isinstance(problem, MarkovRandomField):
            return self._exact(problem, theta, rng)
        n = self.samples
        uniform, known, _ = uniform_samples(problem.factors, n, rng)
        found = Sampled(problem, uniform, np.zeros(len(theta)), known, self.renew * n)
        while (found.theta_0 != theta).any():
            step = 1.0
            while not found.near(found.theta_0 + step * (theta - found.theta_0)):
                step *= 0.5
            there = theta if step == 1.0 else found.theta_0 + step * (theta - found.theta_0)
            found = self._renewed(found, there, rng)
        return found

    def _exact(self, problem: MarkovRandomField, theta: Vector, rng: np.random.Generator) -> Sampled:
        flat = np.asarray(problem.factors.design @ theta)
        drawn = problem.inference.sample(flat, self.samples, rng)
        known = problem.inference.sums(flat).log_partition
        return Sampled(problem, drawn, theta, known, self.renew * self.samples)

    def _renewed(self, before: Sampled, theta: Vector, rng: np.random.Generator) -> Sampled:
        """The estimate with samples of ``theta``."""
        deadline.check()
        problem, n = before.problem, self.samples
        if isinstance(problem, MarkovRandomField):
            return self._exact(problem, theta, rng)
        log_partition, weights = before.weighted(theta)
        at = np.searchsorted(weights.cumsum(), (np.arange(n) + rng.random()) / n).clip(max=n - 1)  # systematic
        flat = np.asarray(problem.factors.design @ theta)
        moved = Gibbs(problem.factors).sweeps(flat, before.samples[at], self.sweeps, rng)
        return Sampled(problem, moved, theta, log_partition, before.least)

    def _iterate(self, estimate: Sampled, here: Here, draw: int, calls: int, ended: str = "") -> Iterate:
        """An iterate; where inference is exact with a witness, whose bound is computed once the run has ``ended``."""
        problem, theta = estimate.problem, here.theta
        share = f"{estimate.effective(theta):.0f} effective of {self.samples} samples, {ended or f'draw {draw}'}"
        said = f"an estimate by importance sampling, no bound: {share}"
        witness, bound, value = None, -math.inf, here.value
        if isinstance(problem, MarkovRandomField):  # estimates of several draws cannot be compared, nor with a bound
            witness, value = problem.witness(theta), float(problem.primal({"theta": theta}))
            said = f"importance sampling: {share}; the bounds are those of exact inference"
            if ended:
                bound = float(problem.dual(witness))
                said = "; ".join(filter(None, (said, warning(problem))))
        return Iterate({"theta": theta}, witness, value, bound, calls, done=bool(ended), message=said)


@dataclass(eq=False)
class Sampled:
    """The estimated objective, with the interface that L-BFGS needs; infinite where theta is not near.

    samples (K, n) : of ``theta_0`` (d,). log_partition : ln Z(theta_0). least : effective samples, at least.
    refused : how many parameters were not near.
    """

    problem: MarkovRandomField | ApproximateField
    samples: Labels
    theta_0: Vector
    log_partition: float
    least: float
    refused: int = 0

    @cached_property
    def features(self) -> sp.csr_array:
        """f(x_k), sparse (K, d), in pieces between which the deadline is checked."""
        found = []
        for piece in np.array_split(self.samples, min(16, len(self.samples))):
            deadline.check()
            found.append(self.problem.factors.joint_each(piece))
        return sp.csr_array(sp.vstack(found, format="csr"))

    @property
    def penalty(self) -> Penalty:
        return self.problem.penalty

    @property
    def dimension(self) -> int:
        return self.problem.dimension

    @property
    def largest_gradient(self) -> float:
        """C M max |f|, the size of a gradient."""
        largest = float(np.abs(self.features.data).max(initial=0.0))
        return self.problem.scale.C * self.problem.mass * (largest or 1.0)

    def weighted(self, theta: Vector) -> tuple[float, Vector]:
        """(the estimate of ln Z, the weights w (K,) of the samples) at theta."""
        logs = np.asarray(self.features @ (theta - self.theta_0))
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = float(weights.sum())
        return self.log_partition + top + math.log(total / len(weights)), weights / total

    @property
    def unbounded(self) -> bool:
        """Whether the estimate falls without end."""
        problem = self.problem
        if problem.penalty.lam:
            return False
        slack = problem.penalty.l1 / (problem.scale.C * problem.mass)
        return outside(self.features, problem.sums / problem.mass, slack)

    def effective(self, theta: Vector) -> float:
        """The effective number of samples at theta, from 1 to K."""
        weights = self.weighted(theta)[1]
        return 1.0 / float(weights @ weights)

    def near(self, theta: Vector) -> bool:
        """Whether no parameter has moved far and enough samples are effective."""
        moved = float((np.abs(theta - self.theta_0) * self.problem.factors.largest).max(initial=0.0))
        return moved <= LONGEST_MOVE and self.effective(theta) >= self.least

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """The estimate without R and its gradient (d,); infinite and not a number where theta is not near."""
        if not self.near(theta):
            self.refused += 1
            return math.inf, np.full(self.dimension, np.nan)
        log_partition, weights = self.weighted(theta)
        return self.problem.fit(theta, log_partition, np.asarray(self.features.T @ weights))

    def curvature(self, theta: Vector) -> Vector:
        """C M times the variances of the features under the weights; (d,)."""
        weights = self.weighted(theta)[1]
        squares = np.asarray(self.features.power(2).T @ weights)
        spread = squares - np.asarray(self.features.T @ weights) ** 2
        return np.asarray(self.problem.scale.C * self.problem.mass * np.maximum(spread, 0.0))
