"""Projected gradient steps: those written out, their theorem, and the rate beside Pragam's."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers import projected_gradient
from convexstruct.families.regularized_risk.solvers.pragam import Pragam, largest_distance, lipschitz_constant
from convexstruct.families.regularized_risk.solvers.projected_gradient import ProjectedGradient
from convexstruct.families.regularized_risk.solvers.risk_projection import onto_q
from convexstruct.tolerances import LOW, ROUNDING
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


def test_with_steps_too_long_the_bound_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """L is needed: with a tenth of it D falls somewhere, and the gap leaves the theorem."""
    problem = INSTANCES["binary"]()
    L, most = lipschitz_constant(problem), largest_distance(problem, np.zeros(problem.n_pieces))
    monkeypatch.setattr(projected_gradient, "lipschitz_constant", lambda problem: L / 10)
    iterates = list(islice(ProjectedGradient().iterate(problem), 60))
    assert min(np.diff([each.lower_bound for each in iterates])) < 0
    assert max(k * (each.primal - each.lower_bound) for k, each in enumerate(iterates, start=1)) > L / 10 * most


def rounds(problem: RegularizedRisk, solver: ProjectedGradient | Pragam) -> int:
    found = solve(problem, solver, LOW, max_iterations=100_000)
    assert found.status is Status.OPTIMAL
    return found.iterations


def test_pragam_needs_fewer_rounds() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    problem = RegularizedRisk.binary(X, np.where(X[:, 0] + rng.normal(size=60) > 0, 1, -1), 1e-2)
    assert 4 * rounds(problem, Pragam(None)) < rounds(problem, ProjectedGradient())


@pytest.mark.parametrize("scale", [1e-8, 0.0, 1e8])
def test_features_of_any_size_and_none_are_served(scale: float) -> None:
    rng = np.random.default_rng(1)
    X = scale * rng.normal(size=(12, 3))
    problem = RegularizedRisk.binary(X, np.where(np.arange(12) % 3, 1, -1), 1.0)
    for iterate in islice(ProjectedGradient().iterate(problem), 20):
        assert iterate.lower_bound <= iterate.primal * (1 + ROUNDING)
        assert np.isfinite(iterate.primal)
    if scale < 1:
        assert iterate.primal - iterate.lower_bound <= ROUNDING
