"""What a user hands in: real numbers of any kind pass, anything else is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.features.reading import real_array


@pytest.mark.parametrize(
    "value", [[1, 2], (True, False), np.array([0.5], dtype=np.float32), [[1], [2]], 3, [], [np.nan, np.inf]]
)
def test_real_numbers_pass_in_double_precision(value: Any) -> None:
    read = real_array("x", value)
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, np.asarray(value, dtype=np.float64))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "x is None, wanted an array of real numbers"),
        ("a", "x holds <U1, wanted real numbers"),
        ([[1, 2], [3]], "x has rows of unequal lengths"),
        ([1j], "x holds complex128, wanted real numbers"),
        ([None], "x holds object, wanted real numbers"),
        ([{}], "x holds object, wanted real numbers"),
    ],
)
def test_anything_else_is_named(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        real_array("x", value)
