"""Energy networks (paper 1, SPEN): those of the slides, and the convex ones, which have a certificate."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_1
from convexstruct.core.registry import Family, System, register
from convexstruct.families.energy_network.inference import EnergyInference
from convexstruct.families.energy_network.problem import ConvexEnergyNetwork
from convexstruct.families.energy_network.solvers.dual_lbfgsb import DualLBFGSB
from convexstruct.families.energy_network.solvers.projected_newton import ProjectedNewton
from convexstruct.families.energy_network.solvers.unrolled_lbfgs import UnrolledLBFGS
from convexstruct.families.energy_network.unrolled import UnrolledEnergyNetwork
from convexstruct.tolerances import Profile

__all__ = [
    "FAMILY",
    "ConvexEnergyNetwork",
    "DualLBFGSB",
    "EnergyInference",
    "ProjectedNewton",
    "UnrolledEnergyNetwork",
    "UnrolledLBFGS",
]


def best(problem: ConvexEnergyNetwork | EnergyInference | UnrolledEnergyNetwork, wanted: Profile) -> tuple[Solver, str]:
    """The one solver of each kind of problem."""
    if isinstance(problem, EnergyInference):
        return ProjectedNewton(), "Newton steps on the labels that are free, all examples at once"
    if isinstance(problem, UnrolledEnergyNetwork):
        return UnrolledLBFGS(), "L-BFGS with gradients through all steps: a stationary point"
    return DualLBFGSB(), "L-BFGS-B on one y an example, in the cube, then an interior point method"


FAMILY = register(
    Family(
        __name__,
        title="Energy networks",
        problems=(ConvexEnergyNetwork, EnergyInference, UnrolledEnergyNetwork),
        solvers=(DualLBFGSB, ProjectedNewton, UnrolledLBFGS),
        best=best,
        systems=(
            System(
                name="convex energy network",
                paper=PAPER_1,
                equations="training SPENs, where E is convex in y: ours",
                formulation=("primal", "dual"),
                experiments=("scene-spen",),
                problems=(ConvexEnergyNetwork,),
                caution=(
                    "Inside the cube a y is an answer too: labels that pull against each other are predicted as "
                    "fractions, which rounding decides. Training looks at the maximum over the cube, not at the "
                    "slides' loss at the prediction, so that its optimum is another point."
                ),
            ),
            System(
                name="inference in a convex energy network",
                paper=PAPER_1,
                equations="the prediction of SPENs, at its limit",
                formulation=("least_energy",),
                problems=(EnergyInference,),
                caution=(
                    "The least energy may lie inside the cube. A y of 0.5 is then the minimiser, and no probability."
                ),
            ),
            System(
                name="structured prediction energy network",
                paper=PAPER_1,
                equations="SPEN: prediction, training objective, backpropagation, finite differences",
                formulation=("local_energy",),
                experiments=("scene-spen",),
                problems=(UnrolledEnergyNetwork,),
                caution=(
                    "Back-propagation through the steps is descent on a function that is not convex: another start, "
                    "step or number of steps ends elsewhere. The status is STATIONARY, and no lower bound but the "
                    "trivial one is known."
                ),
            ),
        ),
    )
)
