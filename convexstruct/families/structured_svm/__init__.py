"""Structural SVMs and max-margin Markov networks (papers 1, 3 and 4)."""

from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.block_frank_wolfe import BlockFrankWolfe
from convexstruct.families.structured_svm.solvers.dual_coordinate_ascent import DualCoordinateAscent
from convexstruct.families.structured_svm.solvers.excessive_gap import ExcessiveGap
from convexstruct.families.structured_svm.solvers.exponentiated_gradient import ExponentiatedGradient
from convexstruct.families.structured_svm.solvers.mira import Mira
from convexstruct.families.structured_svm.solvers.n_slack import NSlack
from convexstruct.families.structured_svm.solvers.one_slack import OneSlack
from convexstruct.families.structured_svm.solvers.perceptron import Perceptron
from convexstruct.families.structured_svm.solvers.relaxed_margin import RelaxedMargin
from convexstruct.families.structured_svm.solvers.subgradient import Subgradient
from convexstruct.families.structured_svm.solvers.tempered_pools import TemperedPools

__all__ = [
    "BlockFrankWolfe",
    "DualCoordinateAscent",
    "ExcessiveGap",
    "ExponentiatedGradient",
    "Mira",
    "NSlack",
    "OneSlack",
    "Perceptron",
    "RelaxedMargin",
    "StructuredSVM",
    "Subgradient",
    "TemperedPools",
]
