r"""The interface of problems for the descent methods of this family, and the bounds at a point.

A problem is P(theta) = L(theta) + R(theta), where L is convex, a weighted sum of ln Z minus the score of the truth. The
weighted entropies of the Gibbs distributions of theta sum to L - <theta, grad L>, so that the bound of
`Penalty.lower_bound` needs no further sum over labellings. It is computed without allowance for rounding; `certify`
proves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.existence import no_maximum
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.families.log_linear.separable import never_true
from convexstruct.rounding import Rounded

#: The message where the likelihood of a conditional random field has no maximum.
RISES = "the likelihood has no maximum: problem.runaway(theta) is a direction along which it rises for ever"
#: Without a penalty a lower bound is computed only where the gap is estimated below this share of the value: earlier it
#: could end no run, and bounds in every round double its time.
BOUNDED_BELOW = 1e-2


class LogLinear(Protocol):
    """The methods that the descent solvers need of a log-linear model."""

    @property
    def penalty(self) -> Penalty: ...

    @property
    def dimension(self) -> int: ...

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """L(theta) and its gradient (d,), without the penalty."""
        ...

    def curvature(self, theta: Vector) -> Vector:
        """An approximate diagonal of the Hessian of L; (d,), at least 0."""
        ...

    def witness(self, theta: Vector) -> Point:
        """The Gibbs distributions of theta as a dual point."""
        ...


@dataclass(frozen=True, eq=False)
class Here:
    """The problem's values at a point. loss : L(theta). data : its gradient. value : P(theta). gradient : P's
    subgradient of least norm."""

    theta: Vector
    loss: float
    data: Vector
    value: float
    gradient: Vector

    @classmethod
    def at(cls, problem: LogLinear, theta: Vector) -> Here:
        loss, data = problem.value_and_gradient(theta)
        penalty = problem.penalty
        return cls(theta, loss, data, loss + float(penalty.value(theta)), penalty.gradient(theta, data))

    def lower_bound(self, penalty: Penalty) -> float:
        """D at the Gibbs distributions of theta, mixed with the truth where the penalty has |theta|_1 or no L2 part."""
        if penalty.lam and not penalty.l1:
            return self.value - 0.5 * float(self.gradient @ self.gradient) / penalty.lam
        return float(penalty.lower_bound(Rounded(self.loss - float(self.theta @ self.data)), self.data))


def checked(problem: LogLinear, who: str, l1: bool) -> None:
    """Raise ValueError if the penalty has |theta|_1 and ``l1``, whether the solver ``who`` supports it, is False."""
    if problem.penalty.l1 and not l1:
        raise ValueError(
            f"problem has l1 = {problem.penalty.l1:g}, wanted 0: {who} is for smooth penalties, use OrthantWise"
        )


def first(problem: LogLinear, start: Solution | None) -> Vector:
    """theta of the start, 0 by default."""
    return np.zeros(problem.dimension) if start is None else np.array(start.point["theta"], dtype=np.float64)


def report(problem: LogLinear, here: Here, calls: int, done: bool = False, message: str = "") -> Iterate:
    """The iterate of a point."""
    theta = here.theta
    bound = here.lower_bound(problem.penalty)
    if isinstance(problem, ConditionalRandomField) and problem.penalty == Penalty():
        entropy = Rounded(here.loss - float(theta @ here.data))
        bound = float(problem.penalty.lower_bound_in_reach(entropy, here.data, np.zeros(len(theta)), problem.unit))
    elif isinstance(problem, MarkovRandomField | PseudoLikelihood) and problem.penalty == Penalty():
        # by how much restoring the moments lowers the bound, to first order; the bound is computed if that is little
        missing = float((np.abs(theta) + problem.unit) @ np.abs(here.data))
        near = missing <= BOUNDED_BELOW * max(abs(here.value), least_unit(problem))
        bound = float(problem.dual(problem.witness(theta))) if near else -math.inf
    return Iterate(
        {"theta": theta}, lambda: problem.witness(theta), here.value, bound, calls, done=done, message=message
    )


def separated(problem: LogLinear, here: Here) -> str:
    """`RISES` where P of a conditional random field without a penalty falls along theta for ever; "" elsewhere, and
    wherever some truth may be less probable than all else together: P >= C omega_i ln 2."""
    if not isinstance(problem, ConditionalRandomField) or problem.penalty != Penalty():
        return ""
    probable = here.value < math.log(2.0) * float(problem.ceiling.min())
    return RISES if probable and problem.separated(here.theta) else ""


def warning(problem: LogLinear, here: Here | None = None) -> str:
    """A sentence that the (pseudo)likelihood has no maximum; "" where it has one, or where a conditional random field
    does not show at the first point that it has none."""
    if isinstance(problem, ConditionalRandomField) and here is not None and problem.penalty == Penalty():
        truth = problem.truth_joint
        return RISES if never_true(problem.features, truth, here.data + truth).any() else ""
    if not isinstance(problem, MarkovRandomField | PseudoLikelihood):
        return ""
    direction = problem.runaway()
    return "" if direction is None else no_maximum(problem.factors, direction)
