"""ln of a sum of exponentials, without overflow."""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Tensor


def log_sum_exp(table: Tensor, axis: int | tuple[int, ...] = 2) -> Tensor:
    """ln of the sum of e^table along one axis or several; -inf where all entries are."""
    top = table.max(axis=axis, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        log = np.log(np.exp(table - safe).sum(axis=axis))
    return np.asarray(safe.reshape(log.shape) + log)
