"""Bounds on the optimum from a point and a dual point, computed from the problem alone and not by a solver.

`certify` is the only judge in the project. It asks the problem for four things and trusts nothing else:

* ``problem.repair(point)``: the nearest feasible point by the problem's own rule (it may be the point itself);
* ``problem.primal(point)``: the objective at a feasible point, an upper bound on the optimum of a minimisation;
* ``problem.dual(dual_point)``: a valid lower bound from a dual witness (-inf if the witness is no witness); both carry
  an allowance for the rounding of their own sums (`convexstruct.rounding.Rounded`), by which the bounds are widened;
* ``problem.residuals(point)`` and ``problem.dual_residuals(dual_point)``: how far each is from feasible, by name.

Every problem of this project is a minimisation. The ``dual`` of a problem without duality (non-convex training)
returns -inf, so that the gap is inf: what is undefined is inf, never 0.

What a gap is relative to, what an upside-down bracket is and which profile a certificate meets is said once, here
(`relative_gap`) and in `convexstruct.tolerances` (`Profile.met_by`, `FLOOR`); everything else asks these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from convexstruct.arrays import Point
from convexstruct.rounding import Rounded, enclose
from convexstruct.tolerances import FLOOR, ROUNDING, met
from convexstruct.validation.arguments import refuse

#: An object is taken for a problem if it has these methods.
METHODS = ("as_point", "primal", "dual", "repair", "residuals", "dual_residuals")


class Problem(Protocol):
    """What a problem must offer to be certified, solved and verified; every family implements it."""

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
        """(point, dual point) that need no solver: w = 0 and no weights, uniform distributions, u = 0; what is
        certified where a solver was stopped before its first iterate."""
        ...

    def as_point(self, value: Any) -> Point:
        """Read an array or a mapping as a point; ValueError says which shape was wanted."""
        ...

    def primal(self, point: Point) -> float:
        """The objective at ``point``, a `Rounded`; at a feasible point an upper bound on the optimum."""
        ...

    def dual(self, dual_point: Point) -> float:
        """A lower bound on the optimum, a `Rounded`, whatever ``dual_point`` holds; -inf if it proves nothing."""
        ...

    def repair(self, point: Point) -> Point:
        """A feasible point near ``point``, which `certify` asks for where the residuals are above 0."""
        ...

    def residuals(self, point: Point) -> Mapping[str, float]:
        """By name, how far ``point`` lies outside the feasible set, 0 if it does not; relative to what it constrains
        where that is large, so that a profile's feasibility means the same for every problem."""
        ...

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """The same of a dual point, before `dual` clears rounding away; ValueError where it cannot be read."""
        ...


def check_problem(problem: Any) -> None:
    """ValueError unless ``problem`` is one: an instance that answers what is asked of problems."""
    wanted = "a problem, such as GenerativeMargin, StructuredSVM, RegularizedRisk"
    try:
        known = isinstance(problem.family, str) and all(callable(getattr(problem, name)) for name in METHODS)
    except Exception:  # any: what is asked may be foreign code
        refuse("problem", problem, wanted)
    if not known or isinstance(problem, type):
        refuse("problem", problem, wanted)


@runtime_checkable
class ExplainsRounding(Protocol):
    """What a problem may offer besides: the reason why the rounding of its own sums is large."""

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """One sentence that names what of the data makes the allowances large (a large C, a badly scaled feature) and
        what to do about it; "" where nothing stands out."""
        ...


def relative_gap(primal: float, lower_bound: float, least: float = 0.0) -> float:
    """(primal - lower bound) / max(|primal|, |lower bound|, least); inf where either is not finite.

    Negative values are kept: a lower bound above a primal value is an error that must stay visible.

    least : what the difference is measured against at least, absolute (`least_unit`): near an optimum of 0 no
        difference would be small otherwise. 0 : the gap is relative to the bounds alone.
    """
    if not (math.isfinite(primal) and math.isfinite(lower_bound)):
        return math.inf
    return (primal - lower_bound) / (max(abs(primal), abs(lower_bound), least) or 1.0)


def least_unit(problem: Problem, floor: float = FLOOR) -> float:
    """floor * problem.trivial_value: what a gap of ``problem`` is measured against at least (`relative_gap`)."""
    value = float(problem.trivial_value)
    return floor * value if math.isfinite(value) and value > 0 else floor


def magnitude(problem: Problem, *values: float) -> float:
    """max(|values|, `least_unit`): what a solver's own tolerances in the objective are relative to."""
    return max(least_unit(problem), *(abs(value) for value in values if math.isfinite(value)))


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimum of a minimisation, and how far the points were from feasible.

    Attributes
    ----------
    primal : objective at the repaired (feasible) point plus its allowance: an upper bound. inf if there is none.
    lower_bound : value of the dual witness less its allowance. -inf if there is none.
    gap : `relative_gap` of the two; below 0 the bracket is upside down and, beyond rounding, certifies nothing.
    claimed : objective at the point as it was handed in, before any repair (not a bound if the point is infeasible).
    residuals : by name, how far the point as handed in lies outside the feasible set (0 is feasible).
    dual_residuals : the same of the dual witness, before rounding was cleared away.
    primal_allowance, dual_allowance : what the rounding of the sums behind either bound may amount to, absolute; both
        bounds are widened by it already.
    least : what the gap was measured against at least, absolute (`least_unit`).
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

    @property
    def rounding(self) -> float:
        """The share of the gap that is the rounding of the bounds' own sums, relative as the gap is."""
        allowance = self.primal_allowance + self.dual_allowance
        unit = max(abs(self.primal), abs(self.lower_bound), self.least) or 1.0
        return allowance / unit if math.isfinite(unit) else 0.0

    @property
    def infeasibility(self) -> float:
        """The largest of the residuals of the point as it was handed in, 0 if it is feasible."""
        return max(self.residuals.values(), default=0.0)

    @property
    def profile(self) -> str | None:
        """The strictest profile met (HIGH, MID, LOW), or None; an upside-down bracket meets none."""
        return met(self.gap, self.infeasibility)


def certify(problem: Problem, point: Any, dual_point: Point | None = None, floor: float = FLOOR) -> Certificate:
    """Bounds on the optimum of ``problem`` from a point and, if there is one, a dual point.

    Parameters
    ----------
    problem : any problem of the package.
    point : array or mapping, as `problem.as_point` reads it.
    dual_point : mapping of arrays: a witness of dual feasibility in a form the problem documents.
    floor : the gap is measured against this share of ``problem.trivial_value`` at least
        (`convexstruct.tolerances.Profile`).

    Raises
    ------
    ValueError
        If the point or dual point has the wrong names or shapes. Values that are not finite are no error: they certify
        nothing, and the bound is infinite.
    """
    check_problem(problem)
    read = problem.as_point(point)
    finite = not any(np.isnan(value).any() for value in read.values())
    claimed = primal = Rounded(math.inf)
    residuals: Mapping[str, float] = {"not a number": math.inf}
    if finite:
        residuals = dict(problem.residuals(read))
        claimed = enclose(problem.primal(read))
        primal = claimed
        if max(residuals.values(), default=0.0) > 0:
            repaired = problem.repair(read)
            # what the repair leaves beyond rounding is no feasible point, and its objective no upper bound
            if max(problem.residuals(repaired).values(), default=0.0) <= ROUNDING:
                primal = enclose(problem.primal(repaired))
            else:
                primal = Rounded(math.inf)
    lower_bound = Rounded(-math.inf)
    dual_residuals: Mapping[str, float] = {}
    if dual_point is not None:
        dual_residuals = dict(problem.dual_residuals(dual_point))
        lower_bound = enclose(problem.dual(dual_point))
    upper, lower = _or_inf(primal.upper), -_or_inf(-lower_bound.lower)
    least = least_unit(problem, floor)
    return Certificate(
        primal=upper,
        lower_bound=lower,
        gap=relative_gap(upper, lower, least),
        claimed=_or_inf(claimed),
        residuals=residuals,
        dual_residuals=dual_residuals,
        primal_allowance=primal.allowance,
        dual_allowance=lower_bound.allowance,
        least=least,
    )


def _or_inf(value: float) -> float:
    return math.inf if math.isnan(value) else float(value)
