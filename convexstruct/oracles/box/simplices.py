"""Projections onto many simplices at once, each of its own size, or onto what lies between them and 0.

    min |a - z|^2   over a >= 0, the sum of a over each group = r_g, or <= r_g (``floor``)

A group's projection is (z - theta_g)_+, theta_g such that the sum is right. It is found by dropping entries below
theta_g and computing theta_g anew until none is (Michelot 1986), for all groups at once. First dropped are those that
lie r_g or more below the largest of their group or, where 0 <= theta_g, below what theta_g is if none is dropped.
"""

from __future__ import annotations

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Vector
from convexstruct.rounding import EPS

#: Entries are kept first though they lie below the bound on theta by so many roundings of a sum over the group.
ROUNDINGS = 4


def onto_groups(
    z: Vector, start: Index, group: Index, floor: bool, radius: Vector | float = 1.0
) -> tuple[Vector, Flags]:
    """The projection a (m,), and for each group whether its sum is held at the radius (G,).

    z : (m,) what is projected. start : (G + 1,) first entry of each group. group : (m,) the group of each entry.
    floor : whether the sum may stay below the radius. radius : r, (G,) or one number, at least 0.
    """
    first = start[:-1]
    tight = np.ones(len(first), dtype=bool)
    each = np.broadcast_to(radius, len(first))
    top = np.maximum.reduceat(z, first)
    least = top - each  # theta is at least this, up to rounding
    if floor:
        projected = np.maximum(z, 0.0)
        sums, sizes = np.add.reduceat(projected, first), np.diff(start)
        tight = sums > radius
        if not tight.any():
            return projected, tight
        least = np.maximum(least, (sums - each) / sizes) - ROUNDINGS * EPS * sizes * top
        projected *= ~tight[group]
    else:
        projected = np.zeros_like(z)
        least -= ROUNDINGS * EPS * np.abs(top)
    kept = np.flatnonzero(z > np.where(tight, least, np.inf)[group])
    # relative to the largest of the group, which is kept by any theta: its error is that of numbers near r, however
    # large z is
    of = group[kept]
    value = z[kept] - top[of]
    while True:
        deadline.check()
        count = np.bincount(of, minlength=len(first))
        theta = (np.bincount(of, value, len(first)) - each) / np.maximum(count, 1)
        above = value - theta[of]
        still = above > 0.0
        if still.all():
            break
        kept, of, value = kept[still], of[still], value[still]
    projected[kept] = above
    return projected, tight
