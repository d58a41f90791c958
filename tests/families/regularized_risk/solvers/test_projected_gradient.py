"""Projected gradient steps: those written out, and their theorem."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from convexstruct.families.regularized_risk.solvers.pragam import largest_distance, lipschitz_constant
from convexstruct.families.regularized_risk.solvers.projected_gradient import ProjectedGradient
from convexstruct.families.regularized_risk.solvers.risk_projection import onto_q
from convexstruct.tolerances import ROUNDING
from tests.models.regularized_risk.risks import INSTANCES


@pytest.mark.parametrize("name", INSTANCES)
def test_the_gap_is_within_the_theorem_at_every_iterate_and_the_bound_does_not_fall(name: str) -> None:
    problem = INSTANCES[name]()
    most = lipschitz_constant(problem) * largest_distance(problem, problem.feasible(np.zeros(problem.n_pieces)))
    lower = -np.inf
    for k, iterate in enumerate(islice(ProjectedGradient().iterate(problem), 60), start=1):
        assert -ROUNDING <= iterate.primal - iterate.lower_bound <= most / k + ROUNDING
        assert iterate.lower_bound >= lower - ROUNDING * (1 + abs(lower))
        lower = iterate.lower_bound


@pytest.mark.parametrize("name", ["binary", "binary, bias, weighted", "multiclass, cost", "pieces"])
def test_the_iterates_are_those_written_out(name: str) -> None:
    problem = INSTANCES[name]()
    matrix = problem.matrix()
    A = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    L = np.linalg.norm(A, 2) ** 2 / problem.lam
    alpha, met = problem.feasible(np.zeros(problem.n_pieces)), []
    for iterate in islice(ProjectedGradient().iterate(problem), 12):
        w = -A.T @ alpha / problem.lam
        met.append(w)
        alpha = onto_q(problem, alpha + (problem.loss.offset + A @ w) / L)
        mean = np.mean(met, axis=0)
        np.testing.assert_allclose(iterate.point["w"].ravel(), mean, atol=ROUNDING * (1 + np.abs(mean).max()))
        assert isinstance(iterate.dual_point, dict)
        np.testing.assert_allclose(iterate.dual_point["alpha"], alpha, atol=ROUNDING)
