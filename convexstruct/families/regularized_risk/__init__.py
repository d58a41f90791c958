"""Regularised risk minimisation with piecewise linear losses (paper 2)."""

from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.bmrm import LsBMRM, QpBMRM
from convexstruct.families.regularized_risk.solvers.dual_coordinate_descent import DualCoordinateDescent
from convexstruct.families.regularized_risk.solvers.pegasos import Pegasos1, PegasosN
from convexstruct.families.regularized_risk.solvers.pragam import Pragam, PragamB
from convexstruct.families.regularized_risk.solvers.semismooth_newton import SemismoothNewton

__all__ = [
    "DualCoordinateDescent",
    "LsBMRM",
    "Pegasos1",
    "PegasosN",
    "Pragam",
    "PragamB",
    "QpBMRM",
    "RegularizedRisk",
    "SemismoothNewton",
]
