"""What mistake would explain a wrong answer: said only where it makes the answer optimal to `HIGH`.

A mistake is a `Slip`: another problem, of which the answer is then an optimal point, or a change of the point, after
which it is optimal. The families declare theirs (``slips.py`` in their folders); those here fit any problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.optimize as so

from convexstruct.arrays import Point
from convexstruct.core.certificates import Problem, certify, least_unit, relative_gap
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.registry import family_of
from convexstruct.core.slips import Slip
from convexstruct.core.trace import Trace
from convexstruct.tolerances import HIGH
from convexstruct.verification.outcome import Reference

#: Seconds that the solution of one altered problem may take; what takes longer is not tested.
SECONDS = 5.0
#: An optimal point of an altered problem is better than its multiples by these factors; else the problem is not solved.
MULTIPLES = (0.98, 1.02)
#: The largest factor looked for along the ray through the answer, as a power of e.
LARGEST_POWER = 9.0


def hint(problem: Problem, point: Point, reference: Reference, feasible: bool = True) -> str:
    """The mistakes that explain ``point``, as the end of a sentence; "" if none does, or if the answer may be optimal:
    ``feasible``, and no worse than the stored upper bound."""
    if feasible and float(problem.primal(point)) <= reference.upper_bound:
        return ""
    family = family_of(problem)
    told = []
    with np.errstate(all="ignore"):
        if _at_start(problem, point):  # many mistakes end there: no loss, no margin, weights far too small
            return "it is the point where solvers start: does it stop there, or is what should move it too weak?"
        for slip in (*_anywhere(problem, point), *(family.slips(problem) if family else ())):
            try:
                if explains(slip, problem, point, reference):
                    told.append(slip.said)
            except Exception:  # any: a mistake that cannot be made here explains nothing
                continue
    return "; or ".join(dict.fromkeys(told))


def explains(slip: Slip, problem: Problem, point: Point, reference: Reference) -> bool:
    """Whether the answer is optimal to `HIGH` for the problem, and as the point, that the mistake makes of them."""
    at = point if slip.point is None else slip.point(point)
    if slip.problem is None:
        return _optimal(problem, at, reference.value)
    other = slip.problem(point)
    read = other.as_point(at)
    value = _value(other, read)
    if any(_value(other, _times(read, factor)) < value * (1 - HIGH.gap) for factor in MULTIPLES):
        return False
    least = least_unit(other)

    def better(iterate: Iterate, _: Trace) -> bool:
        """A point that is better by so much ends the run: the answer is not optimal."""
        return math.isfinite(iterate.primal) and relative_gap(value, iterate.primal, least) > HIGH.gap

    found = solve(other, tol=HIGH, time_limit=SECONDS, callback=better)
    return found.status.solved and _optimal(other, read, found.primal)


def _optimal(problem: Problem, point: Any, optimum: float) -> bool:
    certificate = certify(problem, point)
    gap = relative_gap(certificate.primal, optimum, certificate.least)
    return certificate.infeasibility <= HIGH.feasibility and gap <= HIGH.gap


def _value(problem: Problem, point: Point) -> float:
    """The objective; inf where the point is not feasible."""
    value = float(problem.primal(point)) if _infeasibility(problem, point) <= HIGH.feasibility else math.inf
    return value if math.isfinite(value) else math.inf


def _infeasibility(problem: Problem, point: Point) -> float:
    return max(problem.residuals(point).values(), default=0.0)


def _times(point: Point, factor: float) -> Point:
    return {name: factor * array for name, array in point.items()}


def _anywhere(problem: Problem, point: Point) -> Iterator[Slip]:
    """A sign, a scale, a shift by one: mistakes with any problem."""
    yield Slip("its opposite is optimal: is a sign wrong?", point=lambda given: _times(given, -1.0))
    factor = _on_ray(problem, point)
    if math.isfinite(factor):
        said = f"{factor:.6g} times it is optimal: is it a scale, such as C for each example or its mean?"
        yield Slip(said, point=lambda given: _times(given, factor))
    for by in (-1, 1):
        said = "shifted by one entry it is optimal: is an index off by one?"
        yield Slip(said, point=partial(_rolled, by=by))


def _rolled(point: Point, by: int) -> Point:
    return {name: np.roll(array, by) for name, array in point.items()}


def _at_start(problem: Problem, point: Point) -> bool:
    """Whether the answer is the trivial point, and has its objective to `HIGH`."""
    start = problem.trivial()[0]
    if any(np.abs(point[name] - array).max(initial=0.0) > HIGH.gap for name, array in start.items()):
        return False
    value = _value(problem, start)
    return abs(_value(problem, point) - value) <= HIGH.gap * abs(value)


def _on_ray(problem: Problem, point: Point) -> float:
    """The factor of the best multiple of the point, up to its opposite, or, where small multiples are not feasible, of
    the one that is nearest to feasible; NaN where that is no multiple of its own."""
    ahead, behind = (_value(problem, _times(point, factor)) for factor in (1e-3, -1e-3))
    sign = 1.0 if ahead <= behind else -1.0
    measured = _value if math.isfinite(min(ahead, behind)) else _infeasibility
    found = so.minimize_scalar(
        lambda power: min(measured(problem, _times(point, sign * math.exp(power))), 1e300),
        bounds=(-LARGEST_POWER, LARGEST_POWER), method="bounded", options={"xatol": 1e-7},
    )  # fmt: skip
    factor = sign * math.exp(float(found.x))
    return factor if abs(abs(factor) - 1.0) > HIGH.gap**0.5 else math.nan
