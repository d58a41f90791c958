"""Optima of the structural SVMs of `tests.models.structured_svm_instances`, with every labelling written out in CVXPY,
and what the bounds of the papers ask for."""

from __future__ import annotations

from functools import cache

import numpy as np

from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.models.structured_svm import enumerated as structured_svm
from convexstruct.tolerances import HIGH, ROUNDING
from tests.models.structured_svm.instances import INSTANCES


@cache
def reference(name: str) -> tuple[StructuredSVM, float]:
    """An instance by name and its optimum, certified from both sides."""
    problem = INSTANCES[name]()
    return problem, optimum(problem)


def optimum(problem: StructuredSVM) -> float:
    """p* of a problem small enough to write out, certified from both sides."""
    solution = structured_svm.n_slack(problem).solve()
    assert abs(solution.gap) <= HIGH.gap
    return 0.5 * (solution.primal + solution.lower_bound)


def holds(solution: Solution, expected: float, gap: float = HIGH.gap) -> None:
    """The certified bounds enclose the optimum, and are ``gap`` apart at most."""
    slack = HIGH.gap * max(1.0, abs(expected))
    assert solution.lower_bound - slack <= expected <= solution.primal + slack
    assert -ROUNDING <= solution.gap <= gap, solution


def ends_within(problem: StructuredSVM, last: Iterate, eps: float) -> None:
    """A run of cutting planes is done, its bounds are C eps apart at most, and enclose the optimum."""
    assert last.done
    assert last.primal - last.lower_bound <= float(problem.ceiling.sum()) * eps + HIGH.gap * max(1.0, last.primal)
    assert last.lower_bound - HIGH.gap <= optimum(problem) <= last.primal + HIGH.gap


def radius(problem: StructuredSVM) -> float:
    """R = max |e_i(y) df_i(y)|, over all labellings."""
    every = enumerate_pairwise(problem.features, problem.loss)
    rows = np.sqrt(np.asarray(every.difference.multiply(every.difference).sum(axis=1)).ravel())
    return float((rows * every.loss if problem.scaling == "slack" else rows).max())
