"""Oracles over examples that lie in shards: they map over the shards, and join their results.

Each shard receives the scores of its nodes and edges, or theta, and returns labellings and posteriors of its examples.
Best labellings by loss, and samples, which must not depend on the cut, are found in this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.features.counts.counts import Expected
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import Best, Inference, Sums
from convexstruct.inference.shards import Shards, joined
from convexstruct.oracles.tree.loss_counter import LossTable


@dataclass(frozen=True, eq=False)
class ShardedInference:
    """An `Inference` over the examples of ``features``, which lie in ``shards`` of problems with an ``oracle``. whole :
    the oracle of all examples, in this process."""

    whole: Inference
    features: PairwiseFeatures
    shards: Shards

    @property
    def exact(self) -> bool:
        return self.whole.exact

    @property
    def relaxed(self) -> bool:
        return self.whole.relaxed

    @property
    def summable(self) -> bool:
        return self.whole.summable

    def best(self, node: Matrix, edge: Tensor) -> Best:
        return Best(*joined(self._map("oracle.best", node, edge)))

    def two_best(self, node: Matrix, edge: Tensor) -> tuple[Best, Best]:
        first, second = joined(self._map("oracle.two_best", node, edge))
        return Best(*first), Best(*second)

    def by_loss(self, node: Matrix, edge: Tensor, steps: Labels) -> LossTable:
        return self.whole.by_loss(node, edge, steps)

    def sums(self, node: Matrix, edge: Tensor, share: Vector | None = None) -> Sums:
        found: list[Sums] = self._map("oracle.sums", node, edge, share)
        log_partition, of_nodes, of_edges, relative, absolute, _ = zip(*found)
        pairs = np.sum(of_edges, axis=0) if edge.ndim == 2 else np.concatenate(of_edges)
        return Sums(np.concatenate(log_partition), np.concatenate(of_nodes), pairs, max(relative), max(absolute))

    def sample(self, node: Matrix, edge: Tensor, rng: np.random.Generator) -> Labels:
        return self.whole.sample(node, edge, rng)

    def _map(self, method: str, node: Matrix, edge: Tensor, *more: Vector | None) -> list[Any]:
        """``method`` of every shard at its part of the scores; ``more`` : (N,) for its examples each, or None."""
        features, given = self.features, []
        for low, high in pairwise(self.shards.at):
            own = edge if edge.ndim == 2 else edge[features.edge_start[low] : features.edge_start[high]]
            of_nodes = node[features.node_start[low] : features.node_start[high]]
            given.append((of_nodes, own, *(None if each is None else each[low:high] for each in more)))
        return self.shards.map_each(method, given)


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
