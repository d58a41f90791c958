"""Newton's matrix of groups: its products, rows and preconditioner, against the derivative of the projection."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.families.regularized_risk.solvers.semismooth_newton import groups
from convexstruct.families.regularized_risk.solvers.semismooth_newton.cells import Cells
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import SmoothedRisk
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.regularized_risk.solvers.semismooth_newton.instances import (
    at_some_point,
    outputs_problem,
    random_problem,
)

pytestmark = pytest.mark.usefixtures("written_out")


@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "two classes", "pieces"])
def test_products_and_the_preconditioner_of_groups_are_those_of_the_matrix(kind: str) -> None:
    problem = random_problem(kind, 20, 3, 0.05, 1.0, 6)
    risk, w, _, a, tau = at_some_point(problem, 2)
    now, _ = risk.at(w, a + (risk.forward(w) + risk.offset) / tau)
    free = np.flatnonzero(now.free)
    times, precondition = groups.grouped_product(risk, now, free, tau)
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


def test_products_by_few_of_the_scores_are_those_of_the_matrix() -> None:
    """Rows of X are copied for the scores that free pieces take, without those that have no curvature."""
    rng, k = np.random.default_rng(1), 20
    risk, tau = SmoothedRisk.whole(outputs_problem("multiclass", rng.normal(size=(60, 4)), k)), 0.05
    v = risk.offset + risk.forward(0.05 * rng.normal(size=risk.dimension))
    now, _ = risk.at(np.zeros(risk.dimension), v / tau)
    free = np.flatnonzero(now.free)
    assert risk.combine is not None
    few = risk.combine[free]
    assert Cells.of(risk.X, few, k) is not None
    assert Cells.of(sp.csr_array(risk.X), few, k) is None
    assert Cells.of(np.broadcast_to(0.0, (60, 1 << 20)), few, k) is None  # by MOST_COPIED of the cells
    times, precondition = groups.grouped_product(risk, now, free, tau)
    matrix = risk.lam * np.eye(risk.dimension) + groups.grouped_matrix(risk, now, free, tau)
    p = rng.normal(size=risk.dimension)
    np.testing.assert_allclose(times(p), matrix @ p, rtol=1e-7)
    blocks = np.kron(np.eye(k), np.ones((4, 4))) * matrix
    np.testing.assert_allclose(precondition(blocks @ p), p, atol=HIGH.gap)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_rows_of_newtons_matrix_give_its_products(kind: str, is_sparse: bool) -> None:
    """B of pieces of several outputs: B'B is the matrix, B B' is what is factored."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 20))
    risk, tau = SmoothedRisk.whole(outputs_problem(kind, sp.csr_array(X) if is_sparse else X)), 0.1
    v = risk.offset + risk.forward(0.05 * rng.normal(size=risk.dimension))
    now, _ = risk.at(np.zeros(risk.dimension), v / tau)
    free = np.flatnonzero(now.free)
    assert 0 < len(free) <= risk.dimension
    square, forward, adjoint = groups.grouped_rows(risk, now, free, tau)
    B = np.column_stack([forward(unit) for unit in np.eye(risk.dimension)])
    np.testing.assert_allclose(B @ B.T, square, atol=ROUNDING)
    np.testing.assert_allclose(B.T @ B, groups.grouped_matrix(risk, now, free, tau), atol=ROUNDING)
    np.testing.assert_allclose(np.column_stack([adjoint(unit) for unit in np.eye(len(free))]), B.T, atol=ROUNDING)
