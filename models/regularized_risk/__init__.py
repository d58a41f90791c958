"""Regularised risk minimisation in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.formulation import Entry
from convexstruct.models.regularized_risk import planes, risk, smoothing, support_vectors
from convexstruct.models.regularized_risk.planes import (
    AllPlanes,
    bmrm,
    bmrm_dual,
    combinations,
    mixture,
    piecewise,
    piecewise_adjoint,
    subproblem,
)
from convexstruct.models.regularized_risk.risk import (
    Parts,
    adjoint,
    at_lam,
    entry,
    lam_parameter,
    nesterov,
    nesterov_adjoint,
    point_of,
    primal,
)
from convexstruct.models.regularized_risk.smoothing import SmoothedProblem, smoothed, smoothed_dual
from convexstruct.models.regularized_risk.support_vectors import Cost, Rescaled, svm, svm_dual

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *risk.ENTRIES,
    *support_vectors.ENTRIES,
    *planes.ENTRIES,
    *smoothing.ENTRIES,
)

__all__ = [
    "ENTRIES",
    "AllPlanes",
    "Cost",
    "Parts",
    "Rescaled",
    "SmoothedProblem",
    "adjoint",
    "at_lam",
    "bmrm",
    "bmrm_dual",
    "combinations",
    "entry",
    "lam_parameter",
    "mixture",
    "nesterov",
    "nesterov_adjoint",
    "piecewise",
    "piecewise_adjoint",
    "point_of",
    "primal",
    "smoothed",
    "smoothed_dual",
    "subproblem",
    "svm",
    "svm_dual",
]
