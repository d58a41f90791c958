"""Labelled graphs as plain arrays, which structured loaders and generators return.

The nodes of all examples stand one after the other ("flat"): example i owns node_start[i] : node_start[i + 1], and
edges name flat nodes, example after example. Properties give the same as lists, one array an example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.brief import brief
from convexstruct.graphs import chain_pairs, ranges, starts
from convexstruct.validation.arguments import sentence, sized
from convexstruct.validation.arrays import chosen, wholes


@dataclass(frozen=True, eq=False)
class LabelledGraphs:
    """N graphs with P nodes and Q edges in all.

    node_features : (P, F), an array or a sparse csr_array.
    edges : (Q, 2) flat nodes (u, v) of each edge, example after example.
    node_start : (N + 1,) flat node at which each example begins; the last is P.
    labels : (P,) integers 0 .. n_labels - 1, the truth.
    n_labels : S.
    edge_features : (Q, E), or None where all edges are alike.
    planted : (d,) the weights from which the labels were drawn, node weights (S, F) and then one table (S, S) of edge
        weights in C order; None where there are none.
    """

    node_features: Any
    edges: Index
    node_start: Index
    labels: Labels
    n_labels: int
    edge_features: Matrix | None = None
    planted: Vector | None = None

    __repr__ = brief

    @property
    def n_examples(self) -> int:
        return len(self.node_start) - 1

    @property
    def edge_start(self) -> Index:
        """Edge at which each example begins; shape (N + 1,)."""
        example = np.repeat(np.arange(self.n_examples), np.diff(self.node_start))
        return np.searchsorted(example[self.edges[:, 0]], np.arange(self.n_examples + 1)).astype(np.intp)

    @property
    def labels_each(self) -> list[Labels]:
        """The labels of each example."""
        return np.split(self.labels, self.node_start[1:-1])

    @property
    def edges_each(self) -> list[Index]:
        """The edges (q_i, 2) of each example, its nodes counted from 0."""
        parts = np.split(self.edges, self.edge_start[1:-1])
        return [part - start for part, start in zip(parts, self.node_start)]

    @property
    def edge_features_each(self) -> list[Matrix] | None:
        """The edge features (q_i, E) of each example, None where all edges are alike."""
        return None if self.edge_features is None else np.split(self.edge_features, self.edge_start[1:-1])

    @property
    def arguments(self) -> dict[str, Any]:
        """What the readers of labelled graphs take, as ``StructuredSVM.read(**graphs.arguments)``; where no graph has
        an edge, edges are "none", and have no weights."""
        edges = {"edges": self.edges_each, "edge_features": self.edge_features_each}
        return {
            "node_features": self.node_features,
            "labels": self.labels_each,
            "n_labels": self.n_labels,
            **(edges if len(self.edges) else {"edges": "none"}),
        }

    def some(self, examples: ArrayLike) -> LabelledGraphs:
        """Some of the examples, in the order given (an example may come several times), or those of a mask (N,).

        Raises
        ------
        ValueError
            If ``examples`` are no numbers from 0 to N - 1, and no mask.
        """
        wanted = chosen("examples", examples, self.n_examples).astype(np.intp)
        node, node_start = ranges(self.node_start, wanted)
        edge, edge_start = ranges(self.edge_start, wanted)
        shift = np.repeat(node_start[:-1] - self.node_start[wanted], np.diff(edge_start))
        return LabelledGraphs(
            self.node_features[node],
            self.edges[edge] + shift[:, None],
            node_start,
            self.labels[node],
            self.n_labels,
            None if self.edge_features is None else self.edge_features[edge],
            self.planted,
        )


def chain_edges(node_start: Index) -> Index:
    """Edges (t, t + 1) of chains whose nodes stand in order; (Q, 2) flat nodes.

    node_start : (N + 1,) flat node at which each chain begins, and P.

    Raises
    ------
    ValueError
        If ``node_start`` does not begin with 0 and rise.
    """
    node_start = wholes("node_start", node_start, ("n",), least=0, what="flat nodes").astype(np.intp)
    if node_start[0] != 0 or len(node_start) < 2 or (np.diff(node_start) < 1).any():
        raise sentence("node_start does not rise from 0, wanted the node at which each example begins, and P last")
    sized("node_start", int(node_start[-1]), int(node_start[-1]))
    return chain_pairs(node_start)


def grid_edges(shapes: ArrayLike) -> tuple[Index, Index]:
    """Edges of grids of ``shapes`` (N, 2) heights and widths, whose nodes stand row by row.

    Returns
    -------
    edges (Q, 2), grid after grid, in each first the horizontal ones (left, right), then the vertical ones
    (upper, lower); direction (Q,): 0 for horizontal, 1 for vertical.
    """
    height, width = _sides(shapes).T
    grid, row, column = places(shapes)
    right = np.flatnonzero(column < width[grid] - 1)
    down = np.flatnonzero(row < height[grid] - 1)
    heads = np.concatenate((right, down))
    tails = np.concatenate((right + 1, down + width[grid[down]]))
    order = np.argsort(grid[heads], kind="stable")
    direction = np.repeat([0, 1], [len(right), len(down)])
    return np.column_stack((heads, tails))[order].astype(np.intp), direction[order].astype(np.intp)


def _sides(shapes: ArrayLike) -> Index:
    """Heights and widths (N, 2) of grids; ValueError if they are none."""
    sides = wholes("shapes", shapes, ("n", 2), (2,), least=1, what="heights and widths").reshape(-1, 2)
    cells = int(sides.astype(object).prod(axis=1).sum())
    sized("shapes", cells, cells)
    return sides.astype(np.intp)


def places(shapes: ArrayLike) -> tuple[Index, Index, Index]:
    """Grid, row and column of each node of grids of ``shapes`` (N, 2), whose nodes stand row by row; each (P,)."""
    sizes = _sides(shapes)
    cells = sizes.prod(axis=1)
    grid = np.repeat(np.arange(len(sizes)), cells)
    inside = np.arange(len(grid)) - starts(cells)[grid]
    return grid.astype(np.intp), inside // sizes[grid, 1], inside % sizes[grid, 1]
