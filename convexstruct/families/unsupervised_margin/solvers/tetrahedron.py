"""Projection onto the tetrahedron of (11), with the corners (0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1).

Its faces are c = 0, c = a, c = b and c = a + b - 1. A point beyond a face whose foot on the plane of that face belongs
to the tetrahedron has its projection there: this holds for most of those that ADMM projects. The others have it on the
nearest of the six edges.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Matrix, Vector


def project_tetrahedron(points: Matrix) -> Matrix:
    """The nearest point of the tetrahedron to each column (a, b, c) of ``points`` (3, m)."""
    a, b, c = points
    found = points.copy()
    beyond = (c < 0.0, c > a, c > b, c < a + b - 1.0)
    left = beyond[0] | beyond[1] | beyond[2] | beyond[3]
    for outside, foot in zip(beyond, (_on_floor, _on_first, _on_second, _on_last)):
        at = np.flatnonzero(outside)
        feet, slacks = foot(a[at], b[at], c[at])
        inside = (slacks[0] >= 0.0) & (slacks[1] >= 0.0) & (slacks[2] >= 0.0)
        at = at[inside]
        for target, values in zip(found, feet):
            target[at] = values[inside]
        left[at] = False
    at = np.flatnonzero(left)
    found[:, at] = _nearest_on_edges(a[at], b[at], c[at])
    return found


#: Three coordinates, or the slacks of three faces.
Triple = tuple[Vector, Vector, Vector]


def _on_floor(a: Vector, b: Vector, c: Vector) -> tuple[Triple, Triple]:
    """The feet on c = 0, and the slacks of the other faces there."""
    return (a, b, np.zeros_like(c)), (a, b, 1.0 - a - b)


def _on_first(a: Vector, b: Vector, c: Vector) -> tuple[Triple, Triple]:
    """The same for c = a."""
    s = 0.5 * (a + c)
    return (s, b, s), (s, b - s, 1.0 - b)


def _on_second(a: Vector, b: Vector, c: Vector) -> tuple[Triple, Triple]:
    """The same for c = b."""
    t = 0.5 * (b + c)
    return (a, t, t), (t, a - t, 1.0 - a)


def _on_last(a: Vector, b: Vector, c: Vector) -> tuple[Triple, Triple]:
    """The same for c = a + b - 1."""
    r = (a + b - 1.0 - c) / 3.0
    return (a - r, b - r, c + r), (c + r, a - c - 2.0 * r, b - c - 2.0 * r)


def _nearest_on_edges(a: Vector, b: Vector, c: Vector) -> Matrix:
    """The nearest point of the six edges; (3, m)."""

    def cut(x: Vector) -> Vector:
        return np.minimum(np.maximum(x, 0.0), 1.0)

    zero, one = np.zeros_like(a), np.ones_like(a)
    middle, across = cut((a + b + c) / 3.0), cut(0.5 * (a - b + 1.0))
    t, s = cut(0.5 * (b + c)), cut(0.5 * (a + c))
    edges = np.stack(
        (
            (cut(a), zero, zero), (zero, cut(b), zero), (middle, middle, middle),
            (across, 1.0 - across, zero), (one, t, t), (s, one, s),
        )
    )  # fmt: skip
    nearest = ((edges - np.stack((a, b, c))) ** 2).sum(axis=1).argmin(axis=0)
    return np.asarray(edges[nearest, :, np.arange(len(a))].T)
