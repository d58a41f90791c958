"""Regularised risk minimisation with piecewise linear losses (paper 2)."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_2
from convexstruct.core.registry import Family, System, register
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.bmrm import LsBMRM, QpBMRM
from convexstruct.families.regularized_risk.solvers.pegasos import Pegasos1, PegasosN
from convexstruct.families.regularized_risk.solvers.pragam import Pragam, PragamB
from convexstruct.families.regularized_risk.solvers.projected_gradient import ProjectedGradient
from convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_point import SemismoothNewton
from convexstruct.tolerances import Profile

__all__ = [
    "FAMILY",
    "LsBMRM",
    "Pegasos1",
    "PegasosN",
    "Pragam",
    "PragamB",
    "ProjectedGradient",
    "QpBMRM",
    "RegularizedRisk",
    "SemismoothNewton",
]


def best(problem: RegularizedRisk, wanted: Profile) -> tuple[Solver, str]:
    """Semismooth Newton, whatever the loss."""
    if problem.filed is not None:
        return SemismoothNewton(), "tempering alone: no number an example is kept"
    return SemismoothNewton(), "Newton steps on the few examples near their kinks"


#: Every system of the family is stated in each of these.
FORMULATIONS = (
    "primal",
    "adjoint",
    "nesterov",
    "nesterov_adjoint",
    "svm",
    "svm_dual",
    "piecewise",
    "piecewise_adjoint",
    "bmrm",
    "bmrm_dual",
    "smoothed",
    "smoothed_dual",
)

FAMILY = register(
    Family(
        __name__,
        title="Regularised risk minimisation",
        problems=(RegularizedRisk,),
        solvers=(
            LsBMRM,
            Pegasos1,
            PegasosN,
            Pragam,
            PragamB,
            ProjectedGradient,
            QpBMRM,
            SemismoothNewton,
        ),
        best=best,
        systems=(
            System(
                name="support vector machine",
                paper=PAPER_2,
                equations="(1)-(26)",
                formulation=FORMULATIONS,
                experiments=("svm-solvers",),
                caution=(
                    "The penalty counts all weights alike, so that a column in other units is another problem: scale "
                    "columns that mean different things. The offset of the binary hinge has no penalty."
                ),
            ),
            System(
                name="regularized risk with piecewise linear losses",
                paper=PAPER_2,
                equations="(1)-(19)",
                formulation=FORMULATIONS,
                experiments=("hadamard",),
                caution=(
                    "BMRM needs 1 / (lam eps) rounds at worst, and the paper's Hadamard instance takes exactly these, "
                    "whoever programs it. The risk is a mean: lam is 1 / (C n) where C weighs a sum over n examples."
                ),
            ),
        ),
    )
)
