"""Parts of a batch on an executor or a cluster: one map over the parts, which workers keep between calls.

Where the examples of a problem lie is its field ``workers`` (`Workers`; None: in this process). Its property ``shards``
cuts them (`in_shards`), and its sums over all examples ask the shards and add up what comes back (`Shards.total`), or
put it one after the other (`joined`). So the values are those of the problem in one process, up to the order of sums.
A Dask client is served by `convexstruct.inference.cluster`; threads and processes on this machine as follows.

A part is sent to each worker once. A task carries only the key of its part; a worker that does not hold the part
answers so, receives it, and keeps it. So a worker needs no preparation, and one that replaces a dead worker is treated
like any other. If a task fails, this process computes its result, with a warning in the log; where the work itself is
at fault, the same error is then raised here. An executor that broke, was shut down, or has a worker that did not answer
by the deadline (`convexstruct.deadline`) is used no more: this process does the rest of the work.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index
from convexstruct.features.example_files import InFiles
from convexstruct.graphs import starts
from convexstruct.inference.cluster import Cluster, WorkersLost, is_client, pairwise_sum
from convexstruct.inference.file_parts import FilePart
from convexstruct.memory import keep_freed
from convexstruct.rounding import RoundedArray
from convexstruct.validation.arguments import cut, described, refuse, sentence, whole

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

#: The number of parts that a worker keeps, more than a problem has on most machines; with more, it drops the least
#: recently used, which is sent again if needed.
KEPT_PARTS = 64

Problem = TypeVar("Problem")
Arguments = ParamSpec("Arguments")
Sum = TypeVar("Sum")


@dataclass(frozen=True, eq=False)
class Workers:
    """Where the examples of a problem are worked on.

    executor : works on the shards; it stays the caller's, who also shuts it down.
    n_shards : how many, at most one an example; None: one a processor of this machine, or a thread of the cluster.
    """

    executor: Executor | Client
    n_shards: int | None = None

    @property
    def many(self) -> int:
        """The number of shards wanted."""
        if self.n_shards is not None:
            return self.n_shards
        if isinstance(self.executor, Executor):
            return os.cpu_count() or 1
        return max(int(sum(self.executor.nthreads().values())), 1)


def read_executor(executor: Any) -> None:
    """ValueError unless ``executor`` can work on shards."""
    if not (is_client(executor) or isinstance(executor, Executor)):
        refuse("executor", executor, "a concurrent.futures.Executor or a Dask client")


def sharded(problem: Problem, executor: Executor | Client, n_shards: int | None = None) -> Problem:
    """The same problem with its examples in shards that ``executor`` works on; arguments as in `Workers`.

    Raises
    ------
    ValueError
        If the problem has no sums over examples that could be cut, or ``n_shards`` is less than 1.
    """
    read_executor(executor)
    if not isinstance(family := getattr(problem, "family", None), str):
        refuse("problem", problem, "a problem of a family whose examples can be cut into shards")
    if not (is_dataclass(problem) and any(each.name == "workers" for each in fields(problem))):
        raise sentence(
            f"executor came with {described(problem)} of the family {cut(family, 40)!r}, which has no sums over "
            "examples that could be cut into shards, wanted None"
        )
    n_shards = None if n_shards is None else whole("n_shards", n_shards, least=1)
    found: Problem = replace(problem, workers=Workers(executor, n_shards))  # type: ignore[type-var]
    return found


def in_shards(workers: Workers | None, sizes: Index, some: Callable[[Index], Any]) -> Shards | None:
    """The examples in shards of about equal size; None without workers.

    sizes : (N,) how long each example takes, in any unit. some : what works on some of the examples, given their
    numbers; pickled where the executor's workers have a memory of their own.
    """
    if workers is None:
        return None
    at = cuts(sizes, workers.many)
    return Shards(Parts(some, tuple(at)), workers.executor, tuple(at))


def in_files(examples: InFiles, workers: Workers | None, made: Callable[..., Any]) -> Shards:
    """Examples in files, a shard each. made : (examples, weights) of a file, as its kind makes them, -> what works on
    them; pickled."""
    parts = [FilePart(file, made, examples.memory) for file in examples.files]
    return Shards(parts, None if workers is None else workers.executor, examples.at)


def cuts(sizes: Index, n_shards: int) -> list[int]:
    """Where examples of such ``sizes`` (N,) are cut into about equal shards: 0, .., N, rising; none is empty.

    n_shards : how many, at most one an example.
    """
    first = starts(sizes)
    wanted = np.linspace(0, first[-1], min(n_shards, len(sizes)) + 1)[1:-1]
    found: list[int] = np.unique(np.concatenate(([0], np.searchsorted(first, wanted), [len(sizes)]))).tolist()
    return found


@dataclass(frozen=True, eq=False)
class Parts(Sequence[Any]):
    """What works on ``some`` of the examples, at[i] .. at[i + 1] - 1 in part i; made when asked for and not kept."""

    some: Callable[[Index], Any]
    at: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.at) - 1

    def __getitem__(self, i: Any) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        return self.some(np.arange(self.at[i], self.at[i + 1]))


@dataclass(frozen=True, eq=False)
class Shards:
    """Parts of a batch, and the executor or Dask client that works on them.

    parts : anything with methods, one a shard; pickled where the executor's workers have a memory of their own. A
        `FilePart` is what its file holds.
    executor : where they are worked on; it stays the caller's, who also shuts it down. None: here, one after the other.
    at : part i has the examples at[i] .. at[i + 1] - 1.
    """

    parts: Sequence[Any]
    executor: Executor | Client | None
    at: tuple[int, ...] = ()
    _key: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _given_up: list[str] = field(default_factory=list, init=False)  # why the executor is used no more; empty: it is

    def map(self, method: str, *arguments: Any) -> list[Any]:
        """``method(*arguments)`` of every part, in order; ``method`` may be dotted, as in "oracle.best"."""
        return self._answers(method, [arguments])

    def total(self, method: Callable[Arguments, Sum], *arguments: Arguments.args, **more: Arguments.kwargs) -> Sum:
        """The sum over the parts of what their ``method``, a problem's own, returns: numbers, arrays, or a tuple of
        these. A vector may be shorter in a part that has no edge and so no weights of edges, which stand last."""
        found: Sum = self._answers(method.__name__, [arguments], summed=True)[0]
        return found

    def total_each(self, method: Callable[..., Sum], arguments: Sequence[tuple[Any, ...]]) -> Sum:
        """`total` with arguments of its own for each part."""
        found: Sum = self._answers(method.__name__, arguments, summed=True)[0]
        return found

    def map_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """``method(*arguments[i])`` of part i, for every part, in order. Raises `DeadlinePassed` if a worker brings
        nothing until the deadline."""
        return self._answers(method, arguments)

    def _answers(self, method: str, arguments: Sequence[tuple[Any, ...]], summed: bool = False) -> list[Any]:
        """As `Cluster.answers`; by the cluster, the executor, or this process."""
        deadline.check()
        if self._cluster is not None and not self._given_up:
            try:
                return self._cluster.answers(method, arguments, summed)
            except WorkersLost as error:
                self._give_up(f"takes no more work ({error})")
            except (deadline.DeadlinePassed, ValueError):  # ValueError: what is wrong with the data or the cluster
                raise
            except Exception as error:  # any: what fails there is done here, and fails here too if it must
                logger.warning("%s failed in a worker (%r); it is done here", method, error)
        each = [arguments[0]] * len(self.parts) if len(arguments) == 1 else arguments
        here = self.executor is None or self._cluster is not None
        found = self._map_here(method, each) if here else self._map_tasks(method, each)
        return [pairwise_sum(found, _added)] if summed else list(found)

    @cached_property
    def _cluster(self) -> Cluster | None:
        if self.executor is None or isinstance(self.executor, Executor):
            return None
        return Cluster(self.executor, self.parts, _call, _added)

    @cached_property
    def _here(self) -> dict[int, Any]:
        return {}

    def part(self, shard: int) -> Any:
        """A part that is kept in this process."""
        if shard not in self._here:
            self._here[shard] = self.parts[shard]
        return self._here[shard]

    def _map_here(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        for i, given in enumerate(arguments):
            deadline.check()
            yield _call(self.part(i), method, given)

    def _map_tasks(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """`map_each` by tasks of an executor."""
        if isinstance(self.executor, ThreadPoolExecutor):  # one memory: nothing is sent, nothing kept
            waiting = [self._submit(_call, self.part(i), method, given) for i, given in enumerate(arguments)]
            return [self._result(f, i, method, arguments[i]) for i, f in enumerate(waiting)]
        waiting = [self._submit(_work, (self._key, i), None, method, given) for i, given in enumerate(arguments)]
        answers = [self._result(f, i, method, arguments[i]) for i, f in enumerate(waiting)]
        unknown = [i for i, answer in enumerate(answers) if isinstance(answer, _Unknown)]
        again = [self._submit(_work, (self._key, i), self.parts[i], method, arguments[i]) for i in unknown]
        for i, future in zip(unknown, again):
            answers[i] = self._result(future, i, method, arguments[i])
        return answers

    def _submit(self, *task: Any) -> Future[Any] | None:
        """The task's future, or None where the executor takes none any more."""
        if self._given_up:
            return None
        assert isinstance(self.executor, Executor)
        try:
            return self.executor.submit(*task)
        except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: it was shut down
            self._give_up(f"takes no more work ({error!r})")
            return None

    def _result(self, future: Future[Any] | None, shard: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """What the future brings, or what this process computes where it brings nothing. Raises `DeadlinePassed` if
        the future brings nothing until the deadline."""
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
        return _call(self.part(shard), method, arguments)

    def _give_up(self, why: str) -> None:
        """Use the executor no more, and say so once."""
        if not self._given_up:
            self._given_up.append(why)
            logger.warning("the executor %s: what follows is done in this process", why)


def joined(found: Sequence[Any]) -> Any:
    """Arrays of the parts' examples, one after the other; of tuples, entry by entry. None where no part has one."""
    if isinstance(found[0], tuple):
        return tuple(joined(each) for each in zip(*found))
    arrays = [each for each in found if each is not None]
    return np.concatenate(arrays) if arrays else None


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(_added(*each) for each in zip(one, other))
    longest = max(_size(one), _size(other))
    return _padded(one, longest) + _padded(other, longest)


def _size(given: Any) -> int:
    return given.value.size if isinstance(given, RoundedArray) else np.size(given)


def _padded(vector: Any, longest: int) -> Any:
    """A vector with zeros at its end; anything else as it is."""
    if isinstance(vector, RoundedArray):
        return RoundedArray(_padded(vector.value, longest), _padded(vector.errors, longest))
    return np.pad(vector, (0, longest - len(vector))) if np.ndim(vector) == 1 else vector


@dataclass(frozen=True)
class _Unknown:
    """A worker's answer when it does not hold the part it was asked about."""


_held: OrderedDict[tuple[str, int], Any] = OrderedDict()
_lock = threading.Lock()  # a worker may run several threads, as Dask's do


def _work(key: tuple[str, int], sent: Any, method: str, arguments: tuple[Any, ...]) -> Any:
    """In a worker: ``method(*arguments)`` of the part called ``key``, kept here or sent along."""
    with _lock:
        held = _held.get(key, sent)
        if held is None:
            return _Unknown()
        _held[key] = held
        _held.move_to_end(key)
        while len(_held) > KEPT_PARTS:
            _held.popitem(last=False)
    return _call(held, method, arguments)


def _call(part: Any, method: str, arguments: tuple[Any, ...]) -> Any:
    keep_freed()
    return attrgetter(method)(part.problem() if isinstance(part, FilePart) else part)(*arguments)
