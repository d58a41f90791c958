"""The oracle over examples that lie in shards: theta travels to them, and their results are joined."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.features.counts.counts import Expected
from convexstruct.inference.shards import Shards, joined


@dataclass(frozen=True, eq=False)
class ShardedOracle:
    """The `Oracle` of examples that lie in ``shards`` of feature maps."""

    shards: Shards

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        values, labels = joined(self.shards.map("best", theta, loss_weight))
        return values, labels

    def expected(self, theta: Vector, loss_weight: float = 1.0, share: Vector | None = None) -> Expected:
        parts = [None if share is None else share[low:high] for low, high in pairwise(self.shards.at)]
        found: list[Expected] = self.shards.map_each("expected", [(theta, loss_weight, part) for part in parts])
        counts = np.sum([part.counts for part in found], axis=0)
        return Expected(np.concatenate([p.log_partition for p in found]), counts, sum(p.loss for p in found))
