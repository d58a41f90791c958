"""Scenes with several labels: M. Boutell, J. Luo, X. Shen, C. Brown, "Learning multi-label scene classification" 2004.

294 colour features in [0, 1] an image, and for each of six labels whether the image shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convexstruct.datasets.real.sources import read_arrays
from convexstruct.validation.arguments import choice

#: The labels, in the order of the columns (that of the file which Mulan distributes).
SCENES = ("beach", "sunset", "fall foliage", "field", "mountain", "urban")
N_FEATURES = 294


@dataclass(frozen=True)
class Scenes:
    """Images and what they show.

    features : (n, 294) in [0, 1]. labels : (n, 6) 0 or 1, columns named by `SCENES`.
    """

    features: NDArray[np.float64]
    labels: NDArray[np.int64]


def from_arrays(arrays: Mapping[str, NDArray[Any]], part: str) -> Scenes:
    """The scenes of a part from the arrays of the stored file: ``X_train``, ``y_train``, ``X_test``, ``y_test``.

    Raises
    ------
    ValueError
        If an array is missing, of another shape, or holds a value out of range.
    """
    missing = {f"X_{part}", f"y_{part}"} - set(arrays)
    if missing:
        raise ValueError(f"the scenes lack the array {min(missing)!r}")
    features, labels = arrays[f"X_{part}"], arrays[f"y_{part}"]
    n = len(features)
    if n == 0 or features.shape != (n, N_FEATURES) or not ((features >= 0) & (features <= 1)).all():
        raise ValueError(f"X_{part} must be (images, 294) in [0, 1] with at least one image, got {features.shape}")
    if labels.shape != (n, len(SCENES)) or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"y_{part} must be ({n}, 6) of 0 and 1, got shape {labels.shape}")
    return Scenes(np.ascontiguousarray(features, dtype=np.float64), labels.astype(np.int64))


def scene(part: str = "train") -> Scenes:
    """The 1,211 training or the 1,196 test images.

    Raises
    ------
    ValueError
        If ``part`` is neither "train" nor "test", or the set is not here (see `convexstruct.datasets.real.sources`).
    """
    choice("part", part, ("train", "test"))
    return from_arrays(read_arrays("scene"), part)
