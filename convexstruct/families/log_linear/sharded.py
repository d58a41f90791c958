"""A conditional random field whose examples are cut into shards; sums over labellings are computed shard by shard.

Each shard gets theta and returns the sums of its log partition functions, expected features and curvature. The
certificate is computed on the whole problem.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.core.mixtures import Mixture
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import Inference
from convexstruct.inference.parallel import in_shards
from convexstruct.inference.sharded_oracle import Cut, ShardedInference
from convexstruct.rounding import Rounded


@dataclass(frozen=True, eq=False, repr=False)
class ShardedField(ConditionalRandomField):
    """The problem ``whole`` with its examples ``cut`` into shards."""

    whole: ConditionalRandomField = field(kw_only=True, repr=False)
    cut: Cut = field(kw_only=True, repr=False)

    @cached_property
    def oracle(self) -> Inference:
        return ShardedInference(self.whole, self.cut)

    def expectation(self, theta: Vector) -> tuple[float, Vector]:
        found = self.cut.shards.map_each("expectation", [(own,) for own in self.cut.weights(theta)])
        return sum(part[0] for part in found), self._summed([part[1] for part in found])

    def curvature(self, theta: Vector) -> Vector:
        return self._summed(self.cut.shards.map_each("curvature", [(own,) for own in self.cut.weights(theta)]))

    def _summed(self, parts: list[Vector]) -> Vector:
        """The sum (d,) of the parts; that of a shard without edges is shorter, since it has no edge weights."""
        total = np.zeros(self.dimension)
        for part in parts:
            total[: len(part)] += part
        return total

    def primal(self, point: Point) -> Rounded:
        return self.whole.primal(point)

    def enclosed(self, mixture: Mixture) -> tuple[Rounded, Vector, Vector]:
        return self.whole.enclosed(mixture)


@in_shards.register
def sharded(problem: ConditionalRandomField, executor: Executor, n_shards: int | None) -> ShardedField:
    """The same problem with its examples in shards of about as many nodes each."""
    problem = problem.whole if isinstance(problem, ShardedField) else problem

    def part(own: PairwiseFeatures, examples: slice, nodes: slice) -> ConditionalRandomField:
        return ConditionalRandomField(own, problem.scale, problem.weights[examples], problem.l1, problem.forbidden)

    given = {each.name: getattr(problem, each.name) for each in fields(ConditionalRandomField)}
    return ShardedField(**given, whole=problem, cut=Cut.of(problem.features, part, executor, n_shards))
