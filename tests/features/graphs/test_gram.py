"""Features from a Gram matrix: their inner products are the kernel's, on training inputs and on new ones."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.gram import factor, gram_features
from convexstruct.tolerances import HIGH, ROUNDING


def test_new_inputs_are_mapped_so_that_their_products_with_the_training_inputs_are_the_kernel() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))

    def kernel(a: Any, b: Any) -> Any:
        return np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(axis=2))

    found = gram_features(kernel(old, old), 6)
    np.testing.assert_allclose(found.map(kernel(new, old)) @ found.features.T, kernel(new, old), atol=HIGH.gap)


def test_kernel_values_of_new_inputs_need_a_column_for_each_training_input() -> None:
    with pytest.raises(ValueError, match=r"kernel has shape \(2, 2\), wanted \(n, 3\): one column an input"):
        gram_features(np.eye(3), 3).map(np.ones((2, 2)))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9))
def test_no_entry_is_off_by_more_than_was_said_to_be_dropped(seed: int, n: int, rank: int) -> None:
    """The rows have norms from 1e-140 to 1e140; inner products are computed in exact arithmetic."""
    rng = np.random.default_rng(seed)
    x = 10.0 ** rng.uniform(-140, 140, size=(n, 1)) * rng.normal(size=(n, rank))
    k = x @ x.T
    k = 0.5 * (k + k.T)
    found = factor(k)
    assert found.rows.shape == (n, min(n, rank))
    assert found.dropped <= ROUNDING
    near = 10.0 ** rng.uniform(-2, 2, size=(n, 1)) * rng.normal(size=(n, rank))
    features = gram_features(near @ near.T, n)  # those of the training inputs are mapped to themselves
    np.testing.assert_allclose(features.map(near @ near.T), features.features, atol=HIGH.gap * 100)
    exact = [[Fraction(entry) for entry in row] for row in found.rows.tolist()]
    for p in range(n):
        for q in range(n):
            off = abs(sum(a * b for a, b in zip(exact[p], exact[q])) - Fraction(float(k[p, q])))
            size = Fraction(float(np.sqrt(k[p, p]))) * Fraction(float(np.sqrt(k[q, q])))
            assert off <= (Fraction(found.dropped) + Fraction(n, 2**50)) * size


def test_a_small_block_that_is_no_kernel_is_refused_beside_a_large_one() -> None:
    """Its eigenvalue -100 is within rounding of the largest eigenvalue, 1e15, but not of the block's own rows."""
    k = np.array([[1e15, 0.0, 0.0], [0.0, 100.0, 200.0], [0.0, 200.0, 100.0]])
    with pytest.raises(ValueError, match=r"kernel\[.*\] is .*wanted a positive semidefinite matrix"):
        gram_features(k, 3)
