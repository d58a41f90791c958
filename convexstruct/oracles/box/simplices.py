"""Projections onto many simplices at once, each of its own size, or onto what lies between them and 0.

    min |a - z|^2   over a >= 0, the sum of a over each group = r_g, or <= r_g (``floor``)

A group's projection is (z - theta_g)_+, theta_g such that the sum is right. It is found by dropping entries below
theta_g and computing theta_g anew until none is (Michelot 1986), for all groups at once.
"""

from __future__ import annotations

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Vector


def onto_groups(
    z: Vector, start: Index, group: Index, floor: bool, radius: Vector | float = 1.0
) -> tuple[Vector, Flags]:
    """The projection a (m,), and for each group whether its sum is held at the radius (G,).

    z : (m,) what is projected. start : (G + 1,) first entry of each group. group : (m,) the group of each entry.
    floor : whether the sum may stay below the radius. radius : r, (G,) or one number, at least 0.
    """
    first = start[:-1]
    tight = np.ones(len(first), dtype=bool)
    projected = np.maximum(z, 0.0) if floor else np.zeros_like(z)
    if floor:
        tight = np.add.reduceat(projected, first) > radius
        if not tight.any():
            return projected, tight
    # relative to the largest of the group, which is kept by any theta: its error is that of numbers near r, however
    # large z is
    below = z - np.maximum.reduceat(z, first)[group]
    each = np.broadcast_to(radius, len(first))
    kept = np.flatnonzero((below > -each[group]) & tight[group])
    while True:
        deadline.check()
        of, value = group[kept], below[kept]
        count = np.bincount(of, minlength=len(first))
        theta = (np.bincount(of, value, len(first)) - each) / np.maximum(count, 1)
        still = value > theta[of]
        if still.all():
            break
        kept = kept[still]
    projected[tight[group]] = 0.0
    projected[kept] = value - theta[of]
    return projected, tight
