"""How it is solved: one algorithm a file, and the one driver. `choose` picks the best solver known for a problem."""

from __future__ import annotations

from convexstruct.core.certificates import Problem
from convexstruct.core.driver import Iterate, Solver, solve
from convexstruct.families.gaussian_process import FunctionalGradient, FunctionSpaceLBFGS, GaussianProcessSequences
from convexstruct.families.generative_margin import (
    CoordinateWorkingSets,
    EntropicProximal,
    GenerativeMargin,
    MaximumLikelihood,
    OnlineWorkingSets,
    ProximalBundle,
    ProximalRSD,
)
from convexstruct.families.generative_margin.covariance import CountCovariance
from convexstruct.families.projection import (
    BlockAscent,
    BoxProjection,
    BreakpointSearch,
    MarginalAscent,
    MarginalProjection,
)
from convexstruct.families.regularized_risk import (
    DualCoordinateDescent,
    LsBMRM,
    Pegasos1,
    PegasosN,
    Pragam,
    PragamB,
    QpBMRM,
    RegularizedRisk,
    SemismoothNewton,
)
from convexstruct.families.structured_svm import (
    BlockFrankWolfe,
    DualCoordinateAscent,
    ExcessiveGap,
    ExponentiatedGradient,
    Mira,
    NSlack,
    OneSlack,
    Perceptron,
    RelaxedMargin,
    StructuredSVM,
    Subgradient,
    TemperedPools,
)
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
