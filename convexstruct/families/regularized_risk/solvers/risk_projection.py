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
    positive = np.maximum(z, 0.0)
    if floor:
        tight = np.add.reduceat(positive, first) > radius
        if not tight.any():
            return positive, tight
    kept = np.ones(len(z), dtype=bool)
    count = np.diff(start).astype(np.float64)
    while True:
        deadline.check()
        theta = (np.add.reduceat(np.where(kept, z, 0.0), first) - radius) / count
        still = kept & (z > theta[group])
        now = np.add.reduceat(still, first, dtype=np.float64)
        if (now == count).all():
            break
        # rounding may drop the last entry of a group: then its largest entries are kept instead
        gone = now == 0
        if gone.any():
            top = np.maximum.reduceat(np.where(kept, z, -np.inf), first)
            still |= gone[group] & kept & (z == top[group])
            now = np.add.reduceat(still, first, dtype=np.float64)
            if (now == count).all():
                break
        kept, count = still, now
    held = np.where(kept, np.maximum(z - theta[group], 0.0), 0.0)
    return (np.where(tight[group], held, positive) if floor else held), tight


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
