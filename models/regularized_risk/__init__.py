"""Regularised risk minimisation in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.formulation import Entry
from convexstruct.models.regularized_risk import planes, risk, smoothing, support_vectors
from convexstruct.models.regularized_risk.planes import bmrm, bmrm_dual, piecewise, piecewise_adjoint
from convexstruct.models.regularized_risk.risk import adjoint, nesterov, nesterov_adjoint, primal
from convexstruct.models.regularized_risk.smoothing import smoothed, smoothed_dual
from convexstruct.models.regularized_risk.support_vectors import svm, svm_dual

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *risk.ENTRIES,
    *support_vectors.ENTRIES,
    *planes.ENTRIES,
    *smoothing.ENTRIES,
)

__all__ = [
    "ENTRIES",
    "adjoint",
    "bmrm",
    "bmrm_dual",
    "nesterov",
    "nesterov_adjoint",
    "piecewise",
    "piecewise_adjoint",
    "primal",
    "smoothed",
    "smoothed_dual",
    "svm",
    "svm_dual",
]
