"""Mutants of solvers of pseudolikelihood, each wrong by one plausible slip; verification must fail them all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from tests.mutants import ABOVE, TOO_GOOD, Mutant, flattered_value, honest, loosened_bound, not_a_number


def one_variable_forgotten(problem: PseudoLikelihood) -> Any:
    return honest(replace(problem, targets=problem.targets[1:])).point


def inputs_predicted(problem: PseudoLikelihood) -> Any:
    """What is an input is predicted too."""
    return honest(replace(problem, targets=tuple(range(problem.factors.n_variables)))).point


def weights_forgotten(problem: PseudoLikelihood) -> Any:
    return honest(replace(problem, weights=np.ones(len(problem.samples)))).point


def divided_by_samples(problem: PseudoLikelihood) -> Any:
    """(20.31) has 1 / M, the penalty has not."""
    return honest(replace(problem, scale=Scale(problem.scale.lam, problem.scale.C / len(problem.samples)))).point


def half_of_l1(problem: PseudoLikelihood) -> Any:
    return honest(replace(problem, l1=0.5 * problem.l1)).point


def raised_conditionals(problem: PseudoLikelihood) -> Any:
    """Conditionals that sum to 1.01."""
    solution = honest(problem)
    assert solution.dual_point is not None
    return replace(solution, dual_point={"conditionals": 1.01 * solution.dual_point["conditionals"]})


def forbidden_forgotten(problem: PseudoLikelihood) -> Any:
    return honest(replace(problem, factors=replace(problem.factors, forbidden=None))).point


PSEUDO_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "one_variable_forgotten",
        "a variable is not predicted",
        one_variable_forgotten,
        "pl-grid",
        ABOVE,
        "without the conditional of variable 0",
    ),
    Mutant(
        "inputs_predicted", "inputs are predicted too", inputs_predicted, "pl-inputs", ABOVE, "inputs predicted too"
    ),
    Mutant(
        "pl_weights_forgotten", "samples' weights are forgotten", weights_forgotten, "pl-tied", ABOVE, "weights of 1"
    ),
    Mutant(
        "divided_by_samples",
        "the penalty is M times too strong",
        divided_by_samples,
        "pl-grid-elastic",
        ABOVE,
        "where solvers start",
    ),
    Mutant(
        "pl_forbidden_forgotten",
        "forbidden labels are summed over",
        forbidden_forgotten,
        "pl-forbidden",
        ABOVE,
        "forbidden labels summed over",
    ),
    Mutant("half_of_l1", "the L1 penalty is halved", half_of_l1, "pl-grid-lasso", ABOVE, "half the L1 penalty"),
    Mutant("raised_conditionals", "the witness is no distribution", raised_conditionals, "pl-grid", "proves nothing"),
    Mutant("pl_loosened_bound", "the lower bound is raised by 1%", loosened_bound, "pl-tied", TOO_GOOD),
    Mutant("pl_flattered_value", "the value is lowered by 1%", flattered_value, "pl-coin", TOO_GOOD),
    Mutant("pl_not_a_number", "one entry is NaN", not_a_number, "pl-uniform", "NaN"),
)
