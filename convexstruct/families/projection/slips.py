"""Mistakes that are easily made with a projection: the weights of the distance, constraints that are left out, and the
order of tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.slips import Slip, altered, moved, transposed
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.tables import MarginalProjection


def slips(problem: BoxProjection | MarginalProjection) -> Iterator[Slip]:
    if isinstance(problem, BoxProjection):
        yield altered("without d: are the weights of the distance left out?", problem, d=1.0)
        yield altered("with d in place of d^2", problem, d=np.sqrt(problem.d))
        yield altered("with d^4 in place of d^2: is d squared twice?", problem, d=np.square(problem.d))
        yield altered("without the upper bounds", problem, upper=np.inf)
        yield altered("without the lower bounds", problem, lower=-np.inf)
        clipped = np.clip(problem.m, problem.lower, problem.upper)
        yield altered("without <s, a> = z: is m only clipped?", problem, z=float(np.sum(problem.s * clipped)))
        yield Slip(
            "it minimises the objective with another z: is it normalised to another number, or rho wrong?",
            lambda point: _of_its_own_sum(problem, point["a"]),
        )
        return
    yield altered("with tables that sum to 1: is z left out?", problem, scale=np.ones_like(problem.scale))
    if problem.structure.agreements:
        alone = replace(problem.structure, agreements=())
        yield altered("of every clique by itself: are marginals made to agree?", problem, structure=alone)
    said = "with its tables of pairs transposed it is optimal: are they [first, second]?"
    yield moved(said, "a", lambda a: _transposed_pairs(problem, a))


def _of_its_own_sum(problem: BoxProjection, a: Vector) -> BoxProjection:
    """The problem whose z is <s, a>; ValueError where that is z itself."""
    z = float(np.sum(problem.s * a))
    if np.isclose(z, problem.z):
        raise ValueError("the sum is z")
    return replace(problem, z=z)


def _transposed_pairs(problem: MarginalProjection, a: Vector) -> Vector:
    for table in problem.structure.split(a):
        if table.ndim == 3:
            table[:] = transposed(table).copy()
    return a
