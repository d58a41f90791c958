"""Gaussian process sequence labelling in CVXPY: the builders of its formulations."""

from convexstruct.models.gaussian_process.compact import compact_dual, compact_primal
from convexstruct.models.gaussian_process.enumerated import dual, primal

__all__ = ["compact_dual", "compact_primal", "dual", "primal"]
