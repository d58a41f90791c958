r"""L-BFGS, from a multiple of the identity or from the inverse of the Hessian's diagonal; orthant-wise where R has l1.

metric="scalar": H_0 is a multiple of the identity.
metric="diagonal": H_0 is the inverse of lam + C sum_v x_vj^2 p_v (1 - p_v), and the same of edges (Nocedal and Wright,
Numerical Optimization, chapter 7), for features of different sizes. It is recomputed as theta moves; the pairs stay.

Where features occur together, as indicators of a word and of its neighbours do, or tables of pairs and of their nodes,
P has directions in which the frequent ones cancel, and its Hessian is about lam there: in the scalar metric such
eigenvalues are a cluster, which takes fewer steps. Elsewhere the diagonal metric takes fewer. `coherent` decides.

**|theta|_1** (orthant-wise, Andrew and Gao 2007). Inside an orthant |theta|_1 is linear and P smooth. Each round takes
the subgradient v of least norm, multiplies -v by the L-BFGS matrix of the smooth part, sets entries of this direction d
that do not have the sign of -v to 0, and searches along theta + t d projected to the orthant of theta (of -v where
theta is 0): entries that would change their sign become 0. So the zeros of the solution are exact.

**Hidden labels** (paper 4: the gradient is unclamped expectations minus clamped ones). P is not convex. Pairs without
positive curvature are not kept, so that every direction is one of descent. The method ends at a stationary point, with
the status STATIONARY where P's gradient says so; nothing else is claimed of it. Of several starts the best result is
kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, one_of, positive, read_options, seed
from convexstruct.core.quasi_newton import ARMIJO, SEARCH_TRIALS, VALUE_ROUNDING, Pairs, wolfe_search
from convexstruct.core.rounds import PATIENCE, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import NO_PENALTY
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.families.log_linear.solvers.descent import (
    Ended,
    Here,
    LogLinear,
    Smooth,
    ended,
    judged,
    report,
    separated,
    starts,
    warning,
)
from convexstruct.features.graphs.pairwise import PairwiseFeatures

#: Features are coherent where the largest eigenvalue of their X'X, scaled to a diagonal of 1, is above this, as
#: `POWER_STEPS` steps of the power method find it: it is 1 for orthogonal features, about 20 for the indicators of
#: CoNLL-2000.
COHERENT_EIGENVALUE, POWER_STEPS = 4.0, 10
#: The diagonal is recomputed in these rounds, and in every multiple of the last.
RENEWAL_ROUNDS = (0, 6, 20, 50)
#: With so many weights the pairs are longer than the cache, and kept in single precision.
SINGLE_FROM = 100_000
#: The least curvature, relative to that at the start, so that steps stay bounded for a feature whose variance vanishes.
LEAST_CURVATURE = 1e-8
#: With hidden labels there is no gap to close: a start ends after so many rounds in which P fell by rounding alone.
HIDDEN_PATIENCE = 8


@dataclass(frozen=True)
class LBFGS:
    """memory : pairs of changes that are kept, at least 1. metric : "scalar" or "diagonal". Of problems with hidden
    labels: restarts : number of starts, at least 1. spread : standard deviation of the normal distribution that they
    are drawn from. seed : of the draws."""

    memory: int = 6
    metric: str = "diagonal"
    restarts: int = 1
    spread: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = {"restarts": at_least(1), "spread": positive, "seed": seed}
        read_options(self, memory=at_least(1), metric=one_of("scalar", "diagonal"), **numbers)

    def iterate(
        self,
        problem: ConditionalRandomField | HiddenField | MarkovRandomField | PseudoLikelihood,
        start: Solution | None = None,
    ) -> Iterator[Iterate]:
        """Yield each point with its bounds; ``start`` gives the first."""
        # rounds that move no bound may still renew the pairs: with features of 1e7 it takes two sets of them
        rounds, calls = PATIENCE + 2 * self.memory, 0
        if isinstance(judged(problem), HiddenField):
            rounds = HIDDEN_PATIENCE
        best: tuple[Here, Iterate] | None = None
        for last, theta in starts(problem, start, self.restarts, self.spread, self.seed):
            begin, patience = Here.at(problem.basis.problem, theta), Patience(rounds, least_unit(problem))
            message, why = warning(problem, begin), "no step decreases P any further"
            path = points(problem.basis.problem, begin, self.memory, self.metric, partial(allowance, problem))
            for here, tried in chain([(begin, 1)], path):
                calls += tried
                message = message or separated(problem, here)
                said = report(problem, here, calls, message=message)
                if patience.ended(said.primal, said.lower_bound):
                    why = "neither bound moves any further"
                    break
                yield said
            best = (here, said) if best is None or here.value < best[0].value else best
            end = Ended(message) if message else ended(problem, best[0], why)
            yield replace(best[1], done=last, oracle_calls=calls, message=end.message, stationary=end.stationary)


def allowance(problem: LogLinear, theta: Vector) -> float:
    """What rounding may add to P at ``theta`` in the basis of the problem; 0 where no lower bound hangs on the slope:
    without a penalty, and with hidden labels."""
    if problem.penalty == NO_PENALTY or isinstance(judged(problem), HiddenField):
        return 0.0
    return problem.primal({"theta": problem.basis.theta(theta)}).allowance


def points(
    problem: Smooth,
    here: Here,
    memory: int,
    kind: str = "diagonal",
    allowed: Callable[[Vector], float] = lambda theta: 0.0,
) -> Iterator[tuple[Here, int]]:
    """The points of L-BFGS after ``here`` in the metric ``kind``, and the evaluations that each took.

    Where no step decreases P, not even after the pairs are dropped, P may rise by ``allowed``, what rounding may add to
    it: its slopes have digits left where its values have none, and with features of 1e7 the lower bound needs these.
    Ends where there is no such step either.
    """
    pairs = Pairs(memory, problem.dimension, single=problem.dimension >= SINGLE_FROM)
    metric, along = Metric(problem, kind), orthant_search if problem.penalty.l1 else search
    noise = VALUE_ROUNDING * max(1.0, abs(here.value))  # P is a sum whose terms are about as large as at the start
    for step in count():
        tried = metric.renew(step, here)
        there, tries = along(problem, here, -pairs.solve(metric, here.gradient, fit=True), noise)
        tried += tries
        if there is None and len(pairs):
            pairs.clear()
            there, tries = along(problem, here, -metric(here.gradient), noise)
            tried += tries
        if there is None and (largest := allowed(here.theta)) > noise and math.isfinite(largest):
            noise = largest
            continue
        if there is None:
            return
        change = there.theta - here.theta
        bend = problem.penalty.lam * change
        bend += there.data
        bend -= here.data
        pairs.add(change, bend)
        here = there
        yield here, tried


def descent(problem: Smooth, here: Here, memory: int = LBFGS.memory) -> Iterator[tuple[Here, int]]:
    """`points` as long as P does not rise by rounding: for the inner problem of another solver, which has no gap."""
    for there, tried in points(problem, here, memory):
        if there.value > here.value:
            return
        here = there
        yield here, tried


class Metric:
    """H_0. kind : "scalar" or "diagonal"."""

    def __init__(self, problem: Smooth, kind: str) -> None:
        self.problem, self.kind = problem, kind
        self.inverse: Vector | float = 1.0
        self._least = np.zeros(problem.dimension)

    def renew(self, step: int, here: Here) -> int:
        """Recompute H_0 at a point, if ``step`` is in the schedule. "scalar": only at step 0, such that the first step
        has length 1 at most. How many evaluations of the diagonal it took: 1 or 0."""
        if self.kind == "scalar":
            if not step:
                self.inverse = 1.0 / max(
                    float(np.linalg.norm(here.gradient)), self.problem.penalty.lam, LEAST_CURVATURE
                )
            return 0
        if step not in RENEWAL_ROUNDS and step % RENEWAL_ROUNDS[-1]:
            return 0
        found = np.maximum(self.problem.curvature(here.theta), self._least)
        if not step:
            self._least = LEAST_CURVATURE * found
        found = self.problem.penalty.lam + found
        self.inverse = 1.0 / np.where(found > 0.0, found, 1.0)
        return 1

    def __call__(self, gradient: Vector) -> Vector:
        return np.asarray(self.inverse * gradient)


def coherent(features: PairwiseFeatures) -> bool:
    """Whether node features occur together, so that the scalar metric is the better one."""
    x, v = features.node_features, np.random.default_rng(0).normal(size=features.n_node_features)
    with np.errstate(all="ignore"):
        if isinstance(x, np.ndarray):
            square = np.einsum("vj,vj->j", x, x)
        else:
            square = np.bincount(x.indices, x.data**2, len(v))
        scale = np.where(square > 0.0, 1.0 / np.sqrt(square), 0.0)
        for _ in range(POWER_STEPS):
            v = scale * (x.T @ (x @ (scale * v / np.linalg.norm(v))))
        return bool(np.linalg.norm(v) > COHERENT_EIGENVALUE)


def search(problem: Smooth, here: Here, direction: Vector, noise: float) -> tuple[Here | None, int]:
    """The point that `wolfe_search` finds along ``direction``, or None; and the number of points tried. noise : what
    rounding may add to a value."""

    def at(length: float) -> tuple[Here, float]:
        theta = length * direction
        theta += here.theta
        there = Here.at(problem, theta)
        return there, float(there.gradient @ direction)

    return wolfe_search(at, here.value, float(here.gradient @ direction), noise)


def orthant_search(problem: Smooth, here: Here, direction: Vector, noise: float) -> tuple[Here | None, int]:
    """The first of the steps 1, 1/2, 1/4, .. along ``direction`` inside the orthant that decreases P, or None; and how
    many were tried."""
    direction = np.where(direction * here.gradient < 0.0, direction, 0.0)
    orthant = np.where(here.theta != 0.0, np.sign(here.theta), -np.sign(here.gradient))
    length = 1.0
    for trial in range(1, SEARCH_TRIALS + 1):
        deadline.check()
        theta = here.theta + length * direction
        theta[theta * orthant < 0.0] = 0.0
        promised = float(here.gradient @ (theta - here.theta))
        if not promised < 0.0:
            return None, trial - 1
        there = Here.at(problem, theta)
        if there.value <= here.value + ARMIJO * promised + noise:
            return there, trial
        length *= 0.5
    return None, SEARCH_TRIALS
