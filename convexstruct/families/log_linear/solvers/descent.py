r"""What every method of descent of this family asks of a problem, and its bounds at a point.

A problem is P(theta) = L(theta) + R(theta), L convex, a weighted sum of ln Z less the score of the truth. With the
gradient -Psi of L, the entropies of the Gibbs distributions of theta are L - <theta, grad L> in all, and the bound of
`Penalty.lower_bound` follows with no further sum over labellings. It is computed, not proved: `certify` does that.
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
from convexstruct.rounding import Rounded

#: Without a penalty a lower bound is made where the gap is about below this share of the value.
NEAR = 1e-2


class LogLinear(Protocol):
    """What is asked of a log-linear model."""

    @property
    def penalty(self) -> Penalty: ...

    @property
    def dimension(self) -> int: ...

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """L(theta) and its gradient (d,), without the penalty."""
        ...

    def curvature(self, theta: Vector) -> Vector:
        """About the diagonal of the Hessian of L; (d,), at least 0."""
        ...

    def witness(self, theta: Vector) -> Point:
        """The dual point that the Gibbs distributions of theta are."""
        ...


@dataclass(frozen=True, eq=False)
class Here:
    """A point. loss : L(theta). data : its gradient. value : P(theta). gradient : P's subgradient of least norm."""

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
        """D of the Gibbs distributions of theta, scaled towards the truth where |theta|_1 counts, or there is no L2."""
        if penalty.lam and not penalty.l1:
            return self.value - 0.5 * float(self.gradient @ self.gradient) / penalty.lam
        return float(penalty.lower_bound(Rounded(self.loss - float(self.theta @ self.data)), self.data))


def checked(problem: LogLinear, who: str, l1: bool) -> None:
    """ValueError if |theta|_1 counts and ``l1`` does not say that it may."""
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
        # what restoring the moments costs, to first order: the bound itself is dear, and asked for where it may be good
        missing = float((np.abs(theta) + problem.unit) @ np.abs(here.data))
        near = missing <= NEAR * max(abs(here.value), least_unit(problem))
        bound = float(problem.dual(problem.witness(theta))) if near else -math.inf
    return Iterate(
        {"theta": theta}, lambda: problem.witness(theta), here.value, bound, calls, done=done, message=message
    )


def warning(problem: LogLinear) -> str:
    """That the maximum of a Markov random field's (pseudo)likelihood does not exist, in one sentence; "" where it
    does."""
    if not isinstance(problem, MarkovRandomField | PseudoLikelihood):
        return ""
    direction = problem.runaway()
    return "" if direction is None else no_maximum(problem.factors, direction)
