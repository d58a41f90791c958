"""Projections onto the dual set Q of a regularised risk, (20) of paper 2, as (23) and (25) use them, and starts in Q.

Q is a product of simplices, or with the zero piece of what lies between them and 0
(`convexstruct.oracles.box.simplices`); or a box; or a box with <s, a> = 0 for each free offset (appendix B,
`convexstruct.oracles.box.projection`).
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.core.solution import Solution
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.oracles.box.projection import project_box_equality
from convexstruct.oracles.box.simplices import onto_groups


def read_start(problem: RegularizedRisk, start: Solution | None) -> tuple[Point | None, Vector | None]:
    """The point of ``start`` where it is finite, and its alpha (m,), moved into Q, where that has a bound."""
    if start is None:
        return None, None
    point, alpha = problem.as_point(start.point), None
    if start.dual_point is not None and np.isfinite(problem.dual(start.dual_point)):
        alpha = problem.feasible(np.asarray(start.dual_point["alpha"], dtype=np.float64))
    return (point if all(np.isfinite(value).all() for value in point.values()) else None), alpha


def starting_alpha(problem: RegularizedRisk, start: Solution | None) -> Vector:
    """The alpha of ``start``; else 0, or where 0 is not in Q each share spread evenly over its group; (m,)."""
    alpha = read_start(problem, start)[1]
    return problem.feasible(np.zeros(problem.n_pieces)) if alpha is None else alpha


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
