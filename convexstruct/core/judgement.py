"""The status of a run that ended by itself, as its certificate has it: `judged`; and what it leaves: `remaining`."""

from __future__ import annotations

import math
from collections.abc import Callable

from convexstruct.arrays import Point
from convexstruct.core.certificates import Certificate, Problem, certify
from convexstruct.core.solution import Status
from convexstruct.tolerances import Profile, upside_down


def judged(
    problem: Problem,
    point: Point,
    dual_point: Point | None,
    certificate: Certificate,
    wanted: Profile,
    claimed: tuple[float, float] | None,
    last: Point | Callable[[], Point] | None = None,
) -> tuple[Status, str]:
    """The status of a run that ended by itself, from its certificate, and a message with the reason.

    claimed : the solver's own (lower bound, primal), if their gap was within the tolerance. last : the dual point of
    the last iterate, whose rounding is examined too: ``dual_point`` may be that of the start, whose bound is poor but
    has almost no rounding.
    """
    if wanted.met_by(certificate.gap, certificate.infeasibility):
        return Status.OPTIMAL, ""
    if certificate.infeasibility > wanted.feasibility:
        worst = max(certificate.residuals, key=lambda name: certificate.residuals[name])
        far = certificate.residuals[worst]
        return Status.INACCURATE, f"the point is infeasible: {worst} by {far:.2g}, allowed {wanted.feasibility:.0e}"
    if certificate.beyond:
        return Status.STALLED, ""
    if upside_down(certificate.gap):
        found = f"lower bound {certificate.lower_bound:.10g} above the primal value {certificate.primal:.10g}"
        return Status.INACCURATE, f"the certificate is upside down, so it proves nothing: {found}"
    said, explain = _lost(certificate, wanted), getattr(problem, "rounding_reason", None)
    if not said and claimed is None and last is not None and explain is not None:
        said = _lost(certify(problem, point, last() if callable(last) else last, wanted.floor), wanted)
    status = Status.ROUNDING
    if not said:
        if claimed is None:
            return Status.STALLED, ""
        status, said = Status.INACCURATE, f"claimed {claimed[0]:.10g} <= optimum <= {claimed[1]:.10g}"
    reason = "" if explain is None else explain(point, dual_point)
    return status, f"{said}; {reason}" if reason else said


def remaining(certificate: Certificate, wanted: Profile) -> str:
    """One sentence on how far the certificate is from the accuracy wanted."""
    if not math.isfinite(certificate.primal):
        return "no finite upper bound is known"
    if not math.isfinite(certificate.lower_bound):
        return "no lower bound is known"
    return f"the relative gap is {certificate.gap:.1e}, the gap wanted is {wanted.gap:.0e}"


def _lost(certificate: Certificate, wanted: Profile) -> str:
    """A message if the rounding of the bounds exceeds the gap wanted, the upper bound is infinite for its rounding
    alone, or the sums of the lower bound overflow; else ""."""
    if math.isinf(certificate.primal_allowance) and math.isfinite(certificate.claimed):
        return "rounding may change the upper bound by any amount"
    if certificate.rounding > wanted.gap:
        return f"rounding may amount to {certificate.rounding:.1e} (relative), the gap wanted is {wanted.gap:.0e}"
    off = certificate.dual_residuals.values()
    if off and math.isfinite(max(off)) and certificate.lower_bound == -math.inf:
        return "the sums of the lower bound overflow"
    return ""
