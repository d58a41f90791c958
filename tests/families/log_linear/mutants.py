"""Mutants of solvers of conditional random fields and hidden models, each wrong by one plausible slip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.core.driver import solve
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear import ConditionalRandomField, HiddenField, HiddenMarkov
from convexstruct.tolerances import HIGH, LOW
from tests.mutants import (
    ABOVE,
    TOO_GOOD,
    Mutant,
    flattered_value,
    honest,
    loosened_bound,
    not_a_number,
    shares_above_one,
)


def wrong_sign(problem: ConditionalRandomField) -> Any:
    """Expected less observed features, and not the other way round."""
    return -honest(problem).point["theta"]


def twice_the_penalty(problem: ConditionalRandomField) -> Any:
    return honest(replace(problem, scale=replace(problem.scale, lam=2.0 * problem.scale.lam))).point


def mean_for_sum(problem: ConditionalRandomField) -> Any:
    return honest(replace(problem, scale=Scale(problem.scale.lam, problem.scale.C / problem.n_examples))).point


def weights_forgotten(problem: ConditionalRandomField) -> Any:
    return honest(replace(problem, weights=np.ones(problem.n_examples))).point


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


def forbidden_forgotten(problem: ConditionalRandomField) -> Any:
    return honest(replace(problem, forbidden=None)).point


def ridge_for_lasso(problem: ConditionalRandomField) -> Any:
    return honest(replace(problem, l1=0.0, scale=replace(problem.scale, lam=problem.l1))).point


def best_labelling(problem: ConditionalRandomField) -> Any:
    """Features of the best labelling in place of expected ones: a perceptron."""
    theta = np.zeros(problem.dimension)
    for step in range(1, 200):
        found = problem.oracle.best(*problem.scores(theta)).labels
        rest = problem.truth_joint - problem.features.joint(found, problem.ceiling)
        theta = theta + (rest / problem.scale.lam - theta) / step
    return theta


def stops_early(problem: ConditionalRandomField) -> Any:
    return solve(problem, tol=HIGH, max_iterations=3).point


def borrowed_bound(problem: ConditionalRandomField) -> Any:
    """Claims the optimal bound, with a witness that proves less."""
    solution = honest(problem)
    return replace(solution, dual_point=solve(problem, tol=LOW, max_iterations=1).dual_point)


def changed_input(problem: ConditionalRandomField) -> Any:
    problem.features.truth.setflags(write=True)
    problem.features.truth[0] = (problem.features.truth[0] + 1) % problem.features.n_labels
    return honest(problem).point


def clamps_forgotten(problem: HiddenField) -> Any:
    """What is known is not used: every label is left open."""
    return honest(replace(problem, known=np.ones_like(problem.known))).point


def one_gradient_step(problem: HiddenField) -> Any:
    """In place of the M step."""
    theta = np.zeros(problem.dimension)
    return theta - problem.majorant(theta).value_and_gradient(theta)[1]


def unweighted_counts(problem: HiddenMarkov) -> Any:
    """Expected counts without the weights of the sequences."""
    return honest(replace(problem, observed=replace(problem.observed, weights=None))).point


MUTANTS: tuple[Mutant, ...] = (
    Mutant("unweighted_counts", "counts without weights", unweighted_counts, "hidden-markov-length-one", ABOVE),
    Mutant(
        "clamps_forgotten",
        "labels that are known are summed over",
        clamps_forgotten,
        "hidden-observed",
        ABOVE,
        "where solvers start",
    ),
    Mutant("one_gradient_step", "the M step is one step", one_gradient_step, "hidden-observed-field", ABOVE),
    Mutant("wrong_sign", "the gradient has the wrong sign", wrong_sign, "crf-chains", ABOVE, "is a sign wrong"),
    Mutant(
        "twice_the_penalty",
        "the 1/2 of the penalty is forgotten",
        twice_the_penalty,
        "crf-strong",
        ABOVE,
        "twice the penalty",
    ),
    Mutant("mean_for_sum", "the likelihood is a mean, not a sum", mean_for_sum, "crf-stars", ABOVE, "C / N"),
    Mutant(
        "weights_forgotten",
        "example weights are forgotten",
        weights_forgotten,
        "crf-planted",
        ABOVE,
        "where solvers start",
    ),
    Mutant("no_edges", "edges are left out", no_edges, "crf-stars-features", ABOVE),
    Mutant("transposed", "the table of pairs is transposed", transposed, "crf-cycles", ABOVE, "pairs transposed"),
    Mutant(
        "forbidden_forgotten",
        "forbidden pairs are summed over",
        forbidden_forgotten,
        "crf-forbidden",
        ABOVE,
        "forbidden pairs",
    ),
    Mutant("ridge_for_lasso", "l2 in place of l1", ridge_for_lasso, "crf-lasso", ABOVE, "an L2 penalty in place"),
    Mutant("best_labelling", "the best labelling stands for the mean", best_labelling, "crf-strong", ABOVE),
    Mutant("stops_early", "it stops after three rounds", stops_early, "crf-weak", ABOVE),
    Mutant("loosened_bound", "the lower bound is raised by 1%", loosened_bound, "crf-chains", TOO_GOOD),
    Mutant("flattered_value", "the value is lowered by 1%", flattered_value, "crf-chains", TOO_GOOD),
    Mutant("borrowed_bound", "the witness proves less", borrowed_bound, "crf-chains", "proves only"),
    Mutant("shares_above_one", "shares sum to 1.01", shares_above_one, "crf-length-one", "proves nothing"),
    Mutant("changed_input", "it writes to its input", changed_input, "crf-chains", "changes its input"),
    Mutant("not_a_number", "one entry is NaN", not_a_number, "crf-chains", "NaN"),
)
