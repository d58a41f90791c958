"""Examples cut into shards, on any ``concurrent.futures.Executor``: one map over shards, then one sum of small vectors.

`sharded` returns the same problem with its feature map cut into shards; `convexstruct.solvers.solve(..., executor=)`
calls it. Threads, processes here, or a Dask cluster's ``client.get_executor()`` serve alike.

A shard goes to a worker once. A task carries the shard's key only; a worker that does not hold that shard says so, is
sent it, and keeps it. So nothing has to be set up in a worker before, and one that was replaced is served like a new
one. A task that fails because its worker died is done again in this process, with a warning in the log; an error in the
work itself is met again here and raised. An executor that broke or was shut down is given up: one warning, and all that
follows is done here. So is one with a worker that did not answer by the deadline (`convexstruct.deadline`).

Values are those of the serial feature map: examples do not depend on each other, and only the sums of expected counts
are taken in another order (equal up to rounding).
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Vector
from convexstruct.features.counts import bounds
from convexstruct.features.counts.counts import Counts, Expected
from convexstruct.features.counts.part import part
from convexstruct.features.counts.unlabelled import unlabelled
from convexstruct.graphs import TableLayout
from convexstruct.validation.arguments import refuse, whole

logger = logging.getLogger(__name__)

#: Shards a worker keeps; beyond that the one not used for longest is dropped, and sent again if it is asked for.
KEPT = 64


@runtime_checkable
class Shardable(Protocol):
    """A problem whose examples stand behind one feature map, a field ``features`` of a dataclass."""

    @property
    def features(self) -> Counts: ...


class Named(Protocol):
    """A problem, of which an error says the family."""

    @property
    def family(self) -> str: ...


Shared = TypeVar("Shared", bound=Named)


def sharded(problem: Shared, executor: Executor, n_shards: int | None = None) -> Shared:
    """The same problem with its examples in shards that ``executor`` works on.

    Parameters
    ----------
    problem : any dataclass with a field ``features`` (`Shardable`) that `part` can cut.
    executor : where the shards are worked on; it stays the caller's, who also shuts it down.
    n_shards : how many (default: one a processor of this machine; say so for a cluster), at most one an example.

    Raises
    ------
    ValueError
        If the problem has no examples behind a feature map, or ``n_shards`` is less than 1.
    """
    if not isinstance(executor, Executor):
        refuse("executor", executor, "a concurrent.futures.Executor")
    features = problem.features if isinstance(problem, Shardable) else None
    if not dataclasses.is_dataclass(problem) or part.dispatch(type(features)) is part.dispatch(object):
        raise ValueError(f"executor is of no use for the family {problem.family!r}, wanted None: it has no shards")
    assert features is not None
    features = shard(features, executor, n_shards)
    replaced: Shared = dataclasses.replace(problem, features=features)
    return replaced


def shard(features: Counts, executor: Executor, n_shards: int | None = None) -> ShardedCounts:
    """Cut a feature map into shards with about as many hidden variables each."""
    if n_shards is None:
        n_shards = os.cpu_count() or 1
    n_shards = whole("n_shards", n_shards, least=1)
    first = np.searchsorted(features.example, np.arange(features.n_examples + 1))
    wanted = np.linspace(0, features.n_hidden, min(n_shards, features.n_examples) + 1)[1:-1]
    cuts = np.unique(np.concatenate(([0], np.searchsorted(first, wanted), [features.n_examples])))
    parts = tuple(part(features, int(low), int(high)) for low, high in pairwise(cuts))
    return ShardedCounts(features, parts, executor)


@dataclass(frozen=True, eq=False)
class ShardedCounts:
    """A feature map (`convexstruct.features.Counts`) whose oracles run on shards.

    whole : the feature map of all examples; what is cheap, and sampling, which must not depend on the cut, runs on it.
    shards : those of some examples each, in order. executor : where they are worked on.
    """

    whole: Counts
    shards: tuple[Counts, ...]
    executor: Executor
    _key: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _given_up: list[str] = field(default_factory=list, init=False)  # why the executor is used no more; empty: it is

    @property
    def tables(self) -> TableLayout:
        return self.whole.tables

    @property
    def n_examples(self) -> int:
        return self.whole.n_examples

    @property
    def n_hidden(self) -> int:
        return self.whole.n_hidden

    @property
    def weights(self) -> Vector:
        return self.whole.weights

    @property
    def truth(self) -> Labels:
        return self.whole.truth

    @property
    def example(self) -> Index:
        return self.whole.example

    @property
    def cards(self) -> Index:
        return self.whole.cards

    @property
    def free(self) -> NDArray[np.bool_]:
        return self.whole.free

    @property
    def max_loss(self) -> Vector:
        return self.whole.max_loss

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        values, labels = zip(*self._map("best", theta, loss_weight))
        return np.concatenate(values), np.concatenate(labels)

    def expected(self, theta: Vector, loss_weight: float = 1.0) -> Expected:
        parts: Sequence[Expected] = self._map("expected", theta, loss_weight)
        counts = np.sum([part.counts for part in parts], axis=0)
        return Expected(np.concatenate([p.log_partition for p in parts]), counts, sum(p.loss for p in parts))

    def sample(self, theta: Vector, loss_weight: float, rng: np.random.Generator) -> Labels:
        return self.whole.sample(theta, loss_weight, rng)

    def counts(self, labels: Labels, share: Vector | None = None) -> Vector:
        return self.whole.counts(labels, share)

    def counts_each(self, labels: Labels) -> sp.csr_array:
        return self.whole.counts_each(labels)

    def loss(self, labels: Labels) -> Vector:
        return self.whole.loss(labels)

    def _map(self, method: str, *arguments: Any) -> list[Any]:
        """``method(*arguments)`` of every shard, in order."""
        deadline.check()
        if isinstance(self.executor, ThreadPoolExecutor):  # one memory: nothing is sent, nothing kept
            waiting = [self._submit(_call, s, method, arguments) for s in self.shards]
            return [self._result(f, i, method, arguments) for i, f in enumerate(waiting)]
        waiting = [self._submit(_work, (self._key, i), None, method, arguments) for i in range(len(self.shards))]
        answers = [self._result(f, i, method, arguments) for i, f in enumerate(waiting)]
        unknown = [i for i, answer in enumerate(answers) if isinstance(answer, _Unknown)]
        again = [self._submit(_work, (self._key, i), self.shards[i], method, arguments) for i in unknown]
        for i, future in zip(unknown, again):
            answers[i] = self._result(future, i, method, arguments)
        return answers

    def _submit(self, *task: Any) -> Future[Any] | None:
        """The task's future, or None where the executor takes none any more."""
        if self._given_up:
            return None
        try:
            return self.executor.submit(*task)
        except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: it was shut down
            self._give_up(f"takes no more work ({error!r})")
            return None

    def _result(self, future: Future[Any] | None, shard: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """What the future brings, or what this process computes where it brings nothing.

        Raises
        ------
        DeadlinePassed
            If the future brings nothing until the deadline.
        """
        if future is not None and not (self._given_up and not future.done()):
            left = deadline.left()
            try:
                return future.result(None if math.isinf(left) else left)
            except BrokenExecutor as error:
                self._give_up(f"broke ({error!r})")
            except Exception as error:  # any: what fails there is done here, and fails here too if it must
                if not future.done():
                    self._given_up.append("a worker did not answer by the deadline")
                    raise deadline.DeadlinePassed from None
                logger.warning("shard %d: %s failed in a worker (%r); it is done here", shard, method, error)
        return _call(self.shards[shard], method, arguments)

    def _give_up(self, why: str) -> None:
        """Use the executor no more, and say so once."""
        if not self._given_up:
            self._given_up.append(why)
            logger.warning("the executor %s: what follows is done in this process", why)


@dataclass(frozen=True)
class _Unknown:
    """A worker's answer when it does not hold the shard it was asked about."""


_held: OrderedDict[tuple[str, int], Counts] = OrderedDict()
_lock = threading.Lock()  # a worker may run several threads, as Dask's do


def _work(key: tuple[str, int], sent: Counts | None, method: str, arguments: tuple[Any, ...]) -> Any:
    """In a worker: ``method(*arguments)`` of the shard called ``key``, kept here or sent along."""
    with _lock:
        held = _held.get(key, sent)
        if held is None:
            return _Unknown()
        _held[key] = held
        _held.move_to_end(key)
        while len(_held) > KEPT:
            _held.popitem(last=False)
    return _call(held, method, arguments)


def _call(features: Counts, method: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(features, method)(*arguments)


@part.register
def _(features: ShardedCounts, low: int, high: int) -> Counts:
    return part(features.whole, low, high)


@unlabelled.register
def _(features: ShardedCounts, examples: Any) -> Counts:
    return unlabelled(features.whole, examples)


@bounds.excess.register
def _(features: ShardedCounts, theta: Vector) -> tuple[Vector, Labels]:
    return bounds.excess(features.whole, theta)


@bounds.moments.register
def _(features: ShardedCounts, theta: Vector, loss_weight: float) -> bounds.Moments:
    return bounds.moments(features.whole, theta, loss_weight)
