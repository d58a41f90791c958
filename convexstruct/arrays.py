"""Names of the array types in signatures. A name tells the reader the number of axes; mypy checks the dtype alone.

Vector : (n,) floats. Matrix : (n, m) floats. Tensor : floats with three axes or more, or with as many as the caller
passes.
Labels : whole numbers that name a value, 0 .. S - 1. Index : whole numbers that point into another array. Flags : truth
values. These three may have any number of axes.
Point : arrays by the names that a problem gives them, e.g. ``{"theta": ...}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Tensor = NDArray[np.float64]
Labels = NDArray[np.int64]
Index = NDArray[np.intp]
Flags = NDArray[np.bool_]
Point = Mapping[str, NDArray[Any]]

#: The metadata of a dataclass field that is no part of the data, nor of exported files, where it is None.
OPTIONAL = {"optional": True}
#: The metadata of a dataclass field that bounds the rounding of others: machines differ in all of its digits.
ROUNDING_BOUND = {"rounding": True}
