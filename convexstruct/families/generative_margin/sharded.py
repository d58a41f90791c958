"""Problem (P) in shards: Viterbi and forward-backward map over them (`convexstruct.inference.parallel`)."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace

from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.inference.parallel import in_shards, shard


@in_shards.register
def sharded(problem: GenerativeMargin, executor: Executor, n_shards: int | None) -> GenerativeMargin:
    """The same problem whose feature map is cut into shards."""
    return replace(problem, features=shard(problem.features, executor, n_shards))
