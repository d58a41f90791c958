"""The oracle of a problem whose examples are in shards: it maps over the shards, and joins their results.

Each shard receives the scores of its nodes and edges, and returns labellings and posteriors of its examples. Best
labellings by loss, and samples, which must not depend on the cut, are found in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from convexstruct.arrays import Index, Labels, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import Best, Inference, Sums
from convexstruct.inference.shards import Shards, cuts
from convexstruct.oracles.tree.loss_counter import LossTable


class HasOracle(Protocol):
    """A problem with an oracle."""

    @property
    def oracle(self) -> Inference: ...


@dataclass(frozen=True, eq=False)
class Cut:
    """The shards of a problem: shard i has the flat nodes nodes[i] .. nodes[i + 1] - 1; likewise its edges and
    examples."""

    shards: Shards
    examples: Index
    nodes: Index
    edges: Index

    @classmethod
    def of(
        cls,
        features: PairwiseFeatures,
        part: Callable[[PairwiseFeatures, slice, slice], Any],
        executor: Executor,
        n_shards: int | None,
    ) -> Cut:
        """Shards of about as many nodes each; ``part`` makes one of its features, its examples and its flat nodes."""
        examples = np.array(cuts(features.lengths, n_shards), dtype=np.intp)
        nodes = features.node_start[examples]
        edges = np.searchsorted(features.edge_example, examples).astype(np.intp)
        parts = tuple(
            part(features.some(np.arange(low, high)), slice(low, high), slice(first, last))
            for (low, high), (first, last) in zip(pairwise(examples.tolist()), pairwise(nodes.tolist()))
        )
        return cls(Shards(parts, executor), examples, nodes, edges)

    def map(self, method: str, node: Matrix, edge: Tensor, *more: Sequence[Any]) -> list[Any]:
        """``method`` of every shard at its part of the scores; ``more`` : lists with one argument for each shard."""
        given = []
        for i, ((low, high), (first, last)) in enumerate(zip(pairwise(self.nodes), pairwise(self.edges))):
            own = edge if edge.ndim == 2 else edge[first:last]
            given.append((node[low:high], own, *(each[i] for each in more)))
        return self.shards.map_each(method, given)

    def weights(self, w: Vector) -> list[Vector]:
        """The weights for each shard: w, without weights of edges where the shard has no edge."""
        return [w[: part.dimension] for part in self.shards.parts]


@dataclass(frozen=True, eq=False)
class ShardedInference:
    """The oracle of the shards. whole : the oracle of all examples, made when it is first asked for."""

    problem: HasOracle
    cut: Cut

    @property
    def whole(self) -> Inference:
        return self.problem.oracle

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
        return _joined(self.cut.map("oracle.best", node, edge))

    def two_best(self, node: Matrix, edge: Tensor) -> tuple[Best, Best]:
        first, second = zip(*self.cut.map("oracle.two_best", node, edge))
        return _joined(first), _joined(second)

    def by_loss(self, node: Matrix, edge: Tensor, steps: Labels) -> LossTable:
        return self.whole.by_loss(node, edge, steps)

    def sums(self, node: Matrix, edge: Tensor, share: Vector | None = None) -> Sums:
        shares = [None if share is None else share[low:high] for low, high in pairwise(self.cut.examples)]
        found: list[Sums] = self.cut.map("oracle.sums", node, edge, shares)
        pairs = [part.edge for part in found]
        of_edges = np.sum(pairs, axis=0) if edge.ndim == 2 else np.concatenate(pairs)
        of_nodes = np.concatenate([part.node for part in found])
        return Sums(np.concatenate([part.log_partition for part in found]), of_nodes, of_edges)

    def sample(self, node: Matrix, edge: Tensor, rng: np.random.Generator) -> Labels:
        return self.whole.sample(node, edge, rng)


def moved(found: Sequence[Any]) -> Vector | None:
    """`Best.moved` of the shards' examples, one after the other; None where no shard has it."""
    parts = [part.moved for part in found if part.moved is not None]
    return np.concatenate(parts) if parts else None


def _joined(found: Sequence[Best]) -> Best:
    scores, labels, upper = (np.concatenate([getattr(part, name) for part in found]) for name in Best._fields[:3])
    return Best(scores, labels, upper, moved(found))
