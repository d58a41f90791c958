"""Mistakes that are easily made with a projection: the weights of the distance, and the order of tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convexstruct.core.slips import Slip, altered
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.tables import MarginalProjection


def slips(problem: BoxProjection | MarginalProjection) -> Iterator[Slip]:
    if isinstance(problem, BoxProjection):
        yield altered("without d: are the weights of the distance left out?", problem, d=1.0)
        yield altered("with d in place of d^2", problem, d=np.sqrt(problem.d))
        yield altered("with d^4 in place of d^2: is d squared twice?", problem, d=np.square(problem.d))
