"""The linear map of pieces that take few scores, against the products that it stands for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.arrays import Matrix
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers import cells, grouped_newton, risk_newton
from convexstruct.families.regularized_risk.solvers.cells import Cells
from convexstruct.families.regularized_risk.solvers.semismooth_newton import SemismoothNewton
from convexstruct.families.regularized_risk.solvers.smoothed_risk import SmoothedRisk
from convexstruct.tolerances import HIGH, ROUNDING

N, D, K = 30, 4, 6


def some_pieces(seed: int, m: int = 8) -> tuple[Matrix, sp.csr_array]:
    """X, and M of m pieces, each the difference of two scores of one of five examples."""
    rng = np.random.default_rng(seed)
    example = np.sort(rng.choice(5, m))
    pairs = np.array([rng.choice(K, 2, replace=False) for _ in range(m)])
    places = (example[:, None] * K + np.sort(pairs, axis=1)).ravel()
    combine = sp.csr_array((np.tile([1.0, -1.0], m), places, 2 * np.arange(m + 1)), shape=(m, N * K))
    return rng.normal(size=(N, D)), combine


@pytest.mark.parametrize("seed", range(5))
def test_products_are_those_with_all_scores(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "CELLS_SHARE", 1.0)
    X, combine = some_pieces(seed)
    rng = np.random.default_rng([seed, 1])
    w, alpha = rng.normal(size=K * D), rng.normal(size=combine.shape[0])
    found = Cells.of(X, combine, K)
    assert found is not None
    scores = X @ w.reshape(K, D).T
    np.testing.assert_allclose(found.forward(w), combine @ scores.ravel(), atol=ROUNDING)
    part = (combine.T @ alpha).reshape(N, K)
    np.testing.assert_allclose(found.adjoint(alpha), (part.T @ X).ravel(), atol=ROUNDING)
    kept = rng.random(found.ends[-1]) < 0.5
    there = np.zeros((N, K), dtype=bool)
    output = np.repeat(np.arange(K), np.diff(found.ends))
    there[found.rows[kept], output[kept]] = True
    fewer = found.only(kept)
    np.testing.assert_allclose(fewer.forward(w), combine @ (scores * there).ravel(), atol=ROUNDING)
    np.testing.assert_allclose(fewer.adjoint(alpha), ((part * there).T @ X).ravel(), atol=ROUNDING)


def test_without_any_cell_products_are_0() -> None:
    X, combine = some_pieces(0)
    found = Cells.of(X, combine[:0], K)
    assert found is not None
    assert found.forward(np.ones(K * D)).shape == (0,)
    assert not found.adjoint(np.zeros(0)).any()


def test_rows_are_not_copied_where_that_is_no_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    X, combine = some_pieces(0)
    assert Cells.of(sp.csr_array(X), combine, K) is None
    monkeypatch.setattr(cells, "CELLS_SHARE", 0.1)
    assert Cells.of(X, combine, K) is None
    monkeypatch.setattr(cells, "CELLS_SHARE", 1.0)
    monkeypatch.setattr(cells, "MOST_COPIED", 1)
    assert Cells.of(X, combine, K) is None


def test_one_block_for_all_outputs_is_that_of_the_means_of_their_weights() -> None:
    rng = np.random.default_rng(0)
    X, lam = rng.normal(size=(N, D)), 0.3
    squares = 0.5 + rng.random((N, K))
    solve = grouped_newton._blocks(X, squares.ravel(), K, lam)
    right = rng.normal(size=(K, D))
    block = lam * np.eye(D) + X.T @ (squares.mean(axis=1)[:, None] * X)
    np.testing.assert_allclose(solve(right.ravel()).reshape(K, D), np.linalg.solve(block, right.T).T, rtol=1e-6)


def test_products_of_newtons_matrix_are_those_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all scores are computed, and where rows of X are copied without the scores that have no curvature."""
    rng = np.random.default_rng(1)
    problem = RegularizedRisk.multiclass(rng.normal(size=(N, D)), np.arange(N) % K, 0.1)
    risk, tau = SmoothedRisk.whole(problem), 0.1
    v = risk.offset + risk.forward(0.05 * rng.normal(size=risk.dimension))
    now, _ = risk.at(np.zeros(risk.dimension), v / tau)
    free = np.flatnonzero(now.free)
    assert 0 < len(free) <= len(now.free) // 2  # so that the pieces that are not free are left out
    p = rng.normal(size=risk.dimension)
    wanted = risk.lam * p + grouped_newton.grouped_matrix(risk, now, free, tau) @ p
    for share in (0.0, 1.0):
        monkeypatch.setattr(cells, "CELLS_SHARE", share)
        times, _ = grouped_newton.grouped_product(risk, now, free, tau)
        np.testing.assert_allclose(times(p), wanted, rtol=1e-7)


def _outputs_problem(kind: str, X: Any) -> RegularizedRisk:
    y = np.arange(X.shape[0]) % K
    if kind == "multilabel":
        return RegularizedRisk.multilabel(X, np.eye(K)[y] + np.eye(K)[(y * y) % K] > 0, 0.1)
    return RegularizedRisk.multiclass(X, y, 0.1, weights=1.0 + y % 3)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_newtons_matrix_give_its_products_and_its_direction(kind: str, is_sparse: bool, seed: int) -> None:
    """B of pieces of several outputs: B'B is the matrix, B B' is what is factored, and both ways give one direction."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 20))
    risk, tau = SmoothedRisk.whole(_outputs_problem(kind, sp.csr_array(X) if is_sparse else X)), 0.1
    v = risk.offset + risk.forward(0.05 * rng.normal(size=risk.dimension))
    now, _ = risk.at(np.zeros(risk.dimension), v / tau)
    free = np.flatnonzero(now.free)
    assert risk.of_one_row
    assert 0 < len(free) <= risk_newton.OUTPUTS_SHARE * risk.dimension
    square, forward, adjoint = grouped_newton.grouped_rows(risk, now, free, tau)
    B = np.column_stack([forward(unit) for unit in np.eye(risk.dimension)])
    np.testing.assert_allclose(B @ B.T, square, atol=ROUNDING)
    np.testing.assert_allclose(B.T @ B, grouped_newton.grouped_matrix(risk, now, free, tau), atol=ROUNDING)
    np.testing.assert_allclose(np.column_stack([adjoint(unit) for unit in np.eye(len(free))]), B.T, atol=ROUNDING)
    directions = []
    for share in (1.0, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(risk_newton, "OUTPUTS_SHARE", share)
            factored = risk_newton._factored(risk, now, free, tau)
            assert factored is not None
            directions.append(factored[0](-now.slope_w))
    np.testing.assert_allclose(directions[0], directions[1], rtol=1e-7, atol=1e-10)


def test_rows_of_newtons_matrix_that_are_large_beside_lam_are_left_to_conjugate_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By OUTPUTS_TRACE. Three separable classes with features of 1e200 are then solved; without it one set of some
    twenty stalls, which one depends on the processor."""
    rng, y = np.random.default_rng(9), np.arange(12) % 3
    problem = RegularizedRisk.multiclass(1e200 * (np.eye(3)[y] + 0.1 * rng.normal(size=(12, 3))), y, 1e-2)
    assert solve(problem, SemismoothNewton(), HIGH).status is Status.OPTIMAL
    problem = _outputs_problem("multiclass", rng.normal(size=(N, 20)))
    problem = replace(problem, lam=1e-7)
    risk = SmoothedRisk.whole(problem)
    now, _ = risk.at(np.zeros(risk.dimension), risk.offset / 0.1)
    free = np.flatnonzero(now.free)[:10]
    for limit, is_used in ((1e10, True), (1e8, False)):
        monkeypatch.setattr(risk_newton, "OUTPUTS_TRACE", limit)
        assert (risk_newton._factored(risk, now, free, 0.1) is not None) == is_used


def test_pieces_of_several_rows_have_no_such_rows() -> None:
    X = np.random.default_rng(0).normal(size=(4, D))
    places = sp.csr_array((np.ones(2), [0, 2 * K], [0, 2]), shape=(1, 4 * K))
    whole = SmoothedRisk.whole(_outputs_problem("multiclass", X))
    assert whole.of_one_row
    assert not replace(whole, combine=places).of_one_row
    assert not replace(whole, combine=sp.csr_array((1, 4 * K))).of_one_row
