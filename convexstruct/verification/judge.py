"""The judgement of an answer: its infeasibility, its gap, the profile that it meets, or what is wrong with it.

A primal point alone is enough: its objective is computed here, and the stored bracket has a lower bound of the optimum.
A dual point gives another lower bound, which must not contradict the bracket. What a solver claims is compared with
what the problem computes; a claim is never evidence.
"""

from __future__ import annotations

import math

import numpy as np

from convexstruct.arrays import Point
from convexstruct.core.certificates import Certificate, Problem, certify, relative_gap
from convexstruct.tolerances import HIGH, Profile, met, upside_down
from convexstruct.verification.hints import hint
from convexstruct.verification.isolation import Answer
from convexstruct.verification.outcome import NO_CERTIFICATE, Fast, Reference, Verdict


def judge(
    problem: Problem, reference: Reference, answer: Answer, wanted: Profile, name: str
) -> tuple[Fast, Verdict, str, str | None]:
    """(bounds and gap of the answer, verdict, the reason in one sentence, the strictest profile met).

    problem : not the copy that the solver was given, which it may have changed.
    """
    blank = Fast(name, iterations=answer.iterations, seconds=answer.seconds)
    if answer.changed:
        return blank, "failed", "changes its input: the problem is another one after the call", None
    if answer.trouble:
        return blank, "failed", answer.trouble, None
    try:
        point = problem.as_point(answer.point)
    except ValueError as error:
        return blank, "failed", f"returns the wrong shape: {error}", None
    if any(np.isnan(value).any() for value in point.values()):
        return blank, "failed", "returns NaN", None
    certificate = certify(problem, point, floor=wanted.floor)
    reached = Fast(
        name, certificate.primal, reference.lower_bound,
        relative_gap(certificate.primal, reference.lower_bound, certificate.least), answer.iterations, answer.seconds,
    )  # fmt: skip
    if certificate.infeasibility > wanted.feasibility:
        worst = max(certificate.residuals, key=lambda key: certificate.residuals[key])
        finite = all(np.isfinite(array).all() for array in point.values())
        why = hint(problem, point, reference, feasible=False) if finite else ""
        note = f"is infeasible: {worst} by {certificate.residuals[worst]:.2g}{why and f'; {why}'}"
        return reached, "failed", note, None
    if not math.isfinite(certificate.primal):
        return reached, "failed", "returns a point whose objective is not finite", None
    scale = max(abs(certificate.primal), certificate.least)
    wrong = _contradiction(answer, reference, certificate, wanted, scale)
    own = -math.inf
    if not wrong and answer.dual_point is not None:
        own, wrong = _dual(problem, point, answer, HIGH.gap * scale)
    if wrong:
        return reached, "failed", wrong, None
    if not math.isfinite(max(own, reference.lower_bound)):
        return reached, "unverified", NO_CERTIFICATE, None
    lower = max(own, reference.lower_bound)
    bracket = relative_gap(certificate.primal, lower, certificate.least)
    if upside_down(bracket) or own > reference.upper_bound + HIGH.gap * scale:
        return reached, "unverified", "contradicts the stored bracket with a valid certificate: please report it", None
    # The gap of a point within rounding of the optimum may come out negative, and counts as 0 then.
    gap = max(bracket, 0.0)
    reached = Fast(name, certificate.primal, lower, gap, answer.iterations, answer.seconds)
    reaches = met(gap, certificate.infeasibility)
    bound = "by its own dual point" if own >= reference.lower_bound else "by the stored bound"
    feasible = "feasible" if certificate.infeasibility == 0 else f"feasible to {certificate.infeasibility:.1g}"
    if gap > wanted.gap:
        missed = f"{feasible}, but {gap:.1e} (relative) above the optimum, wanted {wanted.gap:.0e}"
        told = filter(None, (in_words(certificate.primal, reference.value), hint(problem, point, reference)))
        return reached, "failed", f"{missed}: {'; '.join(told)}", reaches
    return reached, "verified", f"{feasible}, optimal to {gap:.1e} {bound}: meets {reaches or wanted.name}", reaches


def in_words(value: float, optimum: float) -> str:
    """The two objectives in as many digits as it takes to tell them apart, and how many times one is the other."""
    shown = next(
        (pair for pair in ((f"{value:.{d}g}", f"{optimum:.{d}g}") for d in range(4, 17)) if len({*pair}) > 1), ()
    )
    if not shown:
        return ""
    times = value / optimum if optimum > 0 else 0.0
    often = f": {times:.2g} times" if times >= 1.05 else ""
    return f"your objective is {shown[0]}, the optimum {shown[1]}{often}"


def _contradiction(
    answer: Answer, reference: Reference, certificate: Certificate, wanted: Profile, scale: float
) -> str:
    """What a solver claims against what is known; "" if nothing is wrong."""
    # A point that is feasible only to the tolerance may lie below the optimum by as much.
    slack = (HIGH.gap if certificate.infeasibility == 0 else wanted.gap) * scale
    if answer.primal < reference.lower_bound - slack:
        return (
            f"is too good to be true: claims the value {answer.primal:.9g}, "
            f"the optimum is at least {reference.lower_bound:.9g}"
        )
    if answer.lower_bound > reference.upper_bound + HIGH.gap * scale:
        return (
            f"is too good to be true: claims the lower bound {answer.lower_bound:.9g}, "
            f"the optimum is at most {reference.upper_bound:.9g}"
        )
    apart = min(abs(answer.primal - certificate.primal), abs(answer.primal - certificate.claimed))
    if math.isfinite(answer.primal) and apart > slack:
        return f"claims the value {answer.primal:.9g}, its point has {certificate.primal:.9g}"
    return ""


def _dual(problem: Problem, point: Point, answer: Answer, slack: float) -> tuple[float, str]:
    """The bound that the dual point gives, and what is wrong with it."""
    try:
        certificate = certify(problem, point, answer.dual_point)
    except ValueError as error:
        return -math.inf, f"returns a dual point that cannot be read: {error}"
    own = certificate.lower_bound
    if own == -math.inf:
        outside = [f"{key} by {value:.2g}" for key, value in certificate.dual_residuals.items() if value > 0]
        return own, f"returns a dual point that proves nothing: {', '.join(outside) or 'its value is not finite'}"
    if answer.lower_bound > own + slack:
        return own, f"claims the lower bound {answer.lower_bound:.9g}, its dual point proves only {own:.9g}"
    return own, ""
