"""Bounds on the optimum from a point and a dual point, computed by the problem and not by a solver.

`certify` computes every bound that the project reports. It uses these methods of the problem and nothing that a solver
computed:

* ``problem.repair(point)``: a feasible point near the given one (the point itself where it is feasible);
* ``problem.primal(point)``: the objective at a feasible point, an upper bound on the optimum of a minimisation;
* ``problem.dual(dual_point)``: a valid lower bound from a dual point (-inf if the point proves none). Both values come
  with an allowance, a bound on the rounding of their own sums (`convexstruct.rounding.Rounded`), by which `certify`
  widens the bounds;
* ``problem.residuals(point)`` and ``problem.dual_residuals(dual_point)``: how far each point is from feasible, by the
  name of the constraint.

Every problem of this project is a minimisation. The ``dual`` of a problem without a dual (non-convex training) returns
-inf, so that the gap is inf: undefined gaps are inf, never 0.

All other code takes the definition of the gap from `relative_gap` here, and those of an upside-down bracket (a lower
bound above the upper one) and of a profile that is met from `convexstruct.tolerances` (`upside_down`, `Profile.met_by`,
`FLOOR`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from convexstruct.arrays import Point
from convexstruct.deadline import DeadlinePassed, within
from convexstruct.rounding import Rounded, enclose
from convexstruct.tolerances import FLOOR, ROUNDING, met
from convexstruct.validation.arguments import refuse

#: An object is taken for a problem if it has these methods.
METHODS = ("as_point", "primal", "dual", "repair", "residuals", "dual_residuals")


class Problem(Protocol):
    """The methods that `certify`, `solve` and the verification need of a problem; every family's problems have them.

    Four more are optional:

    * ``examined(point, dual_point)``: (``residuals(point)``, ``primal(point)``, ``dual(dual_point)``) from one pass,
      where points are large; the last is -inf without a dual point.
    * ``assumption``, a phrase that begins with "that": what the bounds of a problem of which a part is only declared
      take for granted.
    * ``rounding_reason(point, dual_point)``: one sentence that says which part of the data makes the allowances large
      (a large C, a badly scaled feature) and what to do about it; "" where no cause is found.
    * ``beyond(point)``: one sentence where the bounds of ``dual`` do not hold at the point, since they are stated over
      some points alone: the certificate then has no lower bound; "" where they hold.
    """

    @property
    def family(self) -> str:
        """The name of the family's folder."""
        ...

    @property
    def trivial_value(self) -> float:
        """The size of the objective at the trivial point, positive. Where the optimum is 0 or nearly so, gaps are
        measured relative to a small share of this value (`relative_gap`)."""
        ...

    def trivial(self) -> tuple[Point, Point]:
        """(point, dual point) that need no solver: w = 0 and no dual weights, uniform distributions, or u = 0. They are
        certified where a solver was stopped before its first iterate."""
        ...

    def as_point(self, value: Any) -> Point:
        """Read an array or a mapping as a point; ValueError, which names the shape wanted, if it does not fit."""
        ...

    def primal(self, point: Point) -> float:
        """The objective at ``point``, a `Rounded`; at a feasible point an upper bound on the optimum."""
        ...

    def dual(self, dual_point: Point) -> float:
        """A lower bound on the optimum, a `Rounded`, whatever ``dual_point`` holds; -inf if it proves nothing."""
        ...

    def repair(self, point: Point) -> Point:
        """A feasible point near ``point``; `certify` calls this where a residual of ``point`` is above 0."""
        ...

    def residuals(self, point: Point) -> Mapping[str, float]:
        """For each constraint by name, how far ``point`` violates it, 0 if it does not. Where the constrained quantity
        is large, the residual is relative to it, so that a profile's feasibility means the same for every problem."""
        ...

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """The same of a dual point, as it was before `dual` corrects violations due to rounding; ValueError if it
        cannot be read."""
        ...


class Unconstrained:
    """The base of problems in which every point is feasible: there is nothing to repair, and no residual."""

    def repair(self, point: Point) -> Point:
        """The point itself."""
        return point

    def residuals(self, point: Point) -> Mapping[str, float]:
        """Empty: there are no constraints."""
        return {}


def check_problem(problem: Any) -> None:
    """ValueError unless ``problem`` is an instance (not a class) with a ``family`` and all of `METHODS`."""
    wanted = "a problem, such as GenerativeMargin, StructuredSVM, RegularizedRisk"
    try:
        known = isinstance(problem.family, str) and all(callable(getattr(problem, name)) for name in METHODS)
    except Exception:  # any: the attributes may run a user's code
        refuse("problem", problem, wanted)
    if not known or isinstance(problem, type):
        refuse("problem", problem, wanted)


def has_nan(point: Point) -> bool:
    """Whether a value is NaN. A sum of squares is NaN only if a term is, and takes half the time of np.isnan."""
    return any(math.isnan(np.vdot(value, value)) for value in point.values())


def relative_gap(primal: float, lower_bound: float, least: float = 0.0) -> float:
    """(primal - lower bound) / max(|primal|, |lower bound|, least); inf where either is not finite.

    Negative values are kept: they show the error of a lower bound above a primal value.

    least : the smallest divisor, absolute (`least_unit`): without it no difference would be small near an optimum of 0.
        With 0 the gap is relative to the bounds alone.
    """
    if not (math.isfinite(primal) and math.isfinite(lower_bound)):
        return math.inf
    return (primal - lower_bound) / (max(abs(primal), abs(lower_bound), least) or 1.0)


def least_unit(problem: Problem, floor: float = FLOOR) -> float:
    """floor * problem.trivial_value, the smallest divisor of a relative gap of ``problem`` (``least`` of
    `relative_gap`)."""
    value = float(problem.trivial_value)
    return floor * value if math.isfinite(value) and value > 0 else floor


def magnitude(problem: Problem, *values: float) -> float:
    """max(|values|, `least_unit`): solvers' own tolerances in the objective are relative to it."""
    return max((least_unit(problem), *(abs(value) for value in values if math.isfinite(value))))


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimum of a minimisation, and how far the points were from feasible.

    Attributes
    ----------
    primal : objective at the repaired (feasible) point plus its allowance: an upper bound. inf if there is none.
    lower_bound : value of the dual point less its allowance. -inf if there is none.
    gap : `relative_gap` of the two. Below 0 the lower bound is above the upper one, and by more than rounding this
        certifies nothing.
    claimed : objective at the point as it was given, before any repair (not a bound if the point is infeasible).
    residuals : for each constraint by name, how far the given point violates it (0 is feasible).
    dual_residuals : the same of the dual point as it was given.
    primal_allowance, dual_allowance : bounds on the rounding of the sums behind each bound, absolute; the bounds above
        include them.
    least : the smallest divisor of the gap, absolute (`least_unit`).
    assumes : what the upper bound takes for granted where it rests on a user's declaration (``assumption``), else "".
    beyond : why there is no lower bound where that of the dual point does not hold at the point (``beyond``), else "".
    """

    primal: float
    lower_bound: float
    gap: float
    claimed: float
    residuals: Mapping[str, float] = field(default_factory=dict)
    dual_residuals: Mapping[str, float] = field(default_factory=dict)
    primal_allowance: float = 0.0
    dual_allowance: float = 0.0
    least: float = 0.0
    assumes: str = ""
    beyond: str = ""

    @property
    def rounding(self) -> float:
        """The part of the gap that is due to the allowances: the sum of both divided by the gap's divisor."""
        allowance = self.primal_allowance + self.dual_allowance
        unit = max(abs(self.primal), abs(self.lower_bound), self.least) or 1.0
        return allowance / unit if math.isfinite(unit) else 0.0

    @property
    def infeasibility(self) -> float:
        """The largest residual of the point as it was given, 0 if it is feasible."""
        return max(self.residuals.values(), default=0.0)

    @property
    def profile(self) -> str | None:
        """The strictest profile met (HIGH, MID, LOW), or None; an upside-down bracket meets none."""
        return met(self.gap, self.infeasibility)


def joined(upper: Certificate, lower: Certificate) -> Certificate:
    """The upper bound of one certificate and the lower bound of another of the same problem, where that holds too."""
    if upper.beyond:
        return upper
    return replace(
        upper,
        lower_bound=lower.lower_bound,
        gap=relative_gap(upper.primal, lower.lower_bound, upper.least),
        dual_residuals=lower.dual_residuals,
        dual_allowance=lower.dual_allowance,
    )


@np.errstate(all="ignore")  # an overflow shows in the bounds
def certify(
    problem: Problem, point: Any, dual_point: Point | Callable[[], Point] | None = None, floor: float = FLOOR
) -> Certificate:
    """Bounds on the optimum of ``problem`` from a point and, if there is one, a dual point.

    Parameters
    ----------
    problem : any problem of the package.
    point : array or mapping, as `problem.as_point` reads it.
    dual_point : mapping of arrays, in the form that the problem documents; or a function that makes it, as some
        solvers' iterates have.
    floor : the gap's divisor is at least this share of ``problem.trivial_value`` (`convexstruct.tolerances.Profile`).

    Raises
    ------
    ValueError
        If the point or dual point has the wrong names or shapes. Values that are not finite, or so large that sums
        overflow, are no error: they certify nothing, and the bound is infinite.
    """
    check_problem(problem)
    made = dual_point() if callable(dual_point) else dual_point
    above = _upper(problem, problem.as_point(point), made)
    return _bracket(problem, above, _lower(problem, made, above.below), least_unit(problem, floor))


def certify_in_time(
    problem: Problem,
    point: Point,
    dual_point: Point | Callable[[], Point] | None,
    floor: float,
    until: float,
    last: float,
) -> tuple[Point | None, Certificate, list[str]]:
    """As `certify`, but a bound that is not computed in time is infinite: the upper one ``until`` seconds from now, the
    lower one ``last`` seconds from now.

    Returns the dual point (made where it is a function; None without a lower bound), the certificate, and which bounds
    no time was left for, in words.
    """
    begin, read, made = time.perf_counter(), problem.as_point(point), None
    least, above, below, missed = floor, _Upper({"not evaluated": math.inf}), _Lower({}), []
    try:
        with within(until):
            least = least_unit(problem, floor)
            above = _upper(problem, read, None if callable(dual_point) else dual_point)
    except DeadlinePassed:
        missed.append("an upper bound")
    try:
        with within(last - (time.perf_counter() - begin)):
            made = dual_point() if callable(dual_point) else dual_point
            below = _lower(problem, made, above.below)
    except DeadlinePassed:
        made = None
        missed.append("a lower bound")
    return made, _bracket(problem, above, below, least), missed


class _Upper(NamedTuple):
    """The upper bound's part of a certificate; ``below`` is the lower bound where one pass gave both."""

    residuals: Mapping[str, float]
    claimed: Rounded = Rounded(math.inf)
    primal: Rounded = Rounded(math.inf)
    below: float | None = None
    beyond: str = ""


class _Lower(NamedTuple):
    """The lower bound's part of a certificate."""

    residuals: Mapping[str, float]
    bound: Rounded = Rounded(-math.inf)


def _upper(problem: Problem, read: Point, dual_point: Point | None) -> _Upper:
    if has_nan(read):
        return _Upper({"not a number": math.inf})
    below, examined = None, getattr(problem, "examined", None)
    if examined is not None:
        found, value, below = examined(read, dual_point)
    else:
        found, value = problem.residuals(read), problem.primal(read)
    residuals, claimed = dict(found), enclose(value)
    primal = claimed
    if max(residuals.values(), default=0.0) > 0:
        repaired = problem.repair(read)
        # a point whose residuals exceed rounding after the repair is infeasible, so it gives no upper bound
        if max(problem.residuals(repaired).values(), default=0.0) <= ROUNDING:
            primal = enclose(problem.primal(repaired))
        else:
            primal = Rounded(math.inf)
    beyond = getattr(problem, "beyond", None)
    said = "" if beyond is None else beyond(read)
    return _Upper(residuals, claimed, primal, below if dual_point is not None else None, said)


def _lower(problem: Problem, dual_point: Point | None, known: float | None) -> _Lower:
    if dual_point is None:
        return _Lower({})
    residuals = dict(problem.dual_residuals(dual_point))
    return _Lower(residuals, enclose(problem.dual(dual_point) if known is None else known))


def _bracket(problem: Problem, above: _Upper, below: _Lower, least: float) -> Certificate:
    below = below._replace(bound=Rounded(-math.inf)) if above.beyond else below
    upper, lower = _or_inf(above.primal.upper), -_or_inf(-below.bound.lower)
    return Certificate(
        primal=upper,
        lower_bound=lower,
        gap=relative_gap(upper, lower, least),
        claimed=_or_inf(above.claimed),
        residuals=above.residuals,
        dual_residuals=below.residuals,
        primal_allowance=above.primal.allowance,
        dual_allowance=below.bound.allowance,
        least=least,
        assumes=getattr(problem, "assumption", ""),
        beyond=above.beyond,
    )


def _or_inf(value: float) -> float:
    return math.inf if math.isnan(value) else float(value)
