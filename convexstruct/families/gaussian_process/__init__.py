"""Gaussian process sequence labelling, the kernel CRF (paper 2, E.2)."""

from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space_lbfgs import FunctionSpaceLBFGS
from convexstruct.families.gaussian_process.solvers.functional_gradient import FunctionalGradient

__all__ = ["FunctionSpaceLBFGS", "FunctionalGradient", "GaussianProcessSequences"]
