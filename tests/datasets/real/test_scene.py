"""Scenes: tiny arrays, and the real images where they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convexstruct.datasets import scene
from convexstruct.datasets.real.scene import SCENES, from_arrays


def tiny() -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    return {"X_test": rng.random((3, 294)), "y_test": np.eye(6, dtype=np.uint8)[[0, 5, 2]]}


def test_a_part_is_read_with_its_labels() -> None:
    scenes = from_arrays(tiny(), "test")
    np.testing.assert_array_equal(scenes.features, tiny()["X_test"])
    assert [SCENES[row.argmax()] for row in scenes.labels] == ["beach", "urban", "fall foliage"]
    assert scenes.labels.dtype == np.int64


def test_the_real_images_have_the_published_counts(present: Callable[[str], None]) -> None:
    present("scene")
    for part, n, counts in (
        ("train", 1211, [227, 165, 197, 196, 277, 224]),
        ("test", 1196, [200, 199, 200, 237, 256, 207]),
    ):
        scenes = scene(part)
        assert scenes.features.shape == (n, 294)
        assert scenes.labels.sum(axis=0).tolist() == counts
        assert scenes.labels.sum(axis=1).min() == 1


def test_some_images_keep_their_labels() -> None:
    scenes = from_arrays(tiny(), "test").some([2, 0])
    np.testing.assert_array_equal(scenes.features, tiny()["X_test"][[2, 0]])
    assert [SCENES[row.argmax()] for row in scenes.labels] == ["fall foliage", "beach"]


def test_a_node_sees_the_image_at_its_own_place_and_an_edge_its_pair() -> None:
    scenes, pairs = from_arrays(tiny(), "test"), np.array(list(combinations(range(6), 2)))
    g = scenes.graphs(pairs)
    nodes = g.node_features.toarray().reshape(3, 6, 6, 295)
    for i, k, other in np.ndindex(3, 6, 6):
        expected = np.append(scenes.features[i], 1.0) if k == other else np.zeros(295)
        np.testing.assert_array_equal(nodes[i, k, other], expected)
    assert g.edge_features is not None
    np.testing.assert_array_equal(g.edge_features, np.tile(np.eye(15), (3, 1)))
    assert all(np.array_equal(each, pairs) for each in g.edges_each)
