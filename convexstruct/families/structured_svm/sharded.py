"""A structural SVM split into shards, each a structural SVM of some of the examples: the oracle maps over them.

Each shard receives w, or the scores of its nodes, and returns labellings, hinges and posteriors of its examples. The
calling process computes the rest: best labellings by loss outside `most_violated`, samples (which must not depend on
how the examples are split) and the certificate's dual bound.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from convexstruct.arrays import Index, Matrix, Point, Tensor, Vector
from convexstruct.families.structured_svm.dual import Aggregate
from convexstruct.families.structured_svm.evaluation import Evaluation
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.rounding import weighed
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import Inference
from convexstruct.inference.parallel import in_shards
from convexstruct.inference.sharded_oracle import Cut, ShardedInference, moved
from convexstruct.inference.shards import Shards, cuts, fields_of
from convexstruct.rounding import Rounded


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
        return Evaluation(float(weighed(self, w, hinge)), hinge, labels, violation, moved(found))

    def aggregate(self, dual_point: Point) -> Aggregate:
        return self.whole.aggregate(dual_point)

    def dual(self, dual_point: Point) -> Rounded:
        return self.whole.dual(dual_point)


@in_shards.register
def sharded(problem: StructuredSVM, executor: Executor, n_shards: int | None) -> ShardedSVM:
    """The same problem with its examples in shards of about as many nodes each."""
    problem = problem.whole if isinstance(problem, ShardedSVM) else problem

    def part(own: PairwiseFeatures, examples: slice, nodes: slice) -> StructuredSVM:
        loss = problem.loss.some(own, np.arange(nodes.start, nodes.stop))
        return StructuredSVM(own, loss, problem.scale, problem.weights[examples], problem.scaling, problem.inference)

    return ShardedSVM(
        **fields_of(problem, StructuredSVM), whole=problem, cut=Cut.of(problem.features, part, executor, n_shards)
    )


@dataclass(frozen=True, eq=False, repr=False)
class ShardedOracleSVM(OracleSVM):
    """The problem ``whole`` with its examples in ``shards``, each an `OracleSVM` whose oracle runs there.

    Threads share what is remembered of labellings. Processes remember their own; they need functions that pickle.
    """

    whole: OracleSVM = field(kw_only=True, repr=False)
    shards: Shards = field(kw_only=True, repr=False)

    def some(self, examples: Index) -> OracleSVM:
        return self.whole.some(examples)

    def _violated(self, w: Vector) -> tuple[Evaluation, Vector]:
        try:
            found = self.shards.map("_violated", w)
        except ValueError:
            return self.whole._violated(w)  # the same error, with the number that the example has in the whole
        hinge, labels, violation = (
            np.concatenate([getattr(part, name) for part, _ in found]) for name in ("hinge", "labels", "violation")
        )
        reached = float(weighed(self, w, violation))
        return Evaluation(reached, hinge, labels, violation), np.concatenate([away for _, away in found])


@in_shards.register
def sharded_oracle(problem: OracleSVM, executor: Executor, n_shards: int | None) -> ShardedOracleSVM:
    """The same problem with its examples in shards of about as many entries of labellings each."""
    problem = problem.whole if isinstance(problem, ShardedOracleSVM) else problem
    at = pairwise(cuts(np.diff(problem.features.node_start), n_shards))
    parts = tuple(problem.some(np.arange(low, high)) for low, high in at)
    return ShardedOracleSVM(**fields_of(problem, OracleSVM), whole=problem, shards=Shards(parts, executor))
