"""Projection onto the tetrahedron of (11), with the corners (0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1).

Its faces are c = 0, c = a, c = b and c = a + b - 1. The nearest point lies inside a face, on an edge, or is the point
itself. So there are eleven candidates (four faces, six edges, the point), and the nearest of those that belong to the
tetrahedron is the projection.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Matrix, Vector


def project_tetrahedron(points: Matrix) -> Matrix:
    """The nearest point of the tetrahedron to each column (a, b, c) of ``points`` (3, m)."""
    a, b, c = points
    found = points.copy()
    outside = (c < 0.0) | (c > a) | (c > b) | (c < a + b - 1.0)
    a, b, c = (np.ascontiguousarray(x[outside]) for x in (a, b, c))
    best = np.full(len(a), np.inf)
    nearest = np.empty((3, len(a)))

    def offer(x: Vector, y: Vector, z: Vector, inside: Vector | None = None) -> None:
        distance = (x - a) ** 2
        distance += (y - b) ** 2
        distance += (z - c) ** 2
        nearer = distance < best
        if inside is not None:
            nearer &= inside >= 0.0
        np.copyto(best, distance, where=nearer)
        for target, value in zip(nearest, (x, y, z)):
            np.copyto(target, value, where=nearer)

    def cut(x: Vector) -> Vector:
        return np.minimum(np.maximum(x, 0.0), 1.0)

    def least(*slacks: Vector) -> Vector:
        """The least slack of the constraints beside a face: below 0 where the point on its plane is outside."""
        smallest = slacks[0]
        for slack in slacks[1:]:
            smallest = np.minimum(smallest, slack)
        return smallest

    zero, one = np.zeros_like(a), np.ones_like(a)
    offer(cut(a), zero, zero)
    offer(zero, cut(b), zero)
    t = cut((a + b + c) / 3.0)
    offer(t, t, t)
    t = cut(0.5 * (a - b + 1.0))
    offer(t, 1.0 - t, zero)
    t = cut(0.5 * (b + c))
    offer(one, t, t)
    s = cut(0.5 * (a + c))
    offer(s, one, s)
    offer(a, b, zero, least(a, b, 1.0 - a - b))
    s = 0.5 * (a + c)
    offer(s, b, s, least(s, b - s, 1.0 - b))
    t = 0.5 * (b + c)
    offer(a, t, t, least(t, a - t, 1.0 - a))
    r = (a + b - 1.0 - c) / 3.0
    offer(a - r, b - r, c + r, least(c + r, a - c - 2.0 * r, b - c - 2.0 * r))
    found[:, outside] = nearest
    return found
