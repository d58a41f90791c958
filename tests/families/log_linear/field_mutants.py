"""Mutants of solvers of Markov random fields, each wrong by one plausible slip; verification must fail them all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.core.driver import solve
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.models.log_linear.entropy import clique_entropy
from convexstruct.models.log_linear.statement import over_cliques, parameters
from convexstruct.tolerances import HIGH
from tests.mutants import ABOVE, TOO_GOOD, Mutant, flattered_value, honest, loosened_bound, not_a_number


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


def twice_the_penalty(problem: MarkovRandomField) -> Any:
    scale = problem.scale
    return honest(replace(problem, scale=Scale(2.0 * scale.lam, scale.C))).point


def weights_forgotten(problem: MarkovRandomField) -> Any:
    factors, samples = problem.factors, problem.samples
    assert samples is not None
    return honest(replace(MarkovRandomField.read(factors, samples), scale=problem.scale)).point


def forbidden_forgotten(problem: MarkovRandomField) -> Any:
    return honest(replace(problem, factors=replace(problem.factors, forbidden=None))).point


def half_of_forbidden(problem: MarkovRandomField) -> Any:
    """The last factor's forbidden labels are summed over."""
    forbidden = np.array(problem.factors.forbidden)
    forbidden[problem.factors.start[-2] :] = False
    return honest(replace(problem, factors=replace(problem.factors, forbidden=forbidden))).point


def no_nodes(problem: MarkovRandomField) -> Any:
    """The tables of nodes are left out."""
    theta = honest(problem).point["theta"].copy()
    for scope, first, last in zip(problem.factors.scopes, problem.factors.start, problem.factors.start[1:]):
        if len(scope) == 1:
            theta[first:last] = 0.0
    return theta


def swapped(problem: MarkovRandomField) -> Any:
    """Tables of pairs are read with their axes exchanged."""
    solution = honest(problem, HIGH)
    theta = solution.point["theta"].copy()
    for shape, first, last in zip(problem.factors.shapes, problem.factors.start, problem.factors.start[1:]):
        if len(shape) == 2 and shape[0] == shape[1]:
            theta[first:last] = theta[first:last].reshape(shape).T.ravel()
    return theta


def stops_early(problem: MarkovRandomField) -> Any:
    return solve(problem, tol=HIGH, max_iterations=3).point


def infeasible_dual(problem: MarkovRandomField) -> Any:
    """The dual point is not made feasible: its moments are not the data's."""
    return replace(honest(problem), dual_point={"cliques": problem.gibbs(np.zeros(problem.dimension))})


def box_too_wide(problem: MarkovRandomField) -> Any:
    return honest(replace(problem, l1=1.1 * problem.l1)).point


def regrettable_witness(problem: MarkovRandomField) -> Any:
    """Clique tables of NaN."""
    solution = honest(problem)
    return replace(solution, dual_point={"cliques": np.full(problem.polytope.n_variables, np.nan)})


def changed_input(problem: MarkovRandomField) -> Any:
    """Makes the read-only array of moments writeable, and writes to it."""
    problem.sums.setflags(write=True)
    problem.sums[:] = problem.sums * 0.999
    return honest(problem).point


FIELD_MUTANTS: tuple[Mutant, ...] = (
    Mutant("no_separators", "separators' entropies are not taken off", no_separators, "mrf-grid", ABOVE),
    Mutant("one_way_consistency", "half of the rows of consistency", one_way_consistency, "mrf-grid", ABOVE),
    Mutant("wrong_sign", "one moment has the wrong sign", wrong_sign_of_a_moment, "mrf-grid", ABOVE),
    Mutant(
        "twice_the_penalty",
        "the 1/2 of the penalty is forgotten",
        twice_the_penalty,
        "mrf-planted",
        ABOVE,
        "twice the penalty",
    ),
    Mutant("weights_forgotten", "samples' weights are forgotten", weights_forgotten, "mrf-tied", ABOVE, "weights of 1"),
    Mutant(
        "forbidden_labels_forgotten",
        "forbidden labels are summed over",
        forbidden_forgotten,
        "mrf-configurations",
        ABOVE,
        "forbidden labels summed over",
    ),
    Mutant("half_of_forbidden", "a forbidden triple is summed over", half_of_forbidden, "mrf-configurations", ABOVE),
    Mutant("no_nodes", "tables of nodes are left out", no_nodes, "mrf-parts", ABOVE),
    Mutant("swapped", "tables have their axes exchanged", swapped, "mrf-tree", ABOVE, "pairs transposed"),
    Mutant("stops_early", "it stops after three rounds", stops_early, "mrf-grid", ABOVE),
    Mutant("infeasible_dual", "the dual point's moments are wrong", infeasible_dual, "mrf-chain", "proves only"),
    Mutant("box_too_wide", "the box of the moments is too wide", box_too_wide, "mrf-grid-lasso", ABOVE),
    Mutant("regrettable_witness", "the witness is not a number", regrettable_witness, "mrf-inside", "proves nothing"),
    Mutant("loosened_bound", "the lower bound is raised by 1%", loosened_bound, "mrf-grid-free", TOO_GOOD),
    Mutant("flattered_value", "the value is lowered by 1%", flattered_value, "mrf-border", TOO_GOOD),
    Mutant("changed_input", "it writes to its input", changed_input, "mrf-grid", "changes its input"),
    Mutant("not_a_number", "one entry is NaN", not_a_number, "mrf-uniform", "NaN"),
)
