"""The multipliers of the diagonal, on matrices made from known optimal ones."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.unsupervised_margin.solvers.diagonal import best_diagonal
from convexstruct.tolerances import HIGH, ROUNDING


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_the_sum_is_least_where_a_matrix_of_diagonal_1_attains_it(seed: int, size: float) -> None:
    """A = Diag(y) - Z with Z V = 0: <A, VV'> = 1'y for V with rows of length 1, so no other y is smaller."""
    rng = np.random.default_rng(seed)
    n, rank = 12, 3
    v = rng.normal(size=(n, rank))
    v /= np.linalg.norm(v, axis=1)[:, None]
    rest = np.linalg.qr(v, mode="complete")[0][:, rank:]
    y = size * rng.normal(size=n)
    costs = np.diag(y) - size * (rest * rng.uniform(0.1, 1.0, size=n - rank)) @ rest.T
    found = best_diagonal(costs, y + size * rng.normal(size=n))
    scale = size * n
    assert float(np.linalg.eigvalsh(np.diag(found) - costs)[0]) >= -ROUNDING * scale
    assert -ROUNDING * scale <= float(found.sum() - y.sum()) <= HIGH.gap * scale


def test_without_costs_or_with_what_is_not_finite_the_start_is_kept() -> None:
    y = np.arange(3.0)
    np.testing.assert_array_equal(best_diagonal(np.zeros((3, 3)), y), y)
    np.testing.assert_array_equal(best_diagonal(np.full((3, 3), np.inf), y), y)
    assert best_diagonal(np.zeros((0, 0)), np.zeros(0)).shape == (0,)
