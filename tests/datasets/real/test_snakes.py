"""Snakes: tiny images written out by hand, and the real ones where they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.datasets import snakes
from convexstruct.datasets.real.snakes import COLOURS, N_LABELS, Snakes, from_arrays

BACKGROUND, UP, RIGHT, DOWN, LEFT = range(5)
STEPS = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}


def tiny() -> dict[str, NDArray[Any]]:
    """A 2 x 3 image, in it a snake of three cells, and a single cell of background."""
    colours = [RIGHT, DOWN, BACKGROUND, BACKGROUND, LEFT, BACKGROUND, BACKGROUND]
    return {
        "shape_train": np.array([[2, 3], [1, 1]], dtype=np.int32),
        "X_train": np.array(list(COLOURS.values()), dtype=np.uint8)[colours],
        "Y_train": np.array([1, 2, 0, 0, 3, 0, 0], dtype=np.uint8),
    }


def test_images_are_read_row_by_row() -> None:
    images = from_arrays(tiny(), "train")
    assert images.n_images == 2
    assert images.node_start.tolist() == [0, 6, 7]
    np.testing.assert_array_equal(images.pixels, tiny()["X_train"])
    pixels, labels = images.picture(0)
    assert labels.tolist() == [[1, 2, 0], [0, 3, 0]]
    assert pixels[0, 1].tolist() == [0, 255, 0]
    assert images.picture(1)[0].shape == (1, 1, 3)
    follow(images, 0, 3)


def test_a_neighbourhood_holds_nine_colours_and_background_outside() -> None:
    features = from_arrays(tiny(), "train").neighbourhoods()
    assert features.shape == (7, 45)
    colours = features.reshape(7, 9, 5).argmax(axis=2)
    assert (features.reshape(7, 9, 5).sum(axis=2) == 1).all()
    assert colours[0].reshape(3, 3).tolist() == [[0, 0, 0], [0, RIGHT, DOWN], [0, BACKGROUND, LEFT]]
    assert colours[5].reshape(3, 3).tolist() == [[DOWN, BACKGROUND, 0], [LEFT, BACKGROUND, 0], [0, 0, 0]]
    assert colours[6].tolist() == [BACKGROUND] * 9


def test_edge_features_say_direction_and_what_both_ends_look_like() -> None:
    images = from_arrays(tiny(), "train")
    directions, colours, around = (images.graphs(kind) for kind in ("directions", "colours", "neighbourhoods"))
    edges = [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
    for graphs in (directions, colours, around):
        assert graphs.edges.tolist() == edges
        assert graphs.n_labels == N_LABELS
    assert directions.edge_features is not None
    assert directions.edge_features.argmax(axis=1).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert colours.edge_features is not None
    seen = colours.edge_features.reshape(7, 2, 2, 5)  # edge, direction, end, colour
    assert seen[0].nonzero()[0].tolist() == [0, 0]
    assert seen[0, 0].argmax(axis=1).tolist() == [RIGHT, DOWN]
    assert seen[5].nonzero()[0].tolist() == [1, 1]
    assert seen[5, 1].argmax(axis=1).tolist() == [DOWN, LEFT]
    assert around.edge_features is not None
    seen = around.edge_features.reshape(7, 2, 2, 45)
    np.testing.assert_array_equal(seen[5, 1], around.node_features[[1, 4]])
    assert not seen[5, 0].any()


def follow(images: Snakes, i: int, length: int) -> None:
    """The colours of image i lead from each cell of the snake to the next."""
    pixels, labels = images.picture(i)
    named = {rgb: number for number, rgb in enumerate(COLOURS.values())}
    assert np.bincount(labels.ravel(), minlength=length + 1)[1:].tolist() == [1] * length
    cells = [np.argwhere(labels == place)[0] for place in range(1, length + 1)]
    for here, there in pairwise(cells):
        step = STEPS[named[tuple(pixels[tuple(here)].tolist())]]
        assert (here + step).tolist() == there.tolist()


def test_some_images_keep_their_cells() -> None:
    images = from_arrays(tiny(), "train").some([1, 0])
    assert images.shapes.tolist() == [[1, 1], [2, 3]]
    assert images.labels.tolist() == [0, 1, 2, 0, 0, 3, 0]
    assert images.some([False, True]).picture(0)[1].tolist() == [[1, 2, 0], [0, 3, 0]]
    with pytest.raises(ValueError, match="images"):
        images.some([2])


def test_the_real_snakes_follow_their_colours(present: Callable[[str], None]) -> None:
    present("snakes")
    for part, n, cells in (("train", 200, 7566), ("test", 100, 3750)):
        images = snakes(part)
        assert (images.n_images, len(images.labels)) == (n, cells)
        for i in range(n):
            follow(images, i, 10)
        np.testing.assert_array_equal(images.colours == BACKGROUND, images.labels == 0)
