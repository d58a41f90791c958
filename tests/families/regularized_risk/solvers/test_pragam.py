"""Pragam: (26) at every iterate, the constants in it, and known optima."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.pragam import (
    Pragam,
    PragamB,
    largest_distance,
    lipschitz_constant,
)
from convexstruct.families.regularized_risk.solvers.risk_projection import onto_q
from convexstruct.tolerances import HIGH, ROUNDING, SINGLE
from tests.models.regularized_risk.risks import INSTANCES


def pragam(problem: RegularizedRisk, lipschitz: float | str | None = "estimate") -> Pragam | PragamB:
    return PragamB(lipschitz) if problem.n_biases else Pragam(lipschitz)


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("lipschitz", [None, 3.0, "estimate"])
def test_the_gap_is_within_26_at_every_iterate(name: str, lipschitz: float | str | None) -> None:
    problem = INSTANCES[name]()
    farthest = largest_distance(problem, problem.feasible(np.zeros(problem.n_pieces)))
    L = lipschitz_constant(problem)
    given = L * lipschitz if isinstance(lipschitz, float) else lipschitz  # larger than needed: the bound is larger too
    for k, iterate in enumerate(islice(pragam(problem, given).iterate(problem), 60), start=1):
        gap = iterate.primal - iterate.lower_bound
        if name == "zero features":  # D is linear: solved by the first step
            assert gap <= ROUNDING
            continue
        mu = float(iterate.message.split("mu = ")[1])
        assert -ROUNDING <= gap <= mu * farthest * (1 + SINGLE) + ROUNDING
        if not isinstance(lipschitz, str):
            assert gap <= 6 * L * (lipschitz or 1.0) * farthest / ((k + 1) * (k + 2)) + ROUNDING


@pytest.mark.parametrize("name", ["binary", "binary, bias, weighted", "multiclass, cost", "pieces"])
def test_the_iterates_are_those_of_algorithm_1_written_out(name: str) -> None:
    problem = INSTANCES[name]()
    matrix = problem.matrix()
    A = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    c, lam, L = problem.loss.offset, problem.lam, lipschitz_constant(problem)
    centre = problem.feasible(np.zeros(problem.n_pieces))

    def w_of(alpha: Vector) -> Vector:
        return -A.T @ alpha / lam

    def step(alpha: Vector) -> Vector:  # V
        return onto_q(problem, alpha + (c + A @ w_of(alpha)) / L)

    alpha, w, mu = step(centre), w_of(centre), L
    for k, iterate in enumerate(islice(pragam(problem, None).iterate(problem), 12), start=1):
        assert iterate.dual_point is not None
        assert not callable(iterate.dual_point)
        np.testing.assert_allclose(iterate.dual_point["alpha"], alpha, atol=ROUNDING)
        np.testing.assert_allclose(iterate.point["w"].ravel(), w, atol=ROUNDING * (1 + np.abs(w).max()))
        tau = 2 / (k + 3)
        middle = (1 - tau) * alpha + tau * onto_q(problem, centre + (c + A @ w) / mu)
        w = (1 - tau) * w + tau * w_of(middle)
        alpha, mu = step(middle), (1 - tau) * mu


@pytest.mark.parametrize("name", INSTANCES)
def test_the_largest_distance_is_that_of_some_corner_and_of_none_beyond(name: str) -> None:
    problem = INSTANCES[name]()
    rng = np.random.default_rng(0)
    centre = problem.feasible(rng.random(problem.n_pieces))
    farthest = largest_distance(problem, centre)
    found = 0.0
    for _ in range(300):
        corner = problem.best_alpha(rng.normal(size=problem.n_pieces) - 2 * centre / problem.shares[problem.group])
        found = max(found, 0.5 * float(np.sum((corner - centre) ** 2)))
    assert found <= farthest + ROUNDING
    if not problem.n_biases:
        assert found >= 0.9 * farthest


@pytest.mark.parametrize("name", [*INSTANCES, "wide", "wide, zero", "one feature"])
def test_the_lipschitz_constant_is_the_largest_singular_value_squared_over_lam(name: str) -> None:
    if name not in INSTANCES:
        X = np.random.default_rng(0).normal(size=(20, 1 if name == "one feature" else 300)) * (name != "wide, zero")
        problem = RegularizedRisk.binary(X, np.where(np.arange(20) % 2, 1, -1), 0.3)
    else:
        problem = INSTANCES[name]()
    matrix = problem.matrix()
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    largest = np.linalg.norm(dense, 2) ** 2 / problem.lam
    assert lipschitz_constant(problem) == pytest.approx(largest, rel=ROUNDING, abs=1e-7)


@pytest.mark.parametrize("lipschitz", [None, "estimate"])
def test_features_of_zeros_alone_have_a_constant_above_zero(lipschitz: str | None) -> None:
    """D is linear: any L > 0 is right, and the first step solves it. Without LEAST_LIPSCHITZ of pragam L is 0, and the
    step divides by it."""
    problem = RegularizedRisk.multiclass(np.zeros((20, 3)), np.arange(20) % 3, 0.3)
    assert solve(problem, Pragam(lipschitz), HIGH).iterations == 1
