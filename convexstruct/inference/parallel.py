"""Problems cut into shards, on any ``concurrent.futures.Executor``: one map over shards, then one sum of small vectors.

`sharded` returns the same problem with its examples cut into shards; `convexstruct.core.driver.solve(..., executor=)`
calls it. Threads, processes on this machine, or a Dask cluster's ``client.get_executor()`` all do; how shards are sent,
and what happens when a worker dies, is in `convexstruct.inference.shards`.

Values are those of the serial problem: examples do not depend on each other, and only sums over all of them are taken
in another order (equal up to rounding).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.features.counts.counts import Counts, Expected
from convexstruct.features.counts.part import part
from convexstruct.inference.shards import Shards, cuts
from convexstruct.validation.arguments import cut, described, refuse, sentence


class Named(Protocol):
    """A problem; errors name its family."""

    @property
    def family(self) -> str: ...


Shared = TypeVar("Shared", bound=Named)


def sharded(problem: Shared, executor: Executor, n_shards: int | None = None) -> Shared:
    """The same problem with its examples in shards that ``executor`` works on.

    Parameters
    ----------
    problem : of a family that has registered how it is cut (`in_shards`).
    executor : where the shards are worked on; it stays the caller's, who also shuts it down.
    n_shards : how many, at most one an example (default: one a processor of this machine, which a cluster may exceed).

    Raises
    ------
    ValueError
        If the family's examples are not worked on one by one, or ``n_shards`` is less than 1.
    """
    if not isinstance(executor, Executor):
        refuse("executor", executor, "a concurrent.futures.Executor")
    found: Shared = in_shards(problem, executor, n_shards)
    return found


@singledispatch
def in_shards(problem: Any, executor: Executor, n_shards: int | None) -> Any:
    """The same problem in shards: a family whose examples are independent registers a function that cuts its problems;
    ValueError for one that has not."""
    if not isinstance(family := getattr(problem, "family", None), str):
        refuse("problem", problem, "a problem of a family whose examples can be cut into shards")
    raise sentence(
        f"executor came with {described(problem)} of the family {cut(family, 40)!r}, which cannot be cut into shards, "
        "wanted None"
    )


def shard(features: Counts, executor: Executor, n_shards: int | None = None) -> ShardedOracle:
    """The oracle of a feature map, cut into shards with about as many hidden variables each."""
    at = cuts(np.bincount(features.examples.example, minlength=len(features.examples)), n_shards)
    parts = tuple(part(features, low, high) for low, high in pairwise(at))
    return ShardedOracle(Shards(parts, executor))


@dataclass(frozen=True, eq=False)
class ShardedOracle:
    """The `Oracle` of examples in ``shards``, each the feature map of some of them, in order."""

    shards: Shards

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        values, labels = zip(*self.shards.map("best", theta, loss_weight))
        return np.concatenate(values), np.concatenate(labels)

    def expected(self, theta: Vector, loss_weight: float = 1.0) -> Expected:
        parts: Sequence[Expected] = self.shards.map("expected", theta, loss_weight)
        counts = np.sum([part.counts for part in parts], axis=0)
        return Expected(np.concatenate([p.log_partition for p in parts]), counts, sum(p.loss for p in parts))
