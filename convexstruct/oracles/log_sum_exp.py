"""ln of a sum of exponentials, without overflow."""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Tensor


def log_sum_exp(table: Tensor, axis: int | tuple[int, ...] = 2) -> Tensor:
    """ln of the sum of e^table along one axis or several; -inf where all entries are."""
    top = table.max(axis=axis)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(safe + np.log(np.exp(table - np.expand_dims(safe, axis)).sum(axis=axis)))
