"""Likelihood training of log-linear models: conditional random fields (papers 1 and 4)."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_4
from convexstruct.core.registry import Family, System, register
from convexstruct.families.log_linear import sharded as sharded  # registers how the problem is cut
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.families.log_linear.solvers.lbfgs import LBFGS
from convexstruct.tolerances import Profile

__all__ = ["FAMILY", "LBFGS", "ConditionalRandomField", "Penalty"]


def best(problem: ConditionalRandomField, wanted: Profile) -> tuple[Solver, str]:
    """Quasi-Newton methods."""
    return LBFGS(), "L-BFGS in a diagonal metric"


FAMILY = register(
    Family(
        __name__,
        title="Log-linear models by likelihood",
        problems=(ConditionalRandomField,),
        solvers=(LBFGS,),
        best=best,
        systems=(
            System(
                name="conditional random field",
                paper=PAPER_4,
                equations="(20.1)-(20.4), conditional",
                formulation=("likelihood",),
            ),
        ),
    )
)
