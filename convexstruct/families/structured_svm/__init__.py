"""Structural SVMs and max-margin Markov networks (papers 1, 3 and 4)."""

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_1, PAPER_3, PAPER_4
from convexstruct.core.registry import Family, System, register
from convexstruct.families.structured_svm.latent import LatentSVM
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.block_frank_wolfe import BlockFrankWolfe
from convexstruct.families.structured_svm.solvers.column_generation.column_generation import ColumnGeneration, by_blocks
from convexstruct.families.structured_svm.solvers.concave_convex import ConcaveConvex
from convexstruct.families.structured_svm.solvers.dual_coordinate_ascent import DualCoordinateAscent
from convexstruct.families.structured_svm.solvers.excessive_gap import ExcessiveGap
from convexstruct.families.structured_svm.solvers.exponentiated_gradient import ExponentiatedGradient
from convexstruct.families.structured_svm.solvers.larank import LaRank
from convexstruct.families.structured_svm.solvers.mira import Mira
from convexstruct.families.structured_svm.solvers.n_slack import NSlack
from convexstruct.families.structured_svm.solvers.one_slack import OneSlack
from convexstruct.families.structured_svm.solvers.perceptron import Perceptron
from convexstruct.families.structured_svm.solvers.relaxed_margin import RelaxedMargin
from convexstruct.families.structured_svm.solvers.subgradient import Subgradient
from convexstruct.features.graphs.filed import FiledFeatures
from convexstruct.tolerances import Profile

__all__ = [
    "FAMILY",
    "BlockFrankWolfe",
    "ColumnGeneration",
    "ConcaveConvex",
    "DualCoordinateAscent",
    "ExcessiveGap",
    "ExponentiatedGradient",
    "LaRank",
    "LatentSVM",
    "Mira",
    "NSlack",
    "OneSlack",
    "OracleSVM",
    "Perceptron",
    "RelaxedMargin",
    "StructuredSVM",
    "Subgradient",
]


SOLVERS = (
    BlockFrankWolfe,
    ConcaveConvex,
    DualCoordinateAscent,
    ExcessiveGap,
    ExponentiatedGradient,
    LaRank,
    Mira,
    NSlack,
    OneSlack,
    Perceptron,
    RelaxedMargin,
    Subgradient,
    ColumnGeneration,
)
#: The solvers of problems with known labels and exact inference, by name.
EXACT = tuple(solver.__name__ for solver in SOLVERS if solver not in (ConcaveConvex, RelaxedMargin))


def best(problem: StructuredSVM | OracleSVM | LatentSVM, wanted: Profile) -> tuple[Solver, str]:
    """The default solver and the reason for it: `RelaxedMargin` over the local polytope, `ConcaveConvex` for labels
    that are not all known, else `ColumnGeneration`."""
    if isinstance(problem, LatentSVM):
        return ConcaveConvex(), "complete the labels and retrain: a stationary point"
    if isinstance(problem, OracleSVM):
        return ColumnGeneration(), "exact pools of the labellings that the oracle finds"
    if problem.oracle.relaxed:
        return RelaxedMargin(), "over the local polytope: weights and shares of the trees in one smooth problem"
    if isinstance(problem.features, FiledFeatures):
        return ColumnGeneration(), "tempering alone: the examples lie in files"
    if by_blocks(problem):
        return ColumnGeneration(), "pools of labellings, an example at a time"
    return ColumnGeneration(), "pools of labellings, and a restricted master"


FAMILY = register(
    Family(
        __name__,
        title="Structural SVMs and max-margin Markov networks",
        problems=(StructuredSVM, OracleSVM, LatentSVM),
        solvers=SOLVERS,
        best=best,
        systems=(
            System(
                name="structural support vector machine",
                paper=PAPER_1,
                equations="(P), (D), cutting planes, online training",
                formulation=("n_slack", "dual_alpha", "dual_kernel", "n_slack_cuts", "one_slack_cuts"),
                experiments=("surrogates", "cutting-planes", "online-learners"),
                solvers=EXACT,
                caution=(
                    "Under margin scaling a labelling has to lose by as much as it is wrong, so that long examples "
                    "and hopeless labellings may claim the weights; slack scaling asks for a margin of 1, and is "
                    "slower to search. The papers have three units: C / N, 1 / (lam N), 1 / beta."
                ),
            ),
            System(
                name="max-margin Markov network",
                paper=PAPER_3,
                equations="(5), (8)",
                formulation=("marginals", "matrix_form", "local_relaxation"),
                experiments=("ocr",),
                problems=(StructuredSVM,),
                caution=(
                    "On cycles the local relaxation counts labellings that do not exist: its optimum lies above that "
                    "of the exact network. So does (5) as printed, even on a chain: it lacks (5.3)."
                ),
            ),
            System(
                name="hidden Markov support vector machine",
                paper=PAPER_4,
                equations="Simple-Max-Margin, Slack variables",
                formulation=("hm_svm", "hard_margin", "hard_margin_cuts"),
                solvers=EXACT,
                caution=(
                    "With hard margins one contradiction in the data leaves no weights at all. The slack variables "
                    "that repair this bring back a C to choose."
                ),
            ),
            System(
                name="associative Markov network",
                paper="Taskar, Chatalbashev, Koller: Learning associative Markov networks; named in paper 4",
                equations="(4)-(6)",
                formulation=("associative",),
                solvers=EXACT,
                caution=(
                    "It can only learn that neighbours agree: where they differ more often than not the edges end at "
                    "0. With more than two labels a minimum cut is not exact."
                ),
            ),
            System(
                name="structural SVM with any oracle",
                paper="Tsochantaridis, Joachims, Hofmann, Altun: Large margin methods; the slides of paper 1",
                equations="(P), margin scaling",
                formulation=("some_labellings",),
                problems=(OracleSVM,),
                caution=(
                    "The upper bound rests on your word: an oracle that is declared exact and is not is found out "
                    "only when a better labelling has been seen. Without that word there is no upper bound, and the "
                    "status never is OPTIMAL."
                ),
            ),
            System(
                name="latent structural support vector machine",
                paper="Yu, Joachims: Learning structural SVMs with latent variables; of the slides of paper 1",
                equations="the concave-convex procedure",
                formulation=("completed",),
                problems=(LatentSVM,),
                caution=(
                    "Each step retrains on completed labels, so that the first completion decides where it ends: "
                    "STATIONARY. The lower bound knows only the examples whose labels are all known, and is 0 where "
                    "there is none."
                ),
            ),
        ),
    )
)
