"""Mutants of solvers of log-linear models, each wrong by one plausible slip; verification must fail them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.core.driver import solve
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear import ConditionalRandomField, HiddenField, HiddenMarkov, MarkovRandomField
from convexstruct.models.log_linear.entropy import clique_entropy
from convexstruct.models.log_linear.statement import over_cliques, parameters
from convexstruct.tolerances import HIGH
from tests.mutants import ABOVE, Mutant, common, honest, instead, writes_to


def of_scale(lam: float = 1.0, C: Callable[[Any], float] = lambda problem: 1.0) -> Callable[[Any], Scale]:
    """lam and C, each times a factor."""
    return lambda problem: Scale(lam * problem.scale.lam, C(problem) * problem.scale.C)


twice_the_penalty = instead(scale=of_scale(2.0))
forbidden_labels_forgotten = instead(factors=lambda problem: replace(problem.factors, forbidden=None))
weights_forgotten = instead(weights=lambda problem: np.ones(len(problem.weights)))


# -- conditional random fields and hidden models -----------------------------------------------------------------------


def wrong_sign(problem: ConditionalRandomField) -> Any:
    """Expected less observed features, and not the other way round."""
    return -honest(problem).point["theta"]


def no_edges(problem: ConditionalRandomField) -> Any:
    """Each label by itself: logistic regression."""
    theta = honest(problem).point["theta"].copy()
    problem.features.split(theta)[1][:] = 0.0
    return theta


def transposed(problem: ConditionalRandomField) -> Any:
    """Transitions read as [current, previous]."""
    theta = honest(problem, HIGH).point["theta"].copy()
    edge = problem.features.split(theta)[1]
    edge[:] = edge.transpose(0, 2, 1).copy()
    return theta


def best_labelling(problem: ConditionalRandomField) -> Any:
    """Features of the best labelling in place of expected ones: a perceptron."""
    theta = np.zeros(problem.dimension)
    for step in range(1, 200):
        found = problem.oracle.best(*problem.scores(theta)).labels
        rest = problem.truth_joint - problem.features.joint(found, problem.ceiling)
        theta = theta + (rest / problem.scale.lam - theta) / step
    return theta


def one_gradient_step(problem: HiddenField) -> Any:
    """In place of the M step."""
    theta = np.zeros(problem.dimension)
    return theta - problem.value_and_gradient(theta)[1]


def unweighted_counts(problem: HiddenMarkov) -> Any:
    """Expected counts without the weights of the sequences."""
    return honest(replace(problem, observed=replace(problem.observed, weights=None))).point


CONDITIONAL: tuple[Mutant, ...] = (
    Mutant("unweighted_counts", "counts without weights", unweighted_counts, "hidden-markov-length-one", ABOVE),
    Mutant(
        "clamps_forgotten", "labels that are known are summed over",
        instead(known=lambda problem: np.ones_like(problem.known)), "hidden-observed", ABOVE, "where solvers start",
    ),
    Mutant("one_gradient_step", "the M step is one step", one_gradient_step, "hidden-observed-field", ABOVE),
    Mutant("wrong_sign", "the gradient has the wrong sign", wrong_sign, "crf-chains", ABOVE, "is a sign wrong"),
    Mutant(
        "twice_the_penalty", "the 1/2 of the penalty is forgotten", twice_the_penalty, "crf-strong", ABOVE,
        "twice the penalty",
    ),
    Mutant(
        "mean_for_sum", "the likelihood is a mean, not a sum",
        instead(scale=of_scale(C=lambda problem: 1.0 / problem.n_examples)), "crf-stars", ABOVE, "C / N",
    ),
    Mutant(
        "weights_forgotten", "example weights are forgotten", weights_forgotten, "crf-planted", ABOVE,
        "where solvers start",
    ),
    Mutant("no_edges", "edges are left out", no_edges, "crf-stars-features", ABOVE),
    Mutant("transposed", "the table of pairs is transposed", transposed, "crf-cycles", ABOVE, "pairs transposed"),
    Mutant(
        "forbidden_forgotten", "forbidden pairs are summed over", instead(forbidden=lambda problem: None),
        "crf-forbidden", ABOVE, "forbidden pairs",
    ),
    Mutant(
        "ridge_for_lasso", "l2 in place of l1",
        instead(l1=lambda problem: 0.0, scale=lambda problem: replace(problem.scale, lam=problem.l1)),
        "crf-lasso", ABOVE, "an L2 penalty in place",
    ),
    Mutant("best_labelling", "the best labelling stands for the mean", best_labelling, "crf-strong", ABOVE),
    Mutant("changed_input", "it writes to its input", writes_to(lambda problem: problem.features.truth),
           "crf-chains", "changes its input"),
)  # fmt: skip


# -- Markov random fields ----------------------------------------------------------------------------------------------


def no_separators(problem: MarkovRandomField) -> Any:
    """Cliques' entropies are added, and those of separators not taken off."""
    formulation = clique_entropy(problem)
    entropies = problem.scale.C * problem.mass * cp.sum(cp.entr(formulation.variables["q"]))
    quadratic = 0.5 * problem.scale.lam * cp.sum_squares(formulation.variables["theta"])
    changed = formulation.maximizing(entropies - quadratic)
    changed.reference()
    return parameters(changed)


def one_way_consistency(problem: MarkovRandomField) -> Any:
    """Every second row of consistency is left out."""
    formulation, rows = clique_entropy(problem), over_cliques(problem).agreement
    some = rows[np.arange(0, rows.shape[0], 2)]
    changed = formulation.without("agree").adding("half", some @ formulation.variables["q"] == 0)
    changed.reference()
    return parameters(changed)


def wrong_sign_of_a_moment(problem: MarkovRandomField) -> Any:
    sums = problem.sums.copy()
    sums[0] = -sums[0]
    return solve(replace(problem, sums=sums)).point


def samples_weights_forgotten(problem: MarkovRandomField) -> Any:
    factors, samples = problem.factors, problem.samples
    assert samples is not None
    return honest(replace(MarkovRandomField.read(factors, samples), scale=problem.scale)).point


def half_of_forbidden(problem: MarkovRandomField) -> Any:
    """The last factor's forbidden labels are summed over."""
    forbidden = np.array(problem.factors.forbidden)
    forbidden[problem.factors.start[-2] :] = False
    return honest(replace(problem, factors=replace(problem.factors, forbidden=forbidden))).point


def tables(problem: MarkovRandomField, axes: int, change: Callable[[Any], Any]) -> Any:
    """The optimum with ``change`` of every table of so many axes."""
    theta = honest(problem, HIGH).point["theta"].copy()
    for shape, first, last in zip(problem.factors.shapes, problem.factors.start, problem.factors.start[1:]):
        if len(shape) == axes and len(set(shape)) == 1:
            theta[first:last] = change(theta[first:last].reshape(shape)).ravel()
    return theta


def no_nodes(problem: MarkovRandomField) -> Any:
    """The tables of nodes are left out."""
    return tables(problem, 1, np.zeros_like)


def swapped(problem: MarkovRandomField) -> Any:
    """Tables of pairs are read with their axes exchanged."""
    return tables(problem, 2, np.transpose)


def infeasible_dual(problem: MarkovRandomField) -> Any:
    """The dual point is not made feasible: its moments are not the data's."""
    return replace(honest(problem), dual_point={"cliques": problem.gibbs(np.zeros(problem.dimension))})


FIELD: tuple[Mutant, ...] = (
    Mutant("no_separators", "separators' entropies are not taken off", no_separators, "mrf-grid", ABOVE),
    Mutant("one_way_consistency", "half of the rows of consistency", one_way_consistency, "mrf-grid", ABOVE),
    Mutant("mrf_wrong_sign", "one moment has the wrong sign", wrong_sign_of_a_moment, "mrf-grid", ABOVE),
    Mutant(
        "mrf_weights_forgotten", "samples' weights are forgotten", samples_weights_forgotten, "mrf-tied", ABOVE,
        "weights of 1",
    ),
    Mutant(
        "mrf_forbidden_forgotten", "forbidden labels are summed over", forbidden_labels_forgotten,
        "mrf-configurations", ABOVE, "forbidden labels summed over",
    ),
    Mutant("half_of_forbidden", "a forbidden triple is summed over", half_of_forbidden, "mrf-configurations", ABOVE),
    Mutant("no_nodes", "tables of nodes are left out", no_nodes, "mrf-parts", ABOVE),
    Mutant("swapped", "tables have their axes exchanged", swapped, "mrf-tree", ABOVE, "pairs transposed"),
    Mutant("infeasible_dual", "the dual point's moments are wrong", infeasible_dual, "mrf-chain", "proves only"),
)  # fmt: skip


# -- pseudolikelihood --------------------------------------------------------------------------------------------------


def raised_conditionals(problem: Any) -> Any:
    """Conditionals that sum to 1.01."""
    solution = honest(problem)
    assert solution.dual_point is not None
    return replace(solution, dual_point={"conditionals": 1.01 * solution.dual_point["conditionals"]})


PSEUDO: tuple[Mutant, ...] = (
    Mutant(
        "one_variable_forgotten", "a variable is not predicted", instead(targets=lambda problem: problem.targets[1:]),
        "pl-grid", ABOVE, "without the conditional of variable 0",
    ),
    Mutant(
        "inputs_predicted", "inputs are predicted too",
        instead(targets=lambda problem: tuple(range(problem.factors.n_variables))), "pl-inputs", ABOVE,
        "inputs predicted too",
    ),
    Mutant(
        "pl_weights_forgotten", "samples' weights are forgotten", weights_forgotten, "pl-tied", ABOVE, "weights of 1"
    ),
    Mutant(  # (20.31) has 1 / M, the penalty has not
        "divided_by_samples", "the penalty is M times too strong",
        instead(scale=of_scale(C=lambda problem: 1.0 / len(problem.samples))), "pl-grid-elastic", ABOVE,
        "where solvers start",
    ),
    Mutant(
        "pl_forbidden_forgotten", "forbidden labels are summed over", forbidden_labels_forgotten, "pl-forbidden",
        ABOVE, "forbidden labels summed over",
    ),
    Mutant(
        "half_of_l1", "the L1 penalty is halved", instead(l1=lambda problem: 0.5 * problem.l1), "pl-grid-lasso",
        ABOVE, "half the L1 penalty",
    ),
    Mutant("raised_conditionals", "the witness is no distribution", raised_conditionals, "pl-grid", "proves nothing"),
    *common(
        loosened_bound="crf-chains",
        flattered_value="crf-chains",
        borrowed_bound="crf-chains",
        shares_above_one="crf-length-one",
        stops_early="crf-weak",
        not_a_number="crf-chains",
    ),
)  # fmt: skip

MUTANTS: tuple[Mutant, ...] = (*CONDITIONAL, *FIELD, *PSEUDO)
