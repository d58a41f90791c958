"""Parts of a batch on the workers of a Dask cluster: each is sent once and stays there; arguments reach the workers by
a tree, and sums come back by one. A round is one task a thread, for all of its parts, beside copies and sums.

All of this is tasks, so that a worker that dies or hangs holds nobody: the scheduler tells, a part that was lost is
sent to another worker, and the round is done again, as often as Dask allows a task to fail
(``distributed.scheduler.allowed-failures``). A worker that hangs is dead to the scheduler after
``distributed.scheduler.worker-ttl``, 5 minutes by default. The scheduler keeps a copy of each part.
"""

from __future__ import annotations

import importlib.metadata
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from convexstruct import deadline
from convexstruct.validation.arguments import refuse, sentence

if TYPE_CHECKING:
    from distributed import Client, Future

#: Seconds between two looks at whether a worker has died during a round.
POLL_SECONDS = 1.0


#: A worker, by its address, and which of its threads.
Place = tuple[str, int]


class WorkersLost(Exception):
    """Workers died in every attempt, or there are none, or the scheduler is gone."""


def is_client(executor: Any) -> bool:
    """Whether this is a Dask client. ValueError if it is the executor of one, which hides where data lie."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    if isinstance(executor, distributed.cfexecutor.ClientExecutor):
        refuse("executor", executor, "the Dask client itself")
    return isinstance(executor, distributed.Client)


def pairwise_sum(parts: Iterable[Any], add: Callable[[Any, Any], Any]) -> Any:
    """The sum of at least one part, neighbours first, then pairs of neighbours: in the same order wherever they lie.
    Sums of parts that come one after the other are kept as few as may be, log2 of their number."""
    sums: list[tuple[int, Any]] = []  # how often each was paired, and the sum
    for found in parts:
        paired = 0
        while sums and sums[-1][0] == paired:
            paired, found = paired + 1, add(sums.pop()[1], found)
        sums.append((paired, found))
    total = sums.pop()[1]
    while sums:
        total = add(sums.pop()[1], total)
    return total


class Cluster:
    """Parts on the workers of ``client``'s cluster, which stays the caller's; ``call`` (part, method, arguments) works
    on one, ``add`` sums what two of them return."""

    def __init__(self, client: Client, parts: Sequence[Any], call: Callable[..., Any], add: Callable[..., Any]) -> None:
        self.client, self.parts, self.call, self.add = client, parts, call, add
        self.places: list[Place] = [("", 0)] * len(parts)
        self.held: list[Future | None] = [None] * len(parts)

    def answers(self, method: str, arguments: Sequence[tuple[Any, ...]], summed: bool) -> list[Any]:
        """``method(*arguments[i])`` of part i, for every part; one tuple of arguments is for all. summed : their sum
        alone. Raises `WorkersLost`, `DeadlinePassed`, or the error of a task."""
        import dask

        for _ in range(1 + dask.config.get("distributed.scheduler.allowed-failures")):
            if not self._place():
                continue
            places = sorted(set(self.places))
            found = self._gathered(self._submit(places, method, arguments, summed))
            if found is not None and not summed:
                answers = dict(zip(places, map(iter, found)))
                found = [next(answers[place]) for place in self.places]
            if found is not None:
                return found
        raise WorkersLost("workers died in every attempt")

    def _gathered(self, wanted: Sequence[Future]) -> list[Any] | None:
        """What the tasks return; None where a worker that has a part died meanwhile. Raises as `answers` does."""
        import distributed

        while not self._lost():
            try:
                distributed.wait(wanted, min(POLL_SECONDS, deadline.left()))
                return list(self.client.gather(wanted))
            except CancelledError:
                break
            except TimeoutError:
                deadline.check()
        return None

    def _submit(
        self, places: Sequence[Place], method: str, arguments: Sequence[tuple[Any, ...]], summed: bool
    ) -> list[Future]:
        """The futures of a round, one a place, or of the sum alone."""
        shared = len(arguments) == 1
        if shared:
            workers, copies = sorted({worker for worker, _ in places}), list(arguments)
            for i, worker in enumerate(workers):  # the first has them from here, each hands them on to two
                copies.append(self._task(_same, copies[(i + 1) // 2], at=worker))
            copy = dict(zip(workers, copies[1:]))
        found = []
        for place in places:
            mine, worker = [i for i, each in enumerate(self.places) if each == place], place[0]
            given = [copy[worker]] * len(mine) if shared else [arguments[i] for i in mine]
            task = self.call, self.add if summed else None, method, [self.held[i] for i in mine], given
            found.append(self._task(_work, *task, at=worker, name=method))
        return [pairwise_sum(found, lambda one, other: self._task(self.add, one, other))] if summed else found

    def _task(self, function: Callable[..., Any], *arguments: Any, at: str | None = None, name: str = "") -> Future:
        """A task, on the worker ``at`` if one is named. Dask's dashboard groups tasks by what their keys begin with."""
        key = f"{name or function.__name__.strip('_')}-{uuid.uuid4().hex}"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # a part, once
            return self.client.submit(function, *arguments, key=key, workers=at and [at], pure=False)

    def _place(self) -> bool:
        """Send the parts that no worker holds: neighbours to one worker, as many to each as it has threads. False where
        a worker died meanwhile; ValueError unless all have this version of the package."""
        threads = self._threads() if None in self.held or self._lost() else {}
        if not threads:
            return True
        workers = sorted(threads)
        places = [(worker, thread) for worker in workers for thread in range(threads[worker])]
        for i, (worker, _) in enumerate(self.places):
            if worker not in threads:
                self.places[i] = place = places[i * len(places) // len(self.parts)]
                self.held[i] = self._task(_same, self.parts[i], at=place[0], name="part")
        own, asked = importlib.metadata.version("convexstruct"), (importlib.metadata.version, "convexstruct")
        wanted = f"wanted convexstruct {own}, as here"
        try:
            versions = self._gathered([self._task(*asked, at=worker) for worker in workers])
        except importlib.metadata.PackageNotFoundError:
            raise sentence(f"executor has a worker without convexstruct, {wanted}") from None
        for worker, version in zip(workers, versions or ()):
            if version != own:
                raise sentence(f"executor has the worker {worker} with convexstruct {version}, {wanted}")
        return versions is not None

    def _lost(self) -> bool:
        """Whether a worker that has a part is gone."""
        return not self._threads().keys() >= {worker for worker, _ in self.places}

    def _threads(self) -> Mapping[str, int]:
        """The threads of each worker. Raises `WorkersLost` if there is none."""
        try:
            threads: Mapping[str, int] = self.client.nthreads() if self.client.status == "running" else {}
        except OSError:
            threads = {}
        if not threads:
            raise WorkersLost("the cluster has no workers")
        return threads


def _same(given: Any) -> Any:
    return given


def _work(
    call: Callable[..., Any], add: Callable[[Any, Any], Any] | None, method: str, parts: list[Any], arguments: list[Any]
) -> Any:
    """In a worker: what each of its ``parts`` answers, or the sum of that."""
    found = (call(part, method, given) for part, given in zip(parts, arguments))
    return list(found) if add is None else pairwise_sum(found, add)
