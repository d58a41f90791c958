"""How it is solved: one algorithm a file, and the one driver. `choose` picks the best solver known for a problem."""

from __future__ import annotations

from convexstruct.certificates import Problem
from convexstruct.features.covariance import CountCovariance
from convexstruct.problems import (
    BoxProjection,
    GaussianProcessSequences,
    GenerativeMargin,
    MarginalProjection,
    RegularizedRisk,
    StructuredSVM,
)
from convexstruct.solvers.block_ascent import BlockAscent
from convexstruct.solvers.block_frank_wolfe import BlockFrankWolfe
from convexstruct.solvers.bmrm import LsBMRM, QpBMRM
from convexstruct.solvers.breakpoint_search import BreakpointSearch
from convexstruct.solvers.bundle import ProximalBundle
from convexstruct.solvers.driver import Iterate, Solver, solve
from convexstruct.solvers.dual_coordinate_ascent import DualCoordinateAscent
from convexstruct.solvers.dual_coordinate_descent import DualCoordinateDescent
from convexstruct.solvers.entropic_proximal import EntropicProximal
from convexstruct.solvers.excessive_gap import ExcessiveGap
from convexstruct.solvers.exponentiated_gradient import ExponentiatedGradient
from convexstruct.solvers.function_space_lbfgs import FunctionSpaceLBFGS
from convexstruct.solvers.functional_gradient import FunctionalGradient
from convexstruct.solvers.marginal_ascent import MarginalAscent
from convexstruct.solvers.maximum_likelihood import MaximumLikelihood
from convexstruct.solvers.mira import Mira
from convexstruct.solvers.n_slack import NSlack
from convexstruct.solvers.one_slack import OneSlack
from convexstruct.solvers.pegasos import Pegasos1, PegasosN
from convexstruct.solvers.perceptron import Perceptron
from convexstruct.solvers.pragam import Pragam, PragamB
from convexstruct.solvers.proximal_rsd import ProximalRSD
from convexstruct.solvers.relaxed_margin import RelaxedMargin
from convexstruct.solvers.semismooth_newton import SemismoothNewton
from convexstruct.solvers.subgradient import Subgradient
from convexstruct.solvers.tempered_pools import TemperedPools
from convexstruct.solvers.working_sets import CoordinateWorkingSets, OnlineWorkingSets
from convexstruct.tolerances import Profile

__all__ = [
    "BlockAscent",
    "BlockFrankWolfe",
    "BreakpointSearch",
    "CoordinateWorkingSets",
    "DualCoordinateAscent",
    "DualCoordinateDescent",
    "EntropicProximal",
    "ExcessiveGap",
    "ExponentiatedGradient",
    "FunctionSpaceLBFGS",
    "FunctionalGradient",
    "Iterate",
    "LsBMRM",
    "MarginalAscent",
    "MaximumLikelihood",
    "Mira",
    "NSlack",
    "OneSlack",
    "OnlineWorkingSets",
    "Pegasos1",
    "PegasosN",
    "Perceptron",
    "Pragam",
    "PragamB",
    "ProximalBundle",
    "ProximalRSD",
    "QpBMRM",
    "RelaxedMargin",
    "SemismoothNewton",
    "Solver",
    "Subgradient",
    "TemperedPools",
    "choose",
    "solve",
]

#: Examples beyond which listing their labellings for a covariance costs more than a bundle's rounds.
MANY = 2000


def choose(problem: Problem, wanted: Profile) -> tuple[Solver, str]:
    """The best solver known for ``problem`` at this accuracy, and one phrase that says why.

    Raises
    ------
    ValueError
        If none is known for the problem's family.
    """
    if isinstance(problem, GenerativeMargin):
        kind = CountCovariance(problem.features).kind
        if kind == "recursion" or (kind == "listing" and problem.n_examples <= MANY):
            return EntropicProximal(), "exact covariance: Newton's metric finishes every stage"
        if kind == "listing":
            return ProximalBundle(), "many examples with few labellings each: one oracle call a round is cheapest"
        return EntropicProximal(newton=0), "no exact covariance: entropic stages in a diagonal metric"
    if isinstance(problem, StructuredSVM) and problem.oracle.relaxed:
        return RelaxedMargin(), "over the local polytope: weights and shares of the trees in one smooth problem"
    if isinstance(problem, StructuredSVM):
        return TemperedPools(), "smoothing to three digits, then exact pools of labellings"
    if isinstance(problem, GaussianProcessSequences):
        return FunctionSpaceLBFGS(), "one product with the Gram matrix an iteration, lines are free"
    if isinstance(problem, RegularizedRisk):
        return SemismoothNewton(), "Newton steps on the few examples near their kinks"
    if isinstance(problem, BoxProjection):
        return BreakpointSearch(), "exact, and linear in the number of entries"
    if isinstance(problem, MarginalProjection):
        return MarginalAscent(), "accelerated ascent of a smooth dual, by blocks that stay in cache"
    raise ValueError(f"no solver is known for the family {problem.family!r}; pass solver=")
