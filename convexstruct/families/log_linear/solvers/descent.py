r"""The interface of problems for the descent methods of this family, and the bounds at a point.

A problem is P(theta) = L(theta) + R(theta), where L is convex, a weighted sum of ln Z minus the score of the truth. The
weighted entropies of the Gibbs distributions of theta sum to L - <theta, grad L>, so that the bound of
`Penalty.lower_bound` needs no further sum over labellings. It is computed without allowance for rounding; `certify`
proves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.basis import REACH_NATS, Reach
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.existence import no_maximum
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import NO_PENALTY, Penalty
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.families.log_linear.separable import never_true
from convexstruct.rounding import Rounded
from convexstruct.tolerances import ROUNDING

#: The message where the likelihood of a conditional random field has no maximum.
RISES = "the likelihood has no maximum: problem.runaway(theta) is a direction along which it rises for ever"
#: Hidden labels: a point is called stationary where P's slope, as ``stationarity`` of the problem measures it, is at
#: most this. Values are told apart to `ROUNDING`, and slopes near a minimum to its root.
STATIONARY = math.sqrt(ROUNDING)
#: Without a penalty a lower bound is computed only where the gap is estimated below this share of the value: earlier it
#: could end no run, and costs as much as a round.
BOUNDED_BELOW = 1e-2


class Smooth(Protocol):
    """L and R, as L-BFGS needs them."""

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


#: What the descent methods solve.
LogLinear = ConditionalRandomField | HiddenField | MarkovRandomField | PseudoLikelihood


@dataclass(frozen=True, eq=False)
class Here:
    """The problem's values at a point; for `report`, those of the problem in its basis.

    loss : L(theta). data : its gradient. value : P(theta). gradient : P's subgradient of least norm.
    """

    theta: Vector
    loss: float
    data: Vector
    value: float
    gradient: Vector

    @classmethod
    def at(cls, problem: Smooth, theta: Vector) -> Here:
        loss, data = problem.value_and_gradient(theta)
        penalty = problem.penalty
        return cls(theta, loss, data, loss + float(penalty.value(theta)), penalty.gradient(theta, data))

    def lower_bound(self, penalty: Penalty, reach: Reach | None = None) -> float:
        """D at the Gibbs distributions of theta, mixed with the truth where the penalty has |theta|_1 or no L2 part;
        without a penalty, `Reach.lower_bound` if ``reach`` is given."""
        if penalty.lam and not penalty.l1:
            return self.value - 0.5 * float(self.gradient @ self.gradient) / penalty.lam
        entropy = Rounded(self.loss - float(self.theta @ self.data))
        return float((reach or penalty).lower_bound(entropy, self.data))


def first(problem: LogLinear, start: Solution | None) -> Vector:
    """The start in the basis of the problem, 0 by default."""
    if start is None:
        return np.zeros(problem.dimension)
    return problem.basis.coordinates(np.array(start.point["theta"], dtype=np.float64))


def starts(
    problem: LogLinear, start: Solution | None, restarts: int, spread: float, seed: int
) -> Iterator[tuple[bool, Vector]]:
    """(whether it is the last, its parameters in the basis) of each start: `first` where P is convex. With hidden
    labels P is not, and theta = 0 is stationary wherever they may be permuted: ``restarts`` normal draws of standard
    deviation ``spread``, in place of the first of which ``start`` may be given."""
    if not isinstance(judged(problem), HiddenField):
        yield True, first(problem, start)
        return
    rng = np.random.default_rng(seed)
    for k in range(restarts):
        theta = problem.basis.coordinates(spread * rng.normal(size=problem.dimension))
        yield k + 1 == restarts, theta if k or start is None else first(problem, start)


def judged(problem: LogLinear) -> LogLinear:
    """The problem whose bounds hold: the model of a `HiddenField` of which every label is observed."""
    return problem.model if isinstance(problem, HiddenField) and problem.observed else problem


def report(problem: LogLinear, here: Here, calls: int, done: bool = False, message: str = "") -> Iterate:
    """The iterate of a point in the basis. Where hidden labels leave the lower bound 0, and the value is so near 0 that
    its rounding decides about the gap, the certificate's upper bound stands for the value."""
    theta, value, penalty, model = problem.basis.theta(here.theta), here.value, problem.penalty, judged(problem)
    if problem.basis.lost(theta) > ROUNDING * abs(value):  # theta is not what descent found, or its terms cancel
        value = problem.primal({"theta": theta}).upper
    if isinstance(model, HiddenField):
        bound = 0.0
        if value < least_unit(model):
            value = model.primal({"theta": theta}).upper
    elif isinstance(model, ConditionalRandomField):
        bound = here.lower_bound(penalty, model.basis.reach)
    elif isinstance(model, MarkovRandomField | PseudoLikelihood) and (reach := model.basis.reach):
        # by how much restoring the moments lowers the bound, to first order; the bound is computed if that is little
        missing = float(np.abs(here.theta) @ np.abs(here.data) + reach.length @ reach.norms(here.data) / REACH_NATS)
        near = missing <= BOUNDED_BELOW * max(abs(value), least_unit(model))
        bound = float(model.dual(model.witness_in_basis(here.theta))) if near else -math.inf
    else:
        bound = here.lower_bound(penalty)
    message = "; ".join(filter(None, (message, problem.basis.said)))
    witness = lambda: problem.witness_in_basis(here.theta)  # noqa: E731
    return Iterate({"theta": theta}, witness, value, bound, calls, done=done, message=message)


def separated(problem: LogLinear, here: Here) -> str:
    """`RISES` where P of a conditional random field without a penalty falls along theta for ever; "" elsewhere, and
    wherever some truth may be less probable than all else together: P >= C omega_i ln 2."""
    model = judged(problem)
    if not isinstance(model, ConditionalRandomField) or model.penalty != NO_PENALTY:
        return ""
    probable = here.value < math.log(2.0) * float(model.ceiling.min())
    return RISES if probable and model.basis.problem.separated(here.theta) else ""


def warning(problem: LogLinear, here: Here | None = None) -> str:
    """A sentence that the (pseudo)likelihood has no maximum; "" where it has one, or where a conditional random field
    does not show at the first point that it has none."""
    model = judged(problem)
    if isinstance(model, ConditionalRandomField) and here is not None and model.penalty == NO_PENALTY:
        truth, anywhere = model.truth_joint, model.expectation(np.zeros(model.dimension))[1]
        return RISES if never_true(model.features, truth, anywhere).any() else ""
    if not isinstance(model, MarkovRandomField | PseudoLikelihood):
        return ""
    direction = model.runaway()
    return "" if direction is None else no_maximum(model.factors, direction)


class Ended(NamedTuple):
    """message : why a run can go no further. stationary : whether P is not convex and its slope has vanished."""

    message: str
    stationary: bool = False


def ended(problem: LogLinear, here: Here, why: str) -> Ended:
    """How a run ends at a point: with hidden labels by the slope of P; else by rounding, or a likelihood without a
    maximum."""
    model = judged(problem)
    if isinstance(model, HiddenField):
        slope = model.stationarity(model.basis.theta(here.theta))
        return Ended(
            f"the largest entry of P's gradient is {slope:.1e} of the largest expected feature; P is not convex, and "
            "nothing is claimed of other points", slope <= STATIONARY,
        )  # fmt: skip
    if not isinstance(model, ConditionalRandomField):
        return Ended(f"{why}: rounding")
    if model.penalty == NO_PENALTY and model.runaway(model.basis.theta(here.theta)) is not None:
        return Ended(RISES)
    reason = model.rounding_reason({}, None)
    return Ended(f"{why}: rounding" + (f"; {reason}" if reason else ""))
