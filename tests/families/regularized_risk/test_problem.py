"""The problem against loops over its definitions: every loss, the map and its transpose, the best bias, and bounds from
any dual witness."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.tolerances import ROUNDING
from tests.models.regularized_risk.risks import INSTANCES

N, D, K = 9, 3, 4
RNG = np.random.default_rng(0)
X: Vector = RNG.normal(size=(N, D))
SIGNS = np.array([1, -1, 1, 1, -1, -1, 1, -1, 1])
CODES = np.arange(N) % K
HAS = RNG.integers(2, size=(N, K))
OMEGA: Vector = RNG.random(N) + 0.5
COST = np.array([[0.0, 1, 2, 3], [1, 0, 1, 2], [4, 1, 0, 1], [1, 2, 1, 0]])
LAM = 0.1


MADE = {name: make() for name, make in INSTANCES.items()}
PROBLEMS = [pytest.param(problem, id=name) for name, problem in MADE.items()]


def written_out(name: str, w: Vector, b: Vector) -> float:
    """J by loops over examples, straight from the definitions."""
    omega = np.ones(N)
    total = 0.0
    if "weights" in name:
        omega = OMEGA
    for i in range(N):
        x = X[i]
        if name.startswith("binary"):
            loss = max(0.0, 1 - SIGNS[i] * (w @ x + (b[0] if len(b) else 0.0)))
        elif name.startswith("multiclass"):
            loss = max(COST[CODES[i], k] + w[k] @ x - w[CODES[i]] @ x for k in range(K))
        elif name.startswith("multilabel"):
            pairs = [(r, s) for r in range(K) for s in range(K) if HAS[i, r] and not HAS[i, s]]
            loss = max([0.0, *(1 + w[s] @ x - w[r] @ x for r, s in pairs)])
        else:
            loss = sum(max(0.0, 1 - (1 if CODES[i] > j else -1) * (w @ x - b[j])) for j in range(K - 1))
        total += omega[i] * loss
    return float(LAM / 2 * np.vdot(w, w) + total / omega.sum())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("binary", RegularizedRisk.binary(X, SIGNS, LAM)),
        ("binary weights", RegularizedRisk.binary(X, SIGNS, LAM, bias=True, weights=OMEGA)),
        ("multiclass weights", RegularizedRisk.multiclass(X, CODES, LAM, cost=COST, weights=OMEGA)),
        ("multilabel", RegularizedRisk.multilabel(X, HAS, LAM)),
        ("multilabel weights", RegularizedRisk.multilabel(sp.csr_array(X), sp.csr_array(HAS), LAM, weights=OMEGA)),
        ("ordinal weights", RegularizedRisk.ordinal(X, CODES, LAM, weights=OMEGA)),
    ],
)
def test_the_objective_is_the_sum_written_out(name: str, problem: RegularizedRisk) -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        w, b = rng.normal(size=problem.shape), rng.normal(size=problem.n_biases)
        point = {"w": w, "b": b} if len(b) else {"w": w}
        assert problem.primal(problem.as_point(point)) == pytest.approx(written_out(name, w, b), rel=ROUNDING)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_map_its_transpose_and_the_matrix_agree(problem: RegularizedRisk) -> None:
    rng = np.random.default_rng(2)
    matrix: Any = problem.matrix()
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    w, alpha = rng.normal(size=problem.shape), rng.normal(size=problem.n_pieces)
    np.testing.assert_allclose(problem.forward(w), dense @ w.ravel(), atol=ROUNDING)
    np.testing.assert_allclose(problem.adjoint(alpha).ravel(), dense.T @ alpha, atol=ROUNDING)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_subgradient_touches_the_risk_and_lies_below_it_everywhere(problem: RegularizedRisk) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        w = rng.normal(size=problem.shape)
        plane = problem.subgradient(w)
        assert max(problem.dual_residuals({"alpha": plane.alpha}).values()) <= ROUNDING
        assert np.vdot(plane.a, w) + plane.b == pytest.approx(risk(problem, w), rel=ROUNDING, abs=ROUNDING)
        for _ in range(5):
            other = rng.normal(size=problem.shape) * rng.choice([0.1, 1.0, 10.0])
            assert np.vdot(plane.a, other) + plane.b <= risk(problem, other) + ROUNDING


def risk(problem: RegularizedRisk, w: Vector) -> float:
    return problem.value(w) - problem.lam / 2 * float(np.vdot(w, w))


@pytest.mark.parametrize("problem", [problem for problem in MADE.values() if problem.n_biases])
def test_the_best_bias_is_the_best_of_all_kinks(problem: RegularizedRisk) -> None:
    rng = np.random.default_rng(4)
    for w in (rng.normal(size=problem.shape), np.zeros(problem.shape)):  # at zero all kinks tie
        kinks = -problem.loss.bias_sign * problem.values(w)
        tried = [kinks[problem.loss.bias_of == j] for j in range(problem.n_biases)]
        if problem.n_biases == 1:
            best = min(problem.value(w, np.array(b)) for b in itertools.product(*tried))
        else:  # the offsets do not meet in any term: one at a time
            b = problem.best_bias(w)
            best = problem.value(w, b)
            for j, values in enumerate(tried):
                others = [np.where(np.arange(len(b)) == j, value, b) for value in values]
                best = min(best, *(problem.value(w, other) for other in others))
        assert problem.value(w) == pytest.approx(best, rel=ROUNDING)
