"""Newton's directions against finite differences and against each other; the limits of each way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.semismooth_newton import direction
from convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_point import SemismoothNewton
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import SmoothedRisk
from convexstruct.tolerances import DERIVATIVE, HIGH
from tests.families.regularized_risk.solvers.semismooth_newton.instances import (
    KINDS,
    at_some_point,
    random_problem,
)
from tests.models.regularized_risk.risks import INSTANCES

TINY = 1e-10
pytestmark = pytest.mark.usefixtures("written_out")


def smoothed(risk: SmoothedRisk, w: Vector, b: Vector, a0: Vector, tau: float) -> float:
    """F from its definition."""
    v = risk.forward(w) + risk.offset + risk.lift(b)
    a = risk.maximiser(a0 + v / tau)[0]
    value = float(risk.share @ (v * a - 0.5 * tau * (a - a0) ** 2))
    linear = float(risk.fixed @ w) + float(risk.fixed_b @ b) + risk.constant
    return 0.5 * risk.lam * float(w @ w) + value + linear


@pytest.mark.parametrize("name", INSTANCES)
def test_the_gradient_and_the_direction_are_those_of_finite_differences(name: str) -> None:
    problem = INSTANCES[name]()
    risk, w, b, a, tau = at_some_point(problem, 1)
    if problem.n_pieces > 6:  # what is held adds linear terms
        moving = (np.arange(problem.loss.n_groups) % 3 > 0)[problem.group]
        risk, pieces = risk.restrict(moving, a, risk.adjoint(risk.share * a) + risk.fixed)
        a = a[pieces]

    def slope(x: Vector) -> Vector:
        now, _ = risk.at(x[: len(w)], a + (risk.forward(x[: len(w)]) + risk.offset + risk.lift(x[len(w) :])) / tau)
        return np.concatenate((now.slope_w, now.slope_b))

    x = np.concatenate((w, b))
    steps = 1e-6 * np.eye(len(x))
    d = len(w)
    rise = np.array([smoothed(risk, w + e[:d], b + e[d:], a, tau) for e in steps])
    fall = np.array([smoothed(risk, w - e[:d], b - e[d:], a, tau) for e in steps])
    np.testing.assert_allclose((rise - fall) / 2e-6, slope(x), atol=DERIVATIVE)
    bend = np.array([(slope(x + e) - slope(x - e)) / 2e-6 for e in steps])
    now, _ = risk.at(w, a + (risk.forward(w) + risk.offset + risk.lift(b)) / tau)
    found = np.concatenate(direction.direction(risk, now, tau, direction.Effort(expected=1e9)))
    np.testing.assert_allclose(bend @ found, -slope(x), atol=1e-2 * DERIVATIVE * (1 + np.abs(found).max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [3, 30])
def test_all_ways_to_a_direction_agree(kind: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(kind, 20, d, 0.05, 1.0, 6)
    risk, w, b, a, tau = at_some_point(problem, 2)
    now, _ = risk.at(w, a + (risk.forward(w) + risk.offset + risk.lift(b)) / tau)
    monkeypatch.setattr(direction, "RESIDUAL_FALL", TINY)
    first = np.concatenate(direction.direction(risk, now, tau, direction.Effort(1e9)))
    monkeypatch.setattr(direction, "LARGEST_MATRIX", 10)  # at 30 features neither the matrix nor its dual is formed
    for expected in (0.0, 1e9):
        other = np.concatenate(direction.direction(risk, now, tau, direction.Effort(expected)))
        np.testing.assert_allclose(other, first, atol=1e-6 * (1 + np.abs(first).max()))


def test_an_offset_of_which_no_piece_moves_has_a_direction() -> None:
    """By a matrix and by conjugate gradients; without RIDGE the one is singular, and the other divides by 0."""
    rng = np.random.default_rng(0)
    risk = SmoothedRisk.whole(RegularizedRisk.binary(rng.normal(size=(30, 4)), np.arange(30) % 2, 0.1, bias=True))
    now, _ = risk.at(np.zeros(4), np.full(30, 0.5))
    held = replace(now, free=np.zeros(30, dtype=bool))
    for expected in (1e9, 0.0):
        s_w, s_b = direction.direction(risk, held, 1e-3, direction.Effort(expected))
        np.testing.assert_allclose(s_w, -held.slope_w / risk.lam)
        assert np.isfinite(s_b).all()


def test_the_direction_of_many_weights_solves_the_equation_of_newton() -> None:
    """Above 2^15 weights NumPy may write a product over a factor that nothing else names: the preconditioner once."""
    n, d = 400, 60_000
    rng = np.random.default_rng(0)
    X = sp.random_array((n, d), density=1e-3, format="csr", rng=rng)
    X = sp.csr_array(sp.hstack((X[:, : d - 20], 10.0 * rng.random((n, 20)))))
    problem = RegularizedRisk.binary(X, np.where(rng.random(n) < 0.5, 1.0, -1.0), 1e-3)
    risk, tau = SmoothedRisk.whole(problem), 1.0
    now, _ = risk.at(np.zeros(d), rng.random(n))  # every piece is free
    free = np.flatnonzero(now.free)
    found, _ = direction._conjugate_gradients(risk, now, tau, free, direction.Effort())
    rows, factor = direction._rows(risk, free)
    weight = risk.share[free] * factor**2 / tau
    residual = risk.lam * found + rows.T @ (weight * (rows @ found)) + now.slope_w
    inverse = 1.0 / (risk.lam + (rows * rows).T @ weight)
    start = float(now.slope_w @ (inverse * now.slope_w))
    assert len(free) == n
    assert 0.0 < float(residual @ (inverse * residual)) <= 1.01 * direction.RESIDUAL_FALL**2 * start


def test_rows_of_newtons_matrix_that_are_large_beside_lam_are_left_to_conjugate_gradients() -> None:
    """By OUTPUTS_TRACE of the direction: without it one set of some twenty stalls, which one depends on the
    processor."""
    rng, y = np.random.default_rng(9), np.arange(12) % 3
    problem = RegularizedRisk.multiclass(1e200 * (np.eye(3)[y] + 0.1 * rng.normal(size=(12, 3))), y, 1e-2)
    assert solve(problem, SemismoothNewton(), HIGH).status is Status.OPTIMAL
