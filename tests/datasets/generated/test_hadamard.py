from __future__ import annotations

import numpy as np
import pytest

from convexstruct.datasets.generated.hadamard import hadamard
from convexstruct.tolerances import ROUNDING


def test_the_matrix_is_built_by_doubling() -> None:
    doubled = np.ones((1, 1))
    for k in range(6):
        np.testing.assert_allclose(hadamard(2**k), doubled / np.sqrt(2**k), rtol=ROUNDING)
        doubled = np.block([[doubled, doubled], [doubled, -doubled]])


def test_the_optimum_of_14_is_at_minus_the_sum_of_the_columns() -> None:
    """Every piece is active at w*, and 0 = lam w* + A 1/d lies in the subdifferential."""
    d, lam = 16, 0.3
    a = hadamard(d)
    w = -a.sum(axis=1) / (lam * d)
    np.testing.assert_allclose(a.T @ w, -1 / (lam * d), rtol=ROUNDING)
    value = 0.5 * lam * w @ w + (a.T @ w).max()
    assert value == pytest.approx(-1 / (2 * lam * d), rel=ROUNDING)
    rng = np.random.default_rng(0)
    for step in rng.normal(scale=0.1, size=(50, d)):
        assert 0.5 * lam * (w + step) @ (w + step) + (a.T @ (w + step)).max() > value
