r"""L-BFGS for smooth penalties, from a multiple of the identity or from the inverse of the Hessian's diagonal.

metric="scalar": H_0 is a multiple of the identity.
metric="diagonal": H_0 is the inverse of lam + C sum_v x_vj^2 p_v (1 - p_v), and the same of edges (Nocedal and Wright,
Numerical Optimization, chapter 7), for features of different sizes. It is recomputed as theta moves, since p is uniform
at the start and nearly 0 or 1 mostly at the end. The pairs are kept then, since they describe P whatever H_0 is.

Where features occur together, as indicators of a word and of its neighbours do, P has directions in which the frequent
ones cancel, and its Hessian is about lam there. Scaled by its diagonal, it is lam / diagonal, down to 1e-5: the
scalar metric, in which such eigenvalues are a cluster, takes a third of the steps on CoNLL-2000 and half of them on
images of letters. Where they are uncorrelated, the diagonal metric takes half of the steps. `coherent` decides.

A step is accepted by Armijo's condition on the decrease of P and Wolfe's on the slope (`wolfe_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, one_of, read_options
from convexstruct.core.quasi_newton import VALUE_ROUNDING, Pairs, wolfe_search
from convexstruct.core.rounds import PATIENCE, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.families.log_linear.solvers.descent import (
    RISES,
    Here,
    LogLinear,
    checked,
    first,
    report,
    separated,
    warning,
)
from convexstruct.features.graphs.pairwise import PairwiseFeatures

#: (problem, point, direction) -> (a point along it that decreases P, or None; how many were tried).
LineSearch = Callable[[LogLinear, Here, Vector], tuple[Here | None, int]]
#: The choices of H_0.
METRICS = ("scalar", "diagonal")
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


@dataclass(frozen=True)
class LBFGS:
    """memory : pairs of changes that are kept, at least 1. metric : "scalar" or "diagonal"."""

    memory: int = 6
    metric: str = "diagonal"

    def __post_init__(self) -> None:
        read_options(self, memory=at_least(1), metric=one_of(*METRICS))

    def iterate(
        self, problem: ConditionalRandomField | MarkovRandomField | PseudoLikelihood, start: Solution | None = None
    ) -> Iterator[Iterate]:
        """Yield each point with its bounds; ``start`` gives the first."""
        checked(problem, "LBFGS", l1=False)
        yield from rounds(problem, start, self.memory, self.metric, search)


def rounds(
    problem: ConditionalRandomField | MarkovRandomField | PseudoLikelihood,
    start: Solution | None,
    memory: int,
    kind: str,
    along: LineSearch,
) -> Iterator[Iterate]:
    """The rounds of `LBFGS` and `OrthantWise`: points that the line search ``along`` finds, each with its bounds."""
    here = Here.at(problem, first(problem, start))
    pairs = Pairs(memory, problem.dimension, single=problem.dimension >= SINGLE_FROM)
    patience = Patience(PATIENCE, least_unit(problem))
    metric, calls, message = Metric(problem, kind), 1, warning(problem, here)
    for step in count():
        message = message or separated(problem, here)
        said = report(problem, here, calls + metric.calls, message=message)
        if patience.ended(said.primal, said.lower_bound):
            yield replace(said, done=True, message=message or ended(problem, here, "neither bound moves any further"))
            return
        yield said
        metric.renew(step, here)
        there, tries = stepped(problem, here, pairs, metric, along)
        calls += tries
        if there is None:
            why = message or ended(problem, here, "no step decreases P any further")
            yield report(problem, here, calls, done=True, message=why)
            return
        here = there


def stepped(problem: LogLinear, here: Here, pairs: Pairs, metric: Metric, along: LineSearch) -> tuple[Here | None, int]:
    """The next point, whose pair is kept, and how many points were tried; None where no step decreases P, not even
    after the pairs are dropped."""
    there, tries = along(problem, here, -pairs.solve(metric, here.gradient, fit=True))
    if there is None and len(pairs):
        pairs.clear()
        there, more = along(problem, here, -metric(here.gradient))
        tries += more
    if there is not None:
        change = there.theta - here.theta
        bend = problem.penalty.lam * change
        bend += there.data
        bend -= here.data
        pairs.add(change, bend)
    return there, tries


def ended(problem: LogLinear, here: Here, why: str) -> str:
    """The message where a run can go no further: rounding, or a conditional field without a penalty and a maximum."""
    free = problem.penalty == Penalty()
    if free and isinstance(problem, ConditionalRandomField) and problem.runaway(here.theta) is not None:
        return RISES
    reason = problem.rounding_reason({}, None) if isinstance(problem, ConditionalRandomField) else ""
    return f"{why}: rounding" + (f"; {reason}" if reason else "")


class Metric:
    """H_0. kind : "scalar" or "diagonal". calls : number of evaluations of the diagonal."""

    def __init__(self, problem: LogLinear, kind: str) -> None:
        self.problem, self.kind, self.calls = problem, kind, 0
        self.inverse: Vector | float = 1.0
        self._least = np.zeros(problem.dimension)

    def renew(self, step: int, here: Here) -> None:
        """Recompute H_0 at a point, if ``step`` is in the schedule. "scalar": only at step 0, such that the first step
        has length 1 at most."""
        if self.kind == "scalar":
            if not step:
                self.inverse = 1.0 / max(
                    float(np.linalg.norm(here.gradient)), self.problem.penalty.lam, LEAST_CURVATURE
                )
            return
        if step not in RENEWAL_ROUNDS and step % RENEWAL_ROUNDS[-1]:
            return
        found = np.maximum(self.problem.curvature(here.theta), self._least)
        if not self.calls:
            self._least = LEAST_CURVATURE * found
        found = self.problem.penalty.lam + found
        self.inverse, self.calls = 1.0 / np.where(found > 0.0, found, 1.0), self.calls + 1

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


def search(problem: LogLinear, here: Here, direction: Vector) -> tuple[Here | None, int]:
    """The point that `wolfe_search` finds along ``direction``, or None; and the number of points tried."""

    def at(length: float) -> tuple[Here, float]:
        there = Here.at(problem, here.theta + length * direction)
        return there, float(there.gradient @ direction)

    return wolfe_search(at, here.value, float(here.gradient @ direction), VALUE_ROUNDING * max(1.0, abs(here.value)))
