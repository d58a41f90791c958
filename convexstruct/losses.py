"""Decomposable losses: a cost for each pair (true label, predicted label), summed over hidden variables.

A loss is a square array ``cost[true, predicted]``, non-negative, zero on the diagonal. The loss of a labelling is the
sum over its hidden positions, so loss-augmented decoding is decoding with other node scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def hamming(n_labels: int) -> NDArray[np.float64]:
    """cost[y, z] = [y != z]; shape (n_labels, n_labels)."""
    return np.asarray(1.0 - np.eye(n_labels))


def ring(n_labels: int) -> NDArray[np.float64]:
    """cost[y, z] = steps between y and z along a ring of ``n_labels`` places (paper 0, section 4)."""
    apart = np.abs(np.subtract.outer(np.arange(n_labels), np.arange(n_labels)))
    return np.asarray(np.minimum(apart, n_labels - apart), dtype=np.float64)


def named(name: str, n_labels: int) -> NDArray[np.float64]:
    """The loss called ``name`` ("hamming" or "ring") on ``n_labels`` labels."""
    known = {"hamming": hamming, "ring": ring}
    if name not in known:
        raise ValueError(f"loss must be one of {', '.join(known)} or a cost matrix, got {name!r}")
    return known[name](n_labels)


def cost_matrix(cost: ArrayLike | str, n_labels: int) -> NDArray[np.float64]:
    """Validate a cost matrix, or make the one called by name.

    Raises
    ------
    ValueError
        If the matrix is not (n_labels, n_labels), not finite, negative, or not zero on the truth.
    """
    if isinstance(cost, str):
        return named(cost, n_labels)
    matrix = np.array(cost, dtype=np.float64)
    if matrix.shape != (n_labels, n_labels):
        raise ValueError(f"loss has shape {matrix.shape}, wanted ({n_labels}, {n_labels}): cost[true, predicted]")
    if not np.isfinite(matrix).all():
        raise ValueError("loss contains NaN or infinity, wanted finite costs")
    if (matrix < 0).any():
        raise ValueError(f"loss contains a negative cost ({matrix.min():g}), wanted non-negative costs")
    if np.diag(matrix).any():
        label = int(np.flatnonzero(np.diag(matrix))[0])
        raise ValueError(f"loss of label {label} on itself is {matrix[label, label]:g}, wanted 0 on the truth")
    return matrix
