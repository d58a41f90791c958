"""Gaussian process sequence labelling, the kernel CRF (paper 2, E.2)."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_2
from convexstruct.core.registry import Family, System, register
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space_lbfgs import FunctionSpaceLBFGS
from convexstruct.tolerances import Profile

__all__ = ["FAMILY", "FunctionSpaceLBFGS", "GaussianProcessSequences"]


def best(problem: GaussianProcessSequences, wanted: Profile) -> tuple[Solver, str]:
    """L-BFGS in the geometry of the kernel."""
    return FunctionSpaceLBFGS(), "one product with the Gram matrix an iteration, lines are free"


FAMILY = register(
    Family(
        __name__,
        title="Gaussian process sequence labelling",
        problems=(GaussianProcessSequences,),
        solvers=(FunctionSpaceLBFGS,),
        best=best,
        systems=(
            System(
                name="Gaussian process sequence labelling",
                paper=PAPER_2,
                equations="(32)",
                formulation=("primal", "dual", "compact_primal", "compact_dual"),
                experiments=("gp-sequence",),
                caution=(
                    "The Gram matrix has a row and a column for every distinct input, which is what limits the size. "
                    "It has to be positive semidefinite: a kernel that is not, or its rounding, makes (32) unbounded "
                    "below."
                ),
            ),
        ),
    )
)
