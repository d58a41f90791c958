"""Features from a Gram matrix: their inner products are the kernel's, on training inputs and on new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.gram import gram_features
from convexstruct.tolerances import HIGH


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 8), st.sampled_from([1e-3, 1.0, 1e3]))
def test_inner_products_of_the_features_are_the_kernel_whatever_its_rank(
    seed: int, n: int, rank: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    x = scale * rng.normal(size=(n, rank))
    found = gram_features(x @ x.T, n)
    assert found.features.shape == (n, min(n, rank))
    slack = HIGH.gap * scale**2
    np.testing.assert_allclose(found.features @ found.features.T, x @ x.T, atol=slack)
    np.testing.assert_allclose(found.map(x @ x.T), found.features, atol=HIGH.gap * scale)


def test_new_inputs_are_mapped_so_that_their_products_with_the_training_inputs_are_the_kernel() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))

    def kernel(a: Any, b: Any) -> Any:
        return np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(axis=2))

    found = gram_features(kernel(old, old), 6)
    np.testing.assert_allclose(found.map(kernel(new, old)) @ found.features.T, kernel(new, old), atol=HIGH.gap)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (np.eye(2), r"kernel has shape \(2, 2\), wanted \(3, 3\): one row and column a node"),
        (np.ones(3), r"kernel has shape \(3,\), wanted \(3, 3\)"),
        (np.diag([1.0, np.nan, 1.0]), "kernel contains NaN or infinity"),
        (np.diag([1.0, np.inf, 1.0]), "kernel contains NaN or infinity"),
        (np.triu(np.ones((3, 3))), r"kernel is not symmetric, wanted K\[p, q\] = K\[q, p\]"),
        (np.ones((3, 3)) - np.eye(3), "kernel has the eigenvalue -1, wanted a positive semidefinite matrix"),
        (np.zeros((3, 3)), "kernel is zero, wanted at least one positive eigenvalue"),
        ([["a"] * 3] * 3, "kernel holds <U1, wanted real numbers"),
        (None, "kernel is None"),
    ],
)
def test_what_is_no_kernel_is_refused_in_one_sentence(kernel: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gram_features(kernel, 3)


def test_kernel_values_of_new_inputs_need_a_column_for_each_training_input() -> None:
    with pytest.raises(ValueError, match=r"kernel has shape \(2, 2\), wanted \(n, 3\): one column an input"):
        gram_features(np.eye(3), 3).map(np.ones((2, 2)))
