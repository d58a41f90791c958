"""What a user hands in, as an array of real numbers, or one sentence that says what came instead."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def real_array(name: str, value: Any) -> NDArray[np.float64]:
    """``value`` in double precision, of any shape; NaN and infinity are left to the caller.

    Raises
    ------
    ValueError
        If it is None, ragged, or holds anything but real numbers; ``name`` begins the sentence.
    """
    if value is None:
        raise ValueError(f"{name} is None, wanted an array of real numbers")
    try:
        array = np.asarray(value)
    except ValueError:  # rows of unequal lengths
        raise ValueError(f"{name} has rows of unequal lengths, wanted an array of real numbers") from None
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_) or np.iscomplexobj(array):
        raise ValueError(f"{name} holds {array.dtype}, wanted real numbers")
    return np.asarray(array, dtype=np.float64)
