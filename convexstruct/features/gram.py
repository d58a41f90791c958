r"""Features from a Gram matrix: K = Phi Phi', so that every method that wants features serves a kernel too.

Phi = U sqrt(Lambda) from the eigenvalues of K above rounding. With w = sum_p a_p phi(x_p), new inputs enter through
k(x, x_p) alone: their features are k Phi Lambda^-1, exact on the span of the training inputs, where w lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from convexstruct.features.reading import real_array
from convexstruct.tolerances import ROUNDING

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GramFeatures:
    """features (P, r) with features features' = K, and what maps new inputs to the same space, (P, r)."""

    features: Vector
    inverse: Vector

    def map(self, kernel: ArrayLike) -> Vector:
        """Features (n, r) of new inputs from their kernel values (n, P) with the training inputs.

        Raises
        ------
        ValueError
            If the shape is wrong.
        """
        values = real_array("kernel", kernel)
        if values.ndim != 2 or values.shape[1] != len(self.features):
            raise ValueError(f"kernel has shape {values.shape}, wanted (n, {len(self.features)}): one column an input")
        return np.asarray(values @ self.inverse)


def gram_features(kernel: Any, n: int) -> GramFeatures:
    """Factor a Gram matrix.

    Raises
    ------
    ValueError
        If it is not (n, n), finite, symmetric, or positive semidefinite (its smallest eigenvalue is named).
    """
    matrix = real_array("kernel", kernel)
    if matrix.shape != (n, n):
        raise ValueError(f"kernel has shape {matrix.shape}, wanted ({n}, {n}): one row and column a node")
    if not np.isfinite(matrix).all():
        raise ValueError("kernel contains NaN or infinity, wanted finite numbers")
    size = float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > ROUNDING * max(size, 1e-300):
        raise ValueError("kernel is not symmetric, wanted K[p, q] = K[q, p]")
    values, vectors = scipy.linalg.eigh(0.5 * (matrix + matrix.T))
    if values[0] < -ROUNDING * n * max(size, 1e-300):
        raise ValueError(f"kernel has the eigenvalue {values[0]:g}, wanted a positive semidefinite matrix")
    kept = values > ROUNDING * max(float(values[-1]), 1e-300)
    if not kept.any():
        raise ValueError("kernel is zero, wanted at least one positive eigenvalue")
    root = np.sqrt(values[kept])
    return GramFeatures(np.ascontiguousarray(vectors[:, kept] * root), np.ascontiguousarray(vectors[:, kept] / root))
