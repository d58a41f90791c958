"""The largest entries of rows and columns, whatever the shape."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.oracles.blocks import BLOCK, column_argmax, copy_by_columns, row_max


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 9), (3, 50), (300, 3), (BLOCK // 4, 5)])
def test_they_are_the_greatest_and_the_first_of_several(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(shape).integers(0, 9, size=shape).astype(float)
    values[values < 3.0] = -np.inf
    np.testing.assert_array_equal(row_max(values), values.max(axis=1))
    np.testing.assert_array_equal(column_argmax(values), values.argmax(axis=0))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 1), (3, 5000), (BLOCK, 2)])
def test_a_copy_by_columns_is_a_copy_in_either_order(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(shape).normal(size=shape)
    for given, out in ((values, np.zeros(shape[::-1]).T), (np.asfortranarray(values), np.zeros(shape))):
        copy_by_columns(given, out)
        np.testing.assert_array_equal(out, values)
