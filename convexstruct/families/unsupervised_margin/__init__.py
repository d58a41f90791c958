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
            ),
            System(
                name="labelling of least margin loss",
                paper=PAPER_3,
                equations="section 5, ACDHMM: relabel and retrain; Proposition 2, corrected",
                formulation=("labelled",),
                experiments=("table2", "table3", "proposition2"),
                problems=(MarginLabelling,),
            ),
            System(
                name="unsupervised multiclass support vector machine",
                paper=PAPER_3,
                equations="section 2.2",
                formulation=("multiclass",),
                problems=(UnsupervisedMargin,),
            ),
            System(
                name="unsupervised two-class support vector machine",
                paper=PAPER_3,
                equations="(3); section 5, Proposition 1: the alternation over M and lambda",
                formulation=("two_class", "two_class_dual", "keep_or_flip"),
                problems=(PermutationInvariantMargin,),
            ),
        ),
    )
)
