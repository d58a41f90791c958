"""The linear map of pieces that take few scores, against the products that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.arrays import Matrix
from convexstruct.families.regularized_risk.solvers.semismooth_newton.cells import Cells
from convexstruct.tolerances import ROUNDING

#: So many outputs that a piece of each of eight examples takes few of their scores.
N, D, K = 30, 4, 20


def some_pieces(seed: int, m: int = 8) -> tuple[Matrix, sp.csr_array]:
    """X, and M of m pieces, each the difference of two scores of an example of its own."""
    rng = np.random.default_rng(seed)
    pairs = np.array([np.sort(rng.choice(K, 2, replace=False)) for _ in range(m)])
    places = (np.sort(rng.choice(N, m, replace=False))[:, None] * K + pairs).ravel()
    combine = sp.csr_array((np.tile([1.0, -1.0], m), places, 2 * np.arange(m + 1)), shape=(m, N * K))
    return rng.normal(size=(N, D)), combine


@pytest.mark.parametrize("seed", range(3))
def test_products_are_those_with_all_scores(seed: int) -> None:
    X, combine = some_pieces(seed)
    rng = np.random.default_rng([seed, 1])
    w, alpha = rng.normal(size=K * D), rng.normal(size=combine.shape[0])
    found = Cells.of(X, combine, K)
    assert found is not None
    scores, part = X @ w.reshape(K, D).T, (combine.T @ alpha).reshape(N, K)
    kept = rng.random(found.ends[-1]) < 0.5
    there = np.zeros((N, K), dtype=bool)
    there[found.rows[kept], np.repeat(np.arange(K), np.diff(found.ends))[kept]] = True
    for cells, shown in ((found, np.ones_like(there)), (found.only(kept), there)):
        np.testing.assert_allclose(cells.forward(w), combine @ (scores * shown).ravel(), atol=ROUNDING)
        np.testing.assert_allclose(cells.adjoint(alpha), ((part * shown).T @ X).ravel(), atol=ROUNDING)


def test_rows_are_copied_where_that_is_a_gain_and_by_most_copied_of_the_cells_where_they_fit() -> None:
    """MOST_COPIED of the cells."""
    X, combine = some_pieces(0)
    assert Cells.of(X, combine[:0], K) is not None
    assert Cells.of(sp.csr_array(X), combine, K) is None
    assert Cells.of(X, sp.csr_array(sp.eye_array(N * K)), K) is None  # all scores
    assert Cells.of(np.broadcast_to(0.0, (N, 1 << 20)), combine, K) is None
