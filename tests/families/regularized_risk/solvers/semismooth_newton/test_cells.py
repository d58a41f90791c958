"""The linear map of pieces that take few scores, against the products that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.arrays import Matrix
from convexstruct.families.regularized_risk.solvers.semismooth_newton import (
    cells,
)
from convexstruct.families.regularized_risk.solvers.semismooth_newton.cells import Cells
from convexstruct.tolerances import ROUNDING

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
