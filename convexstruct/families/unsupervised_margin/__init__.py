"""Unsupervised max-margin learning by semidefinite programming (paper 3)."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_3
from convexstruct.core.registry import Family, System, register
from convexstruct.families.unsupervised_margin.labelling import MarginLabelling
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.alternating import Alternation
from convexstruct.families.unsupervised_margin.solvers.free_entries import count_entries
from convexstruct.families.unsupervised_margin.solvers.interior_point import InteriorPoint
from convexstruct.families.unsupervised_margin.solvers.low_rank import LowRank
from convexstruct.families.unsupervised_margin.solvers.reduced_admm import ReducedADMM
from convexstruct.families.unsupervised_margin.solvers.relabelling import Relabelling
from convexstruct.tolerances import MID, Profile

__all__ = [
    "FAMILY",
    "Alternation",
    "InteriorPoint",
    "LowRank",
    "MarginLabelling",
    "PermutationInvariantMargin",
    "Relabelling",
    "UnsupervisedMargin",
]

#: Free entries of M and N up to which `InteriorPoint` is chosen, whose steps cost their cube: about those of 30 rows in
#: chains, from where on first-order methods are as fast; and for gaps below `MID`, where an optimum that is not unique
#: may cost those several times as much, those of 42 rows.
FEW_ENTRIES, FEW_ENTRIES_ACCURATE = 850, 1500


def best(
    problem: MarginLabelling | PermutationInvariantMargin | UnsupervisedMargin, wanted: Profile
) -> tuple[Solver, str]:
    """The interior point method for few free entries and for (3); low-rank factors finished by ADMM beyond. For
    labellings there is one solver."""
    if isinstance(problem, MarginLabelling):
        return Relabelling(), "relabel and retrain, guarded: a stationary point"
    if isinstance(problem, PermutationInvariantMargin):
        return InteriorPoint(), "an interior point method on the dual of the two-class SDP"
    if count_entries(problem) <= (FEW_ENTRIES if wanted.gap >= MID.gap else FEW_ENTRIES_ACCURATE):
        return InteriorPoint(), "an interior point method, for few rows"
    return LowRank(), "low-rank factors with an augmented Lagrangian, finished by ADMM"


FAMILY = register(
    Family(
        __name__,
        title="Unsupervised max-margin Markov networks by semidefinite programming",
        problems=(MarginLabelling, PermutationInvariantMargin, UnsupervisedMargin),
        solvers=(Alternation, InteriorPoint, LowRank, ReducedADMM, Relabelling),
        best=best,
        systems=(
            System(
                name="unsupervised max-margin Markov network",
                paper=PAPER_3,
                equations="Theorem 1, (9)-(12)",
                formulation=("reduced", "full", "delta_cuts"),
                experiments=("table1", "table2", "collapse-sdp"),
                problems=(UnsupervisedMargin,),
                caution=(
                    "It collapses: nothing in the relaxation changes when labels are renamed, so that the multipliers "
                    "are uniform and its value is often far below that of every labelling. Labels have to be read off "
                    "M by another step. M has an entry for each pair of rows, N for each pair of neighbours."
                ),
            ),
            System(
                name="labelling of least margin loss",
                paper=PAPER_3,
                equations="section 5, ACDHMM: relabel and retrain; Proposition 2, corrected",
                formulation=("labelled",),
                experiments=("table2", "table3", "proposition2"),
                problems=(MarginLabelling,),
                caution=(
                    "Both halves rest along a path on which the loss falls, so that it ends at no local minimum: "
                    "STATIONARY. Without the balance (9) one label for all rows is often the best."
                ),
            ),
            System(
                name="unsupervised multiclass support vector machine",
                paper=PAPER_3,
                equations="section 2.2",
                formulation=("multiclass",),
                problems=(UnsupervisedMargin,),
                caution=(
                    "It collapses as the network does: with two labels the two-class problem is tighter. Balance is "
                    "what keeps one label from taking all rows."
                ),
            ),
            System(
                name="unsupervised two-class support vector machine",
                paper=PAPER_3,
                equations="(3); section 5, Proposition 1: the alternation over M and lambda",
                formulation=("two_class", "two_class_dual", "keep_or_flip"),
                problems=(PermutationInvariantMargin,),
                caution=(
                    "M has an entry for each pair of points, and each step factors matrices of that size: hundreds of "
                    "points, not thousands. M need not have rank 1, and labels are read off it by another step."
                ),
            ),
        ),
    )
)
