"""Likelihood training of log-linear models: Markov and conditional random fields (papers 1 and 4)."""

from typing import Any

import numpy as np

from convexstruct.core.iterate import Solver
from convexstruct.core.papers import PAPER_4
from convexstruct.core.registry import Family, System, register
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.hidden_markov import HiddenMarkov
from convexstruct.families.log_linear.importance import importance_log_partition
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import NO_PENALTY, Penalty
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.families.log_linear.restricted_boltzmann import BoltzmannTraining, RestrictedBoltzmann
from convexstruct.families.log_linear.solvers.baum_welch import BaumWelch
from convexstruct.families.log_linear.solvers.contrastive_divergence import ContrastiveDivergence
from convexstruct.families.log_linear.solvers.double_loop import DoubleLoop
from convexstruct.families.log_linear.solvers.importance_sampling import ImportanceSampling
from convexstruct.families.log_linear.solvers.lbfgs import LBFGS, coherent
from convexstruct.families.log_linear.solvers.pseudo_moments import PseudoMoments, in_closed_form
from convexstruct.features.graphs.feature_sizes import EVEN_RATIO, even
from convexstruct.tolerances import Profile

__all__ = [
    "FAMILY",
    "LBFGS",
    "ApproximateField",
    "BaumWelch",
    "BoltzmannTraining",
    "ConditionalRandomField",
    "ContrastiveDivergence",
    "DoubleLoop",
    "HiddenField",
    "HiddenMarkov",
    "ImportanceSampling",
    "MarkovRandomField",
    "Penalty",
    "PseudoLikelihood",
    "PseudoMoments",
    "RestrictedBoltzmann",
    "importance_log_partition",
]

#: Up to so many weights L-BFGS keeps so many pairs in place of `LBFGS.memory`: a product with them takes less time than
#: a sum over the examples, and where features differ in size by 1e9 six pairs find no lower bound.
FEW_WEIGHTS, MANY_PAIRS = 10_000, 40


def best(
    problem: ConditionalRandomField
    | HiddenField
    | HiddenMarkov
    | MarkovRandomField
    | PseudoLikelihood
    | ApproximateField,
    wanted: Profile,
) -> tuple[Solver, str]:
    """The default solver of each kind of problem, and a sentence that names it: L-BFGS but for special cases."""
    if isinstance(problem, HiddenMarkov):
        return BaumWelch(), "Baum-Welch, long sequences in pieces"
    if isinstance(problem, HiddenField):
        return LBFGS(), "L-BFGS on unclamped less clamped expectations"
    if isinstance(problem, ApproximateField) and problem.l1:
        return ImportanceSampling(), "importance sampling inside, L-BFGS outside: an approximation with exact zeros"
    if isinstance(problem, ApproximateField):
        return DoubleLoop(), "belief propagation inside, L-BFGS outside: an approximation"
    if isinstance(problem, MarkovRandomField) and in_closed_form(problem):
        return PseudoMoments(), "the closed form of tables on a tree"
    options: dict[str, Any] = {"metric": "scalar" if _in_one_unit(problem) else "diagonal"}
    if problem.dimension < FEW_WEIGHTS and not problem.penalty.l1:
        options["memory"] = MANY_PAIRS
    said = f"L-BFGS in a {options['metric']} metric"
    return LBFGS(**options), f"orthant-wise {said}: zeros are exact" if problem.penalty.l1 else said


def _in_one_unit(problem: ConditionalRandomField | MarkovRandomField | PseudoLikelihood) -> bool:
    """Whether the scalar metric is the better one. Tables of pairs and of single variables occur together, since these
    are sums of those; node features of a conditional field may or may not (`coherent`)."""
    if isinstance(problem, ConditionalRandomField):
        if problem.penalty == NO_PENALTY:
            return False  # in its basis features do not occur together
        return even(problem.features.sample) and coherent(problem.features.sample)
    sizes = problem.factors.largest[problem.factors.largest > 0]
    return bool((sizes <= EVEN_RATIO * sizes.min(initial=np.inf)).all())


FAMILY = register(
    Family(
        __name__,
        title="Log-linear models by likelihood",
        problems=(
            ConditionalRandomField,
            HiddenField,
            HiddenMarkov,
            MarkovRandomField,
            PseudoLikelihood,
            ApproximateField,
        ),
        solvers=(
            BaumWelch,
            ContrastiveDivergence,
            DoubleLoop,
            ImportanceSampling,
            LBFGS,
            PseudoMoments,
        ),
        best=best,
        systems=(
            System(
                name="conditional random field",
                paper=PAPER_4,
                equations="(20.1)-(20.4), conditional",
                formulation=("likelihood", "maximum_entropy", "clique_entropy"),
                experiments=("chunking",),
                problems=(ConditionalRandomField,),
                caution=(
                    "Without a penalty data that some weights separate have no maximum: theta runs away, and the "
                    "message names the direction. With an L1 penalty the maximum need not be unique. Graphs whose "
                    "junction tree is too wide are refused; pseudolikelihood takes them."
                ),
            ),
            System(
                name="log-linear model with hidden variables",
                paper=PAPER_4,
                equations="Proposition 20.3.3, clamped and unclamped expectations",
                formulation=("expected_likelihood",),
                problems=(HiddenField,),
                caution=(
                    "The likelihood is not convex: STATIONARY says that the gradient is small, not that the minimum "
                    "is near. theta = 0 is often stationary where hidden labels may be permuted, so that a run from "
                    "there learns nothing."
                ),
            ),
            System(
                name="hidden Markov model by Baum-Welch",
                paper=PAPER_4,
                equations="Proposition 20.3.3, locally normalised; compared with in paper 3",
                formulation=("expected_counts",),
                problems=(HiddenMarkov,),
                caution=(
                    "The start decides where it ends, so that one run says little. A probability that is 0 in the "
                    "start stays 0."
                ),
            ),
            System(
                name="Markov random field",
                paper=PAPER_4,
                equations="(20.1)-(20.4), (20.10), (20.17)-(20.23)",
                formulation=("likelihood", "maximum_entropy", "clique_entropy", "camel", "tree_reweighted"),
                experiments=("camel", "log-likelihood-surface"),
                problems=(MarkovRandomField,),
                caution=(
                    "Without a penalty there is no maximum where the moments of the data lie on the border, as they "
                    "do once a configuration is never seen: (20.17) of the slides is such a case. What camel and "
                    "tree_reweighted state are stand-ins, whose optima are not the likelihood's."
                ),
            ),
            System(
                name="pseudolikelihood",
                paper=PAPER_4,
                equations="(20.31), Theorem 20.6.2, Example 20.6.3",
                formulation=("pseudolikelihood",),
                experiments=("pseudolikelihood",),
                problems=(PseudoLikelihood,),
                caution=(
                    "Tied pairs mislead it: where two variables nearly always agree each is predicted from the other, "
                    "and little is left for the inputs to explain (Example 20.6.3). It equals the likelihood's answer "
                    "only as the samples grow without end."
                ),
            ),
            System(
                name="approximate likelihood of wide fields",
                paper=PAPER_4,
                equations="20.5-20.6",
                formulation=("camel", "tree_reweighted"),
                experiments=("contrastive-divergence", "collapse"),
                problems=(ApproximateField,),
                caution=(
                    "What is optimised is an approximation, and how far it lies from the likelihood is not known: no "
                    "bound is certified. The best labelling in place of ln Z collapses to theta = 0; contrastive "
                    "divergence follows the gradient of no function."
                ),
            ),
        ),
    )
)
