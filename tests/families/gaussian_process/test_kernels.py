"""Kernels by their formulas, and what Gram matrices are checked for."""

from __future__ import annotations

import numpy as np

from convexstruct.families.gaussian_process.kernels import Gram, Kernel, one_hot_windows
from convexstruct.tolerances import ROUNDING


def test_each_kernel_is_its_formula() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    inner = np.array([[a @ b for b in y] for a in x])
    squared = np.array([[(a - b) @ (a - b) for b in y] for a in x])
    assert np.allclose(Kernel("rbf", gamma=0.7)(x, y), np.exp(-0.7 * squared), rtol=ROUNDING)
    assert np.allclose(Kernel("linear", gamma=2.0, offset=0.5)(x, y), 2.0 * inner + 0.5, rtol=ROUNDING)
    cubic = Kernel("polynomial", gamma=2.0, offset=0.5, degree=3)
    assert np.allclose(cubic(x, y), (2.0 * inner + 0.5) ** 3, rtol=ROUNDING)


def test_a_matrix_that_is_symmetric_and_semidefinite_to_rounding_is_taken_and_made_symmetric() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    matrix = (rows @ rows.T) * (1.0 + 1e-13 * rng.normal(size=(40, 40)))
    assert np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0] < 0
    found = Gram(matrix).matrix
    assert np.array_equal(found, found.T)


def test_windows_count_the_places_where_they_agree() -> None:
    sequences = [np.array([0, 1, 1, 2]), np.array([1])]
    rows = np.concatenate(one_hot_windows(sequences, 3, 1))
    assert rows.shape == (5, 3 * 4)
    seen = np.array([[3, 0, 1], [0, 1, 1], [1, 1, 2], [1, 2, 3], [3, 1, 3]])
    agree = (seen[:, None] == seen).sum(axis=2)
    assert np.array_equal(rows @ rows.T, agree)
    assert np.allclose(Kernel("rbf", gamma=0.5)(rows, rows), np.exp(-(3.0 - agree)), rtol=ROUNDING)
