"""Discriminative training of generative models in CVXPY: the builders of its formulations."""

from convexstruct.models.generative_margin.compact import compact_dual
from convexstruct.models.generative_margin.cuts import ConstraintGeneration, n_slack, one_slack
from convexstruct.models.generative_margin.enumerated import MarginRows, dual, dual_beta, entropy_dual, primal
from convexstruct.models.generative_margin.proximal_point import proximal, proximal_dual

__all__ = [
    "ConstraintGeneration",
    "MarginRows",
    "compact_dual",
    "dual",
    "dual_beta",
    "entropy_dual",
    "n_slack",
    "one_slack",
    "primal",
    "proximal",
    "proximal_dual",
]
