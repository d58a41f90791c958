"""Shards on executors: a part is sent once, and what a worker loses or never answers is done in this process."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convexstruct import deadline
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Status
from convexstruct.datasets import HARD, ring
from convexstruct.families.generative_margin import GenerativeMargin, ProximalRSD
from convexstruct.families.structured_svm import OracleSVM, StructuredSVM
from convexstruct.inference import shards
from convexstruct.inference.shards import Shards, cuts


class Inline(Executor):
    """Runs each task at once, in this process but by the protocol for processes; fails on chosen tasks."""

    def __init__(self, failing: Callable[[int], bool] = lambda task: False, broken_from: int | None = None) -> None:
        self.tasks = 0
        self.sent = 0
        self._failing = failing
        self._broken_from = broken_from

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.tasks += 1
        self.sent += args[1] is not None
        if self._broken_from is not None and self.tasks >= self._broken_from:
            raise BrokenExecutor("a worker died")
        future: Future[Any] = Future()
        if self._failing(self.tasks):
            future.set_exception(BrokenExecutor("a worker died"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


class Frozen(Inline):
    """Does its first ``after`` tasks, then never answers.

    now : the clock of the test, in place of `time.perf_counter`: the seconds for which callers waited for an answer;
    infinity if one waited without a limit.
    """

    def __init__(self, after: int, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._after = after
        self.now = 0.0
        patch.setattr(time, "perf_counter", lambda: self.now)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return Unanswered(self) if self.tasks >= self._after else super().submit(fn, *args, **kwargs)


class Unanswered(Future[Any]):
    """The future of a task that is never answered: waiting for it takes the whole timeout."""

    def __init__(self, worker: Frozen) -> None:
        super().__init__()
        self._worker = worker

    def result(self, timeout: float | None = None) -> Any:
        self._worker.now += np.inf if timeout is None else timeout
        raise TimeoutError


@dataclass(frozen=True)
class Part:
    """Counts its calls in a file of ``folder``, if there is one. The first process other than ``home`` that works on
    the part ``deadly`` dies."""

    number: int
    folder: Path | None = None
    deadly: bool = False
    home: int = 0

    def work(self, x: float) -> float:
        if self.folder is not None:
            with (self.folder / f"done-{self.number}").open("a") as file:
                file.write("x")
            died = self.folder / "died"
            if self.deadly and os.getpid() != self.home and not died.exists():
                died.touch()
                os._exit(1)
        if x < 0:
            raise ValueError("x is below 0")
        return x * self.number


def three(executor: Executor) -> Shards:
    return Shards((Part(0), Part(1), Part(2)), executor)


def test_no_task_is_given_after_the_deadline() -> None:
    where = Inline()
    with deadline.within(0.0), pytest.raises(deadline.DeadlinePassed):
        three(where).map("work", 2.0)
    assert where.tasks == 0


def warned(caplog: pytest.LogCaptureFixture) -> Any:
    return caplog.at_level(logging.WARNING, logger="convexstruct.inference.shards")


@pytest.mark.parametrize("sizes", [[1], [5, 1, 1, 1], [1, 1, 1, 9], [2] * 7])
def test_shards_are_never_empty_and_hold_every_example(sizes: list[int]) -> None:
    for n_shards in (1, 2, 3, 100):
        at = cuts(np.array(sizes), n_shards)
        assert at[0] == 0
        assert at[-1] == len(sizes)
        assert len(at) - 1 <= min(n_shards, len(sizes))
        assert (np.diff(at) > 0).all()


def test_a_shard_is_sent_once() -> None:
    executor = Inline()
    cut = three(executor)
    for _ in range(4):
        assert cut.map("work", 2.0) == [0.0, 2.0, 4.0]
    assert executor.sent == 3
    assert executor.tasks == 3 * 4 + 3


def test_a_worker_that_has_dropped_a_shard_is_sent_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "KEPT_PARTS", 2)
    executor = Inline()
    cut = three(executor)
    for _ in range(3):
        assert cut.map("work", 2.0) == [0.0, 2.0, 4.0]
    assert executor.sent > 3


@pytest.mark.parametrize(
    "executor",
    [Inline(failing=lambda task: task == 5), Inline(failing=lambda task: task % 2 == 0), Inline(broken_from=5)],
    ids=["one task", "every other task", "all from the fifth on"],
)
def test_a_lost_task_is_done_again_and_a_broken_executor_is_told_once_and_used_no_more(
    executor: Inline, caplog: pytest.LogCaptureFixture
) -> None:
    cut = three(executor)
    with warned(caplog):
        for _ in range(20):
            assert cut.map("work", 2.0) == [0.0, 2.0, 4.0]
    assert len(caplog.records) == 1
    assert "done in this process" in caplog.text
    assert executor.tasks < 3 * 4


def test_an_error_in_the_work_itself_is_raised() -> None:
    with pytest.raises(ValueError, match="x is below 0"):
        three(Inline()).map("work", -1.0)


def small_problem() -> GenerativeMargin:
    data = ring(12, 8, 5, HARD, seed=2)
    return GenerativeMargin.hmm(data.symbols, data.states, 5, data.n_symbols, eta=0.2, loss="ring")


@pytest.mark.parametrize("after", [0, 40])
def test_a_frozen_worker_does_not_hold_the_driver_beyond_its_limit(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, executor = small_problem(), Frozen(after, monkeypatch)
    solution = solve(problem, ProximalRSD(), tol=1e-9, executor=executor, time_limit=0.5)
    assert executor.now == pytest.approx(0.5)
    assert solution.status is Status.TIME_LIMIT
    assert np.isfinite(solution.primal)
    assert np.isfinite(solution.lower_bound)
    assert (solution.iterations > 0) is (after > 0)


class Trivial:
    """Yields the trivial points, and asks no oracle: the last certificate is the first to ask."""

    def iterate(self, problem: Any, start: Any = None) -> Iterator[Iterate]:
        point, dual_point = problem.trivial()
        yield Iterate(point, dual_point, primal=np.inf, lower_bound=-np.inf, done=True)


def test_a_worker_that_freezes_in_the_last_certificate_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, rng = Frozen(0, monkeypatch), np.random.default_rng(0)
    problem = StructuredSVM.read([rng.normal(size=(3, 2)) for _ in range(4)], [[0, 1, 1]] * 4, 2, C=1.0)
    solution = solve(problem, Trivial(), executor=executor, time_limit=1.0)
    assert executor.now == pytest.approx(1.0)
    expected = certify(problem, *problem.trivial())
    assert (solution.primal, solution.lower_bound) == (expected.primal, expected.lower_bound)


def killed(where: Any, folder: Path) -> None:
    """Three rounds, in one of which a worker dies: the answers are right, and each part is done once more at most."""
    parts = tuple(Part(i, folder, i == 3, os.getpid()) for i in range(6))
    lost = Shards(parts, where)
    for _ in range(3):
        assert lost.map("work", 2.0) == [2.0 * i for i in range(6)]
    assert (folder / "died").exists()
    assert all(len((folder / f"done-{i}").read_text()) <= 3 + 1 for i in range(6))


def test_a_worker_killed_in_mid_round_costs_what_was_not_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as processes, warned(caplog):
        killed(processes, tmp_path)
    assert "done in this process" in caplog.text or "done here" in caplog.text


def unpicklable() -> OracleSVM:
    return StructuredSVM.from_oracle(
        lambda x, y: np.array([float(y[0]), x]), lambda y, z: float(y[0] != z[0]),
        lambda x, y, w: [int(w[0] > 0) if y is None else 1 - int(y[0])], [(1.0, [0]), (2.0, [1])], C=1.0,
    )  # fmt: skip


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_functions_that_do_not_pickle_are_called_in_threads_or_here(
    processes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    problem, w = unpicklable(), np.array([0.5, -1.0])
    fork = multiprocessing.get_context("fork")
    where: Executor = ProcessPoolExecutor(1, mp_context=fork) if processes else ThreadPoolExecutor(1)
    with where as executor, warned(caplog) if processes else nullcontext():
        found = shards.sharded(problem, executor, 2).most_violated(w)
    assert np.array_equal(found.hinge, problem.most_violated(w).hinge)
    assert ("it is done here" in caplog.text) is processes
