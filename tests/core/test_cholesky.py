"""Solving by Cholesky: in blocks or at once, rows or columns first, with a ridge where rounding asks for one."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.arrays import Matrix
from convexstruct.core import cholesky
from convexstruct.core.cholesky import solver
from convexstruct.tolerances import ROUNDING


def definite(n: int = 70) -> Matrix:
    half = np.random.default_rng(0).normal(size=(n, n + 10))
    return half @ half.T + np.eye(n)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("block", [None, 1, 16, 70, 100])
def test_the_lower_triangle_alone_is_solved_with(
    order: str, block: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block is not None:
        monkeypatch.setattr(cholesky, "LARGE", 10)
        monkeypatch.setattr(cholesky, "BLOCK", block)
    matrix = definite()
    given = np.array(matrix, order=order)  # type: ignore[call-overload]  # "C" or "F"
    given[np.triu_indices(len(given), 1)] = np.nan
    solve = solver(given)
    for right in (np.arange(70.0), np.eye(70)[3]):
        np.testing.assert_allclose(matrix @ solve(right), right, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("large", [10, 2000])
def test_a_singular_matrix_gets_a_small_ridge(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cholesky, "LARGE", large)
    right = np.full(70, 7.0)  # in the range of the matrix
    np.testing.assert_allclose(np.ones((70, 70)) @ solver(np.ones((70, 70)))(right), right, rtol=1e-6)
    assert np.isfinite(solver(np.diag([1.0, 0.0]))(np.ones(2))).all()


def test_the_ridge_of_a_singular_matrix_leaves_variables_of_other_units_alone() -> None:
    """A ridge in proportion to the mean of the diagonal, here 7e17, would leave 1e-4 of the last variable."""
    matrix, units = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([1e9, 1e9, 1.0])
    solution = solver(matrix * units[:, None] * units)(np.array([1e9, 1e9, 1.0]))
    np.testing.assert_allclose(matrix @ (units * solution), np.ones(3), rtol=1e-6)
