r"""Projections onto the dual set Q of a regularised risk, (20) of paper 2, as (23) and (25) use them.

    onto_groups   min |a - z|^2 over a >= 0, sum of a over each group <= r_g (with the zero piece) or = r_g (without)
    onto_q        min |a - alpha|^2 over Q: that, or a box, or a box with <s, a> = 0 for each free offset (appendix B)

A group's projection is (z - theta_g)_+, theta_g such that the sum is right. It is found by dropping entries below
theta_g and computing theta_g anew until none is (Michelot 1986), for all groups at once. Boxes with an equality are
projected onto by `convexstruct.oracles.box.projection`.
"""

from __future__ import annotations

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.oracles.box.projection import project_box_equality


def onto_groups(
    z: Vector, start: Index, group: Index, floor: bool, radius: Vector | float = 1.0
) -> tuple[Vector, Flags]:
    """The projection a (m,), and for each group whether its sum is held at the radius (G,).

    z : (m,) what is projected. start : (G + 1,) first entry of each group. group : (m,) the group of each entry.
    floor : whether the sum may stay below the radius. radius : r, (G,) or one number, positive.
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


def onto_q(problem: RegularizedRisk, alpha: Vector) -> Vector:
    """The member of Q nearest to ``alpha``; (m,)."""
    if not problem.is_box:
        return onto_groups(alpha, problem.loss.start, problem.group, problem.loss.floor, problem.shares)[0]
    if not problem.n_biases:
        return np.asarray(np.clip(alpha, 0.0, problem.shares))
    sign, shares = problem.loss.bias_sign, problem.shares
    if problem.n_biases == 1:
        return project_box_equality(alpha, 0.0, shares, sign, 0.0)
    found = np.zeros_like(alpha)
    for j in range(problem.n_biases):
        rows = np.flatnonzero(problem.loss.bias_of == j)
        found[rows] = project_box_equality(alpha[rows], 0.0, shares[rows], sign[rows], 0.0)
    return found
