"""Semismooth Newton on groups of several pieces, and where features differ much in size, against a conic solver; and
its matrix-free products against the derivative of the projection."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers import grouped_newton, risk_newton
from convexstruct.families.regularized_risk.solvers.semismooth_newton import SemismoothNewton
from convexstruct.families.regularized_risk.solvers.smoothed_risk import SmoothedRisk
from convexstruct.models.regularized_risk.risk import primal
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.regularized_risk.solvers.test_semismooth_newton import at_some_point, random_problem
from tests.reference import optimum


def scaled_columns(kind: str, seed: int) -> RegularizedRisk:
    """A small problem whose columns differ in size, by a factor of 2e4 (multiclass) or 2e10."""
    rng = np.random.default_rng(seed)
    n, d = (5, 6) if kind == "multiclass" else (int(rng.integers(5, 20)), int(rng.integers(3, 8)))
    X = rng.normal(size=(n, d)) * np.geomspace(1e-2, 2e2, d)
    lam = float(10.0 ** rng.integers(-6, 0))
    if kind == "multiclass":
        return RegularizedRisk.multiclass(X, np.arange(n) % 3, lam)
    X = X * np.geomspace(1e-3, 1e3, d)
    if kind == "multilabel":
        return RegularizedRisk.multilabel(X, rng.random((n, 4)) < 0.4, lam)
    return RegularizedRisk.pieces(X, rng.normal(size=n), lam, np.arange(n) // 3)


@pytest.mark.parametrize(("kind", "seed"), [("multiclass", 0), ("multilabel", 46), ("pieces", 5), ("pieces", 42)])
def test_columns_of_very_different_sizes_are_certified_as_the_conic_solver_has_them(kind: str, seed: int) -> None:
    """The last three ended as STALLED or INACCURATE where the ridge of a matrix was relative to its largest entries,
    sums of a projection were off by the rounding of large scores, or the pieces' values were summed without end."""
    problem = scaled_columns(kind, seed)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL, found
    assert found.primal == pytest.approx(optimum(primal(problem)).value, rel=10 * HIGH.gap)


def test_certificates_made_during_a_run_do_not_change_what_the_solver_computes_with() -> None:
    """SciPy sorts the rows of a sparse matrix in place: an unsorted one changed under the solver, which shared its data
    and claimed 0.70 as the upper bound of an optimum of 0.83."""
    problem = random_problem("multiclass", 30, 4, 0.01, 1.0, 2)
    for iterate in islice(SemismoothNewton().iterate(problem), 20):
        assert callable(iterate.dual_point)
        certify(problem, iterate.point, iterate.dual_point())
        assert iterate.primal == pytest.approx(problem.value(iterate.point["w"]), rel=ROUNDING)


@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "two classes", "pieces"])
def test_products_and_the_preconditioner_of_groups_are_those_of_the_matrix(kind: str) -> None:
    problem = random_problem(kind, 20, 3, 0.05, 1.0, 6)
    risk, w, _, a, tau = at_some_point(problem, 2)
    now, _ = risk.at(w, a + (risk.forward(w) + risk.offset) / tau)
    free = np.flatnonzero(now.free)
    times, precondition = grouped_newton.grouped_product(risk, now, free, tau)
    matrix = np.column_stack([times(e) for e in np.eye(risk.dimension)])
    bend = np.column_stack([
        risk.lam * e + risk.adjoint(risk.share / tau * risk.derivative(now.free, now.tight, risk.forward(e)))
        for e in np.eye(risk.dimension)
    ])  # fmt: skip
    np.testing.assert_allclose(matrix, bend, atol=ROUNDING * np.abs(bend).max())
    if kind == "pieces":  # rows of X that share a group are left out of its diagonal
        return
    d, k = problem.X.shape[1], risk.n_outputs
    own = np.kron(np.eye(k), np.ones((d, d))) if k > 1 and not sp.issparse(problem.X) else np.eye(risk.dimension)
    blocks = np.column_stack([precondition(e) for e in (own * bend).T])
    np.testing.assert_allclose(blocks, np.eye(risk.dimension), atol=HIGH.gap)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("C", [1e6, 1e8])
def test_two_separable_classes_take_few_rounds_as_a_multiclass_problem_too(seed: int, C: float) -> None:
    """It is the binary problem at w_1 = -w_0 = w/2, so that its optimum is half as large."""
    rng = np.random.default_rng(seed)
    n, d = [(40, 3), (200, 10), (100, 5), (60, 2)][seed]
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) > 0
    found = solve(RegularizedRisk.multiclass(X, y, 1 / (C * n)), SemismoothNewton(), HIGH)
    binary = solve(RegularizedRisk.binary(X, y, 1 / (C * n)), SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(0.5 * binary.primal, rel=2 * HIGH.gap)
    assert found.iterations <= 60


@pytest.mark.parametrize("sparse", [False, True])
def test_a_bias_that_cancels_against_w_in_every_free_row_does_not_hold_up_a_separable_set(sparse: bool) -> None:
    """More features than examples, labels mostly noise: with a residual of b in the stopping rule of conjugate
    gradients, 2000 rounds were left at a gap of 3e-4."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1000))
    y = np.sign(X @ rng.normal(size=1000) + 30 * rng.normal(size=200))
    problem = RegularizedRisk.binary(sp.csr_array(X) if sparse else X, y, 1 / 200, bias=True)
    found = solve(problem, SemismoothNewton(), HIGH, max_iterations=60)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(optimum(primal(problem)).value, rel=HIGH.gap)


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
    found, _ = risk_newton._conjugate_gradients(risk, now, tau, free, risk_newton.Effort())
    rows, factor = risk_newton._rows(risk, free)
    weight = risk.share[free] * factor**2 / tau
    residual = risk.lam * found + rows.T @ (weight * (rows @ found)) + now.slope_w
    inverse = 1.0 / (risk.lam + (rows * rows).T @ weight)
    start = float(now.slope_w @ (inverse * now.slope_w))
    assert len(free) == n
    assert 0.0 < float(residual @ (inverse * residual)) <= 1.01 * risk_newton.RESIDUAL_FALL**2 * start
