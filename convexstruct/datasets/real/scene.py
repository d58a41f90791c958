"""Scenes with several labels: M. Boutell, J. Luo, X. Shen, C. Brown, "Learning multi-label scene classification" 2004.

294 colour features in [0, 1] an image, and for each of six labels whether the image shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from convexstruct.arrays import Labels, Matrix
from convexstruct.brief import brief
from convexstruct.datasets.labelled import LabelledGraphs
from convexstruct.datasets.real.sources import PARTS, arrays_of_part, read_arrays
from convexstruct.validation.arguments import choice, sentence
from convexstruct.validation.arrays import chosen, real, wholes

#: The labels, in the order of the columns (that of the file which Mulan distributes).
SCENES = ("beach", "sunset", "fall foliage", "field", "mountain", "urban")
#: Numbers that describe an image: means and variances of its colours in 49 blocks.
N_FEATURES = 294


@dataclass(frozen=True)
class Scenes:
    """Images and what they show.

    features : (n, 294) in [0, 1]. labels : (n, 6) 0 or 1, columns named by `SCENES`.
    """

    features: Matrix
    labels: Labels

    __repr__ = brief

    def some(self, images: ArrayLike) -> Scenes:
        """Some of the images: their numbers, or a mask (n,); ValueError if they are neither."""
        wanted = chosen("images", images, len(self.labels))
        return Scenes(self.features[wanted], self.labels[wanted])

    def graphs(self, pairs: ArrayLike) -> LabelledGraphs:
        """The images as graphs of six nodes, a label each, with the same edges ``pairs`` (q, 2).

        Node features are those of the image and a constant, in the block of the label: (6 n, 6 * 295), sparse. Edge
        features are an indicator of the pair, (n q, q).
        """
        seen, edges = np.column_stack((self.features, np.ones(len(self.labels)))), np.asarray(pairs, dtype=np.intp)
        (n, k), width = self.labels.shape, N_FEATURES + 1
        columns = (width * np.tile(np.arange(k), n)[:, None] + np.arange(width)).ravel()
        nodes = sp.csr_array(
            (np.repeat(seen, k, axis=0).ravel(), columns, width * np.arange(n * k + 1)), shape=(n * k, k * width)
        )
        start = k * np.arange(n + 1)
        flat = (start[:-1, None, None] + edges).reshape(-1, 2)
        which = np.tile(np.eye(len(edges)), (n, 1)) if len(edges) else None
        return LabelledGraphs(nodes, flat, start, self.labels.ravel(), 2, which)


def from_arrays(arrays: Mapping[str, NDArray[Any]], part: str) -> Scenes:
    """The scenes of a part from the arrays of the stored file: ``X_train``, ``y_train``, ``X_test``, ``y_test``.
    ValueError if an array is missing, of another shape, or holds a value out of range."""
    read = arrays_of_part(arrays, part, ("X", "y"))
    features = real(f"X_{part}", read["X"], ("images", N_FEATURES), what="features", least=0)
    if (features > 1).any():
        raise sentence(f"X_{part} holds {features.max():g}, wanted features from 0 to 1")
    labels = wholes(f"y_{part}", read["y"], (len(features), len(SCENES)), least=0, most=1, why="six an image")
    return Scenes(features, labels)


def divided(seed: int, most: int | None = None) -> tuple[Scenes, Scenes, Scenes, Scenes]:
    """Training images, two random thirds and the last third of them to choose by, and test images.

    seed : draws the thirds. most : of the training images only so many, drawn too, and about as many test images.
    ValueError if the set is not here.
    """
    learning, test = scene("train"), scene("test")
    order = np.random.default_rng(seed).permutation(len(learning.labels))
    if most is not None:
        learning, order = learning.some(order[:most]), np.arange(most)
        test = test.some(np.arange(0, len(test.labels), max(1, len(test.labels) // most)))
    third = len(order) // 3
    return learning, learning.some(order[third:]), learning.some(order[:third]), test


def scene(part: str = "train") -> Scenes:
    """The 1,211 training or the 1,196 test images.

    Raises
    ------
    ValueError
        If ``part`` is neither "train" nor "test", or the set is not here (see `convexstruct.datasets.real.sources`).
    """
    choice("part", part, PARTS)
    return from_arrays(read_arrays("scene"), part)
