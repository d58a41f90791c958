"""Problem (P) in shards: Viterbi and forward-backward map over them (`convexstruct.inference.parallel`).

The certificate, metrics and counts of one labelling are computed by the calling process, over all examples.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field

from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.features.counts.counts import Oracle
from convexstruct.inference.parallel import ShardedOracle, in_shards, shard


@dataclass(frozen=True, eq=False, repr=False)
class ShardedMargin(GenerativeMargin):
    """The problem whose oracle is ``cut`` into shards of the examples of ``features``."""

    cut: ShardedOracle = field(kw_only=True)

    @property
    def oracle(self) -> Oracle:
        return self.cut


@in_shards.register
def sharded(problem: GenerativeMargin, executor: Executor, n_shards: int | None) -> ShardedMargin:
    """The same problem with its examples in shards of about as many hidden variables each."""
    return ShardedMargin(problem.features, problem.c, problem.eta, cut=shard(problem.features, executor, n_shards))
