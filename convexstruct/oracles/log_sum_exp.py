"""ln of a sum of exponentials, without overflow; and what is said where no labelling has a finite score."""

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


def forbidding(scores: Tensor) -> Tensor:
    """-inf where a score forbids its labels, else 0. The greatest sum of these over all labellings is -inf where each
    is forbidden, and 0 where scores of one that is not overflow."""
    return np.where(np.isneginf(scores), scores, 0.0)


def no_finite_score(what: str, greatest: float) -> ValueError:
    """The error where no labelling of ``what`` has a finite score. greatest : as `forbidding` has it."""
    does = "forbid every labelling of" if np.isneginf(greatest) else "overflow on"
    return ValueError(f"scores {does} {what}, wanted at least one of finite score")
