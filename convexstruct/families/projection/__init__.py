"""Projections onto boxes cut by one equality and onto local marginal polytopes (paper 2, appendices B and E.3)."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_2
from convexstruct.core.registry import Family, System, register
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.solvers.block_ascent import BlockAscent
from convexstruct.families.projection.solvers.breakpoint_search import BreakpointSearch
from convexstruct.families.projection.solvers.marginal_ascent import MarginalAscent
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.tolerances import Profile

__all__ = ["FAMILY", "BlockAscent", "BoxProjection", "BreakpointSearch", "MarginalAscent", "MarginalProjection"]


def best(problem: BoxProjection | MarginalProjection, wanted: Profile) -> tuple[Solver, str]:
    """An exact search for boxes, accelerated dual ascent for marginals."""
    if isinstance(problem, BoxProjection):
        return BreakpointSearch(), "exact, and linear in the number of entries"
    return MarginalAscent(), "accelerated ascent of a smooth dual, by blocks that stay in cache"


FAMILY = register(
    Family(
        __name__,
        title="Projections onto boxes and local marginal polytopes",
        problems=(
            BoxProjection,
            MarginalProjection,
        ),
        solvers=(
            BlockAscent,
            BreakpointSearch,
            MarginalAscent,
        ),
        best=best,
        systems=(
            System(
                name="projection onto a box cut by one equality",
                paper=PAPER_2,
                equations="appendix B, (27)-(30)",
                formulation=("box", "box_dual"),
                experiments=("projection",),
                problems=(BoxProjection,),
                caution=(
                    "Where the coefficients s differ by many magnitudes, the equality holds to the rounding of its "
                    "largest terms alone; the certificate allows for what moving a the rest of the way would cost."
                ),
            ),
            System(
                name="projection onto the local marginal polytope",
                paper=PAPER_2,
                equations="appendix E.3, (33)-(38)",
                formulation=("tables", "tables_dual", "labellings"),
                problems=(MarginalProjection,),
                caution=(
                    "On a graph with cycles the local polytope is larger than that of marginals: the projection may "
                    "belong to no distribution."
                ),
            ),
        ),
    )
)
