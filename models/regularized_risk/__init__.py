"""Regularised risk minimisation in CVXPY: the builders of its formulations."""

from convexstruct.models.regularized_risk.planes import bmrm, bmrm_dual, piecewise, piecewise_adjoint
from convexstruct.models.regularized_risk.risk import adjoint, nesterov, nesterov_adjoint, primal
from convexstruct.models.regularized_risk.smoothing import smoothed, smoothed_dual
from convexstruct.models.regularized_risk.support_vectors import svm, svm_dual

__all__ = [
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
