"""A point and a dual point in, bounds out: computed from the problem alone, by no solver.

`certify` is the only judge in the project. It asks the problem for four things and trusts nothing else:

* ``problem.repair(point)``: the nearest feasible point by the problem's own rule (it may be the point itself);
* ``problem.primal(point)``: the objective at a feasible point, an upper bound on the optimum of a minimisation;
* ``problem.dual(dual_point)``: a valid lower bound from a dual witness (-inf if the witness is no witness); both carry
  an allowance for the rounding of their own sums (`convexstruct.rounding.Rounded`), by which the bounds are widened;
* ``problem.residuals(point)`` and ``problem.dual_residuals(dual_point)``: how far each is from feasible, by name.

Every problem of this project is a minimisation. A problem without duality (non-convex training) has no ``dual``
worth the name; it returns -inf and the gap is inf: undefined is inf, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from convexstruct.rounding import Rounded, enclose
from convexstruct.solution import Point
from convexstruct.tolerances import met


class Problem(Protocol):
    """What a problem must offer to be certified, solved and verified; every family implements it."""

    @property
    def family(self) -> str: ...

    def as_point(self, value: Any) -> Point:
        """Read an array or a mapping as a point; ValueError says which shape was wanted."""
        ...

    def primal(self, point: Point) -> float: ...

    def dual(self, dual_point: Point) -> float: ...

    def repair(self, point: Point) -> Point: ...

    def residuals(self, point: Point) -> Mapping[str, float]: ...

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]: ...


def relative_gap(primal: float, lower_bound: float) -> float:
    """(primal - lower bound) / max(1, |primal|, |lower bound|); inf where either is not finite.

    Negative values are kept: a lower bound above a primal value is an error that must stay visible.
    """
    if not (math.isfinite(primal) and math.isfinite(lower_bound)):
        return math.inf
    return (primal - lower_bound) / max(1.0, abs(primal), abs(lower_bound))


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimum of a minimisation, and how far the points were from feasible.

    Attributes
    ----------
    primal : objective at the repaired (feasible) point plus its allowance: an upper bound. inf if there is none.
    lower_bound : value of the dual witness less its allowance. -inf if there is none.
    gap : `relative_gap` of the two.
    claimed : objective at the point as it was handed in, before any repair (not a bound if the point is infeasible).
    residuals : by name, how far the point as handed in lies outside the feasible set (0 is feasible).
    dual_residuals : the same of the dual witness, before rounding was cleared away.
    primal_allowance, dual_allowance : what the rounding of the sums behind either bound may amount to, absolute; both
        bounds are widened by it already.
    """

    primal: float
    lower_bound: float
    gap: float
    claimed: float
    residuals: Mapping[str, float] = field(default_factory=dict)
    dual_residuals: Mapping[str, float] = field(default_factory=dict)
    primal_allowance: float = 0.0
    dual_allowance: float = 0.0

    @property
    def infeasibility(self) -> float:
        return max(self.residuals.values(), default=0.0)

    @property
    def profile(self) -> str | None:
        """The strictest profile met (HIGH, MID, LOW), or None."""
        return met(self.gap, self.infeasibility)


def certify(problem: Problem, point: Any, dual_point: Point | None = None) -> Certificate:
    """Bounds on the optimum of ``problem`` from a point and, if there is one, a dual point.

    Parameters
    ----------
    problem : any problem of the package.
    point : array or mapping, as `problem.as_point` reads it.
    dual_point : mapping of arrays: a witness of dual feasibility in a form the problem documents.

    Raises
    ------
    ValueError
        If the point or dual point has the wrong names or shapes. Values that are not finite are no error: they certify
        nothing, and the bound is infinite.
    """
    read = problem.as_point(point)
    finite = not any(np.isnan(value).any() for value in read.values())
    claimed = primal = Rounded(math.inf)
    residuals: Mapping[str, float] = {"not a number": math.inf}
    if finite:
        residuals = dict(problem.residuals(read))
        claimed = enclose(problem.primal(read))
        feasible = max(residuals.values(), default=0.0) <= 0
        primal = claimed if feasible else enclose(problem.primal(problem.repair(read)))
    lower_bound = Rounded(-math.inf)
    dual_residuals: Mapping[str, float] = {}
    if dual_point is not None:
        dual_residuals = dict(problem.dual_residuals(dual_point))
        lower_bound = enclose(problem.dual(dual_point))
    upper, lower = _or_inf(primal.upper), -_or_inf(-lower_bound.lower)
    return Certificate(
        primal=upper,
        lower_bound=lower,
        gap=relative_gap(upper, lower),
        claimed=_or_inf(claimed),
        residuals=residuals,
        dual_residuals=dual_residuals,
        primal_allowance=primal.allowance,
        dual_allowance=lower_bound.allowance,
    )


def _or_inf(value: float) -> float:
    return math.inf if math.isnan(value) else float(value)
