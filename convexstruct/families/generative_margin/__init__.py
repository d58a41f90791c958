"""Discriminative training of generative models: hidden Markov models and Bayesian networks (paper 0)."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_0
from convexstruct.core.registry import Family, System, register
from convexstruct.families.generative_margin.in_files import FiledCounts
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.cutting_planes import CuttingPlanes, suits
from convexstruct.families.generative_margin.solvers.entropic_proximal import EntropicProximal
from convexstruct.families.generative_margin.solvers.maximum_likelihood import MaximumLikelihood
from convexstruct.families.generative_margin.solvers.proximal_rsd import ProximalRSD
from convexstruct.families.generative_margin.solvers.working_sets import CoordinateWorkingSets, OnlineWorkingSets
from convexstruct.families.generative_margin.structure import learned_network, network_score
from convexstruct.tolerances import Profile

__all__ = [
    "FAMILY",
    "CoordinateWorkingSets",
    "CuttingPlanes",
    "EntropicProximal",
    "GenerativeMargin",
    "MaximumLikelihood",
    "OnlineWorkingSets",
    "ProximalRSD",
    "learned_network",
    "network_score",
]


#: Cutting planes are the default where a unit of loss of an example costs more nats than this, divided by the number of
#: parameters: about where both engines take as long to HIGH, on rings and noise of 10 to 300 examples and 18 to 390
#: parameters. That is eta 67 at 45 parameters, 9 at 330.
DEAR = 3000.0


def best(problem: GenerativeMargin, wanted: Profile) -> tuple[Solver, str]:
    """The default solver and the reason for it."""
    if problem.rescaled:
        return CuttingPlanes(), "decodes once for each loss; sums over labellings would take a pass for each"
    if isinstance(problem.features, FiledCounts):
        return EntropicProximal(), "sums over all labellings, of the size of theta; metrics of a sample"
    price = problem.eta * float(problem.examples.weights.mean())
    if price * problem.dimension > DEAR and suits(problem):
        return CuttingPlanes(), "slacks are dear, where few labellings bind and smoothing takes ever more steps"
    return EntropicProximal(), "sums over all labellings; cutting planes take over where it gains too little"


#: Every system of the family is stated in each of these.
FORMULATIONS = (
    "primal",
    "n_slack",
    "one_slack",
    "dual_beta",
    "dual",
    "entropy_dual",
    "proximal",
    "proximal_dual",
    "compact_dual",
)

#: Those that take general objectives.
GENERAL = ("primal", "n_slack", "entropy_dual", "compact_dual")

FAMILY = register(
    Family(
        __name__,
        title="Discriminative training of generative models",
        problems=(GenerativeMargin,),
        solvers=(
            CoordinateWorkingSets,
            CuttingPlanes,
            EntropicProximal,
            MaximumLikelihood,
            OnlineWorkingSets,
            ProximalRSD,
        ),
        best=best,
        systems=(
            System(
                name="discriminative training of a hidden Markov model",
                paper=PAPER_0,
                equations="(2)-(26)",
                formulation=FORMULATIONS,
                experiments=("tracking", "protein-hmm", "online-variant"),
                caution=(
                    "The tables sum to at most 1, not to 1: mass that is missing is read as the probability of "
                    "something unknown. eta decides between two models: near 0 the tables are the prior c, and where "
                    "slacks are dear few labellings bind and the entropic method takes ever more steps."
                ),
            ),
            System(
                name="discriminative training of a Bayesian network",
                paper=PAPER_0,
                equations="(2)-(26)",
                formulation=FORMULATIONS,
                experiments=("connect4",),
                caution=(
                    "The graph is taken as given, and a wrong one is trained to its optimum without a word. Sums over "
                    "the hidden variables need a junction tree, and one that is too wide is refused."
                ),
            ),
            System(
                name="discriminative training with general objectives",
                paper=PAPER_0,
                equations="(28)-(30)",
                formulation=GENERAL,
                experiments=("general-objectives",),
                solvers=("CuttingPlanes", "EntropicProximal", "MaximumLikelihood"),
                caution=(
                    "Not all that the paper writes in (28)-(30) is convex: its divergence is so only where theta >= "
                    "ln q - 2. A cap on the slacks may be one that no parameters keep, which ends with a proof and no "
                    "model."
                ),
            ),
            System(
                name="discriminative training with slacks rescaled by the loss",
                paper=PAPER_0,
                equations="(28)-(29)",
                formulation=FORMULATIONS,
                experiments=("general-objectives",),
                solvers=(
                    "CoordinateWorkingSets",
                    "CuttingPlanes",
                    "MaximumLikelihood",
                    "OnlineWorkingSets",
                    "ProximalRSD",
                ),
                caution=(
                    "Every wrong labelling is asked for a margin of one nat, and what it costs multiplies the "
                    "violation. Decoding takes a pass for each value of the loss, so that a loss of many distinct "
                    "values is slow."
                ),
            ),
        ),
    )
)
