"""Unsupervised max-margin learning by semidefinite programming (paper 3)."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_3
from convexstruct.core.registry import Family, System, register
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.low_rank import LowRank
from convexstruct.families.unsupervised_margin.solvers.reduced_admm import ReducedADMM
from convexstruct.tolerances import Profile

__all__ = ["FAMILY", "LowRank", "ReducedADMM", "UnsupervisedMargin"]

#: Number of rows from which `LowRank` is chosen; of 50 to 60 rows neither solver is faster on the whole.
MANY_ROWS = 50


def best(problem: UnsupervisedMargin, wanted: Profile) -> tuple[Solver, str]:
    """Low-rank factors finished by ADMM from `MANY_ROWS` rows on; ADMM alone below, where its eigendecompositions are
    cheap."""
    if problem.n_rows < MANY_ROWS:
        return ReducedADMM(), "splitting into cones, rows and triples, with Anderson acceleration"
    return LowRank(), "low-rank factors with an augmented Lagrangian, finished by ADMM"


FAMILY = register(
    Family(
        __name__,
        title="Unsupervised max-margin Markov networks by semidefinite programming",
        problems=(UnsupervisedMargin,),
        solvers=(LowRank, ReducedADMM),
        best=best,
        systems=(
            System(
                name="unsupervised max-margin Markov network",
                paper=PAPER_3,
                equations="Theorem 1, (9)-(12)",
                formulation=("reduced", "full", "delta_cuts"),
                experiments=("table1", "table2", "table3", "proposition2", "collapse-sdp"),
            ),
            System(
                name="unsupervised multiclass support vector machine",
                paper=PAPER_3,
                equations="section 2.2",
                formulation=("multiclass",),
            ),
        ),
    )
)
