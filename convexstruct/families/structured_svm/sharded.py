"""A structural SVM in shards, each a structural SVM of some of the examples: the oracle maps over them.

w, or the scores of a shard's nodes, go to it; labellings, hinges and posteriors of its examples come back. Best
labellings by loss outside `most_violated` and samples (which must not depend on the cut) are found here, and so is the
certificate's dual bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from convexstruct.arrays import Index, Labels, Matrix, Point, Tensor, Vector
from convexstruct.families.structured_svm.dual import Aggregate
from convexstruct.families.structured_svm.problem import Evaluation, StructuredSVM
from convexstruct.families.structured_svm.rounding import weighed
from convexstruct.inference.exact import Best, Inference, Sums
from convexstruct.inference.parallel import in_shards
from convexstruct.inference.shards import Shards, cuts
from convexstruct.oracles.tree.loss_counter import LossTable
from convexstruct.rounding import Rounded


@dataclass(frozen=True, eq=False)
class Cut:
    """The shards of a problem: shard i has the flat nodes from nodes[i] to nodes[i + 1], and edges and examples so."""

    shards: Shards
    examples: Index
    nodes: Index
    edges: Index

    def map(self, method: str, node: Matrix, edge: Tensor, *more: Sequence[Any]) -> list[Any]:
        """``method`` of every shard at its part of the scores; ``more`` arguments come as one a shard."""
        given = []
        for i, ((low, high), (first, last)) in enumerate(zip(pairwise(self.nodes), pairwise(self.edges))):
            own = edge if edge.ndim == 2 else edge[first:last]
            given.append((node[low:high], own, *(each[i] for each in more)))
        return self.shards.map_each(method, given)

    def weights(self, w: Vector) -> list[Vector]:
        """w as each shard has it: without weights of edges where a shard has none."""
        return [w[: part.dimension] for part in self.shards.parts]


@dataclass(frozen=True, eq=False)
class ShardedInference:
    """The oracle of the shards. whole : the oracle of all examples, made when it is first asked for."""

    problem: StructuredSVM
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


@dataclass(frozen=True, eq=False, repr=False)
class ShardedSVM(StructuredSVM):
    """The problem ``whole`` with its examples ``cut`` into shards."""

    whole: StructuredSVM = field(kw_only=True, repr=False)
    cut: Cut = field(kw_only=True, repr=False)

    @cached_property
    def oracle(self) -> Inference:
        return ShardedInference(self.whole, self.cut)

    def most_violated(self, w: Vector) -> Evaluation:
        found = self.cut.shards.map_each("most_violated", [(own,) for own in self.cut.weights(w)])
        return self._evaluation(found, w)

    def violated(self, node: Matrix, edge: Tensor, w: Vector) -> Evaluation:
        return self._evaluation(self.cut.map("violated", node, edge, self.cut.weights(w)), w)

    def _evaluation(self, found: list[Evaluation], w: Vector) -> Evaluation:
        hinge, labels, violation = (
            np.concatenate([getattr(part, name) for part in found]) for name in ("hinge", "labels", "violation")
        )
        return Evaluation(float(weighed(self, w, hinge)), hinge, labels, violation, _moved(found))

    def aggregate(self, dual_point: Point) -> Aggregate:
        return self.whole.aggregate(dual_point)

    def dual(self, dual_point: Point) -> Rounded:
        return self.whole.dual(dual_point)


def _moved(found: Sequence[Any]) -> Vector | None:
    parts = [part.moved for part in found if part.moved is not None]
    return np.concatenate(parts) if parts else None


def _joined(found: Sequence[Best]) -> Best:
    scores, labels, upper = (np.concatenate([getattr(part, name) for part in found]) for name in Best._fields[:3])
    return Best(scores, labels, upper, _moved(found))


@in_shards.register
def sharded(problem: StructuredSVM, executor: Executor, n_shards: int | None) -> ShardedSVM:
    """The same problem with its examples in shards of about as many nodes each."""
    problem = problem.whole if isinstance(problem, ShardedSVM) else problem
    features = problem.features
    examples = np.array(cuts(features.lengths, n_shards), dtype=np.intp)
    nodes = features.node_start[examples]
    edges = np.searchsorted(features.edge_example, examples).astype(np.intp)
    parts = []
    for (low, high), (first, last) in zip(pairwise(examples), pairwise(nodes)):
        own = features.some(np.arange(low, high))
        loss = problem.loss.some(own, np.arange(first, last))
        parts.append(
            StructuredSVM(own, loss, problem.scale, problem.weights[low:high], problem.scaling, problem.inference)
        )
    given = {each.name: getattr(problem, each.name) for each in fields(StructuredSVM)}
    return ShardedSVM(**given, whole=problem, cut=Cut(Shards(tuple(parts), executor), examples, nodes, edges))
