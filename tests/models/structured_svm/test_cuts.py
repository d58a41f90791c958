"""Constraint generation of structural SVMs: bounds valid every round, both scalings, both slacks and none."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.problem import Scaling, StructuredSVM
from convexstruct.models.structured_svm.cuts import (
    ConstraintGeneration,
    hard_margin_cuts,
    n_slack_cuts,
    one_slack_cuts,
)
from convexstruct.models.structured_svm.hard import hard_margin
from convexstruct.models.structured_svm.max_margin_markov import local_relaxation, marginals
from convexstruct.tolerances import HIGH, ROUNDING
from tests.models.structured_svm.instances import COSTS, frustrated, svm
from tests.models.structured_svm.test_enumerated import instance
from tests.models.test_constraint_generation import bounds_hold
from tests.reference import close, optimum

Builder = Callable[[StructuredSVM], ConstraintGeneration]

SOME = [
    "chains, weighted, a cost matrix, C_mean", "associative cycles, two labels", "a kernel", "zero-one loss on cycles",
    "slack scaling, weighted, a cost matrix", "slack scaling on cycles, associative", "repeated data: ties",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "build"), [(SOME[0], n_slack_cuts), *zip(SOME, itertools.cycle((one_slack_cuts, n_slack_cuts)))]
)
def test_constraint_generation_reaches_the_enumerated_optimum(name: str, build: Builder) -> None:
    problem, expected = instance(name)
    run = build(problem)
    solution = run.run(HIGH)
    assert solution.status is Status.OPTIMAL, solution.message
    assert close(solution.primal, expected)
    bounds_hold(run, expected, HIGH.gap)
    added = sum(step.added for step in run.rounds)
    assert added == sum(int(kept.sum()) if run.slack == "n" else 1 for kept in run.in_master)
    if name == SOME[0]:
        assert close(optimum(build(problem)).value, expected)


def test_the_constraint_added_is_the_most_violated_one() -> None:
    problem = svm(23, loss=COSTS, scaling="slack", weighted=True, C=0.5)
    run = n_slack_cuts(problem)
    run.step()
    run.step()
    assert run.master is not None
    w = np.asarray(run.master.variables["w"].value)
    violated = problem.most_violated(w)
    for i in np.flatnonzero(run.in_master[-1]):
        at = slice(int(problem.features.node_start[i]), int(problem.features.node_start[i + 1]))
        np.testing.assert_array_equal(run.labels[-1][at], violated.labels[at])


def test_chains_too_long_to_write_out_have_the_optimum_of_their_marginals() -> None:
    problem = svm(0, lengths=(10, 1, 5), n_labels=4, C=0.05)
    solution = n_slack_cuts(problem).run(HIGH)
    assert solution.status is Status.OPTIMAL, solution.message
    assert close(solution.primal, optimum(marginals(problem)).value)


# -- without slack -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["margin", "slack"])
@pytest.mark.parametrize("loss", ["zero_one", "hamming", "costs"])
def test_the_hard_margin_is_generated_between_bounds_of_its_own(loss: str, scaling: str) -> None:
    given, associative = COSTS if loss == "costs" else loss, (loss == "hamming") == (scaling == "slack")
    problem = svm(4, loss=given, scaling=scaling, weighted=True, associative=associative, n_features=6, noise=0.2)
    expected = optimum(hard_margin(problem)).value
    run = hard_margin_cuts(problem)
    solution = run.run(HIGH)
    assert solution.status is Status.OPTIMAL, solution.message
    assert close(solution.primal, expected)
    bounds_hold(run, expected, HIGH.gap)
    assert run.master is not None
    assert "xi" not in run.master.variables
    hinge = problem.most_violated(solution.point["w"]).hinge
    assert hinge.max() <= 10 * ROUNDING


def test_a_label_that_costs_nothing_keeps_its_margin_of_zero() -> None:
    free = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    problem = svm(4, loss=free, n_features=6, noise=0.2)
    expected = optimum(hard_margin(problem)).value
    solution = hard_margin_cuts(problem).run(HIGH)
    assert solution.status is Status.OPTIMAL, solution.message
    assert close(solution.primal, expected)


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_inseparable_data_end_the_run_infeasible_and_it_says_so(scaling: Scaling, solver: str) -> None:
    twins = StructuredSVM.read([np.ones((1, 2))] * 2, [[0], [1]], edges="none", C=1.0, scaling=scaling)
    run = hard_margin_cuts(twins)
    run.solver = solver
    assert run.run(HIGH, max_rounds=1).primal == np.inf  # P of the soft margin would be 2
    solution = run.run(HIGH)
    assert solution.status is Status.INFEASIBLE
    assert (solution.primal, solution.gap) == (np.inf, np.inf)
    assert "infeasible" in solution.message
    assert run.rounds[-1].primal == np.inf
    assert not run.reference().accurate


def test_with_a_relaxed_oracle_the_bounds_hold_and_need_not_meet() -> None:
    exact = frustrated()
    relaxed = replace(exact, inference="relaxed")
    run = n_slack_cuts(relaxed)
    solution = run.run(HIGH)
    assert solution.status is Status.STALLED
    bounds_hold(run, optimum(local_relaxation(relaxed)).value, HIGH.gap)
