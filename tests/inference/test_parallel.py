"""Shards on executors: their values are the serial ones, also where workers fail."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.arrays import Point
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Status
from convexstruct.datasets import HARD, ring
from convexstruct.families.generative_margin import GenerativeMargin, ProximalRSD
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.features.counts.part import part
from convexstruct.inference import shards
from convexstruct.inference.parallel import ShardedOracle, shard, sharded
from convexstruct.tolerances import ROUNDING


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


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


def chains_of_unequal_lengths() -> HMMCounts:
    rng = np.random.default_rng(3)
    lengths = [1, 7, 3, 3, 12, 1, 5]
    hidden = [rng.random(n) < 0.7 for n in lengths]
    for mask in hidden:
        mask[0] = True
    return HMMCounts.read(
        [rng.integers(0, 4, n) for n in lengths], [rng.integers(0, 3, n) for n in lengths], 3, 4, "ring", hidden,
        rng.uniform(0.5, 2, len(lengths)),
    )  # fmt: skip


def network_with_many_hidden_sets() -> NetworkCounts:
    graph = nx.DiGraph([("a", "b"), ("b", "c"), ("a", "d")])
    for node, states in zip("abcd", (2, 3, 2, 3)):
        graph.nodes[node]["states"] = states
    rng = np.random.default_rng(5)
    assignments = np.stack([rng.integers(0, graph.nodes[v]["states"], 9) for v in graph.nodes], axis=1)
    hidden = [["a"], ["b", "c"], ["a"], ["d"], ["b", "c"], ["a", "b", "c", "d"], ["d"], ["a"], ["b", "c"]]
    return NetworkCounts.read(graph, assignments, hidden, weights=rng.uniform(0.5, 2, 9))


MAPS = {"chains": chains_of_unequal_lengths, "network": network_with_many_hidden_sets}


@pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("n_shards", [1, 2, 3, 50])
def test_shards_give_the_values_of_the_whole(features: Callable[[], Counts], n_shards: int) -> None:
    whole = features()
    cut = shard(whole, Inline(), n_shards)
    assert 1 <= len(cut.shards.parts) <= n_shards
    assert sum(len(s.examples) for s in cut.shards.parts) == len(whole.examples)
    theta = np.random.default_rng(7).normal(size=whole.tables.dimension) * 3
    for loss_weight in (0.0, 1.0, 2.5):
        serial, labels = whole.best(theta, loss_weight)
        values, found = cut.best(theta, loss_weight)
        assert np.array_equal(values, serial)
        assert np.array_equal(found, labels)
        here, there = cut.expected(theta, loss_weight), whole.expected(theta, loss_weight)
        assert np.allclose(here.log_partition, there.log_partition, rtol=ROUNDING, atol=0)
        assert np.allclose(here.counts, there.counts, rtol=ROUNDING, atol=ROUNDING)
        assert here.loss == pytest.approx(there.loss, rel=ROUNDING)


@pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)
def test_a_part_knows_its_own_examples(features: Callable[[], Counts]) -> None:
    whole = features()
    for low, high in ((0, 2), (2, 7), (6, 7)):
        some = part(whole, low, high)
        inside = (whole.examples.example >= low) & (whole.examples.example < high)
        assert np.array_equal(some.examples.truth, whole.examples.truth[inside])
        assert np.array_equal(some.examples.example, whole.examples.example[inside] - low)
        assert np.array_equal(some.examples.free, whole.examples.free[inside])
        assert np.array_equal(some.examples.cards, whole.examples.cards[inside])
        assert np.array_equal(some.examples.weights, whole.examples.weights[low:high])
        assert np.array_equal(some.examples.max_loss, whole.examples.max_loss[low:high])
        each = whole.counts_each(whole.examples.truth).toarray()[low:high]
        assert np.array_equal(some.counts_each(some.examples.truth).toarray(), each)


def test_a_shard_is_sent_once() -> None:
    executor = Inline()
    whole = chains_of_unequal_lengths()
    cut = shard(whole, executor, 3)
    theta = np.zeros(whole.tables.dimension)
    for _ in range(4):
        cut.best(theta)
    assert len(cut.shards.parts) == 3
    assert executor.sent == 3
    assert executor.tasks == 3 * 4 + 3


def test_a_worker_that_has_dropped_a_shard_is_sent_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "KEPT_PARTS", 2)
    whole = chains_of_unequal_lengths()
    cut = shard(whole, Inline(), 3)
    theta = np.linspace(0, 5, whole.tables.dimension)
    for _ in range(3):
        assert np.array_equal(cut.best(theta)[1], whole.best(theta)[1])


@pytest.mark.parametrize(
    "executor",
    [Inline(failing=lambda task: task == 5), Inline(failing=lambda task: task % 2 == 0), Inline(broken_from=5)],
    ids=["one task", "every other task", "all from the fifth on"],
)
def test_a_lost_task_is_done_again_with_a_warning(executor: Inline, caplog: pytest.LogCaptureFixture) -> None:
    whole = chains_of_unequal_lengths()
    cut = shard(whole, executor, 3)
    theta = np.linspace(-1, 1, whole.tables.dimension)
    with caplog.at_level(logging.WARNING, logger="convexstruct.inference.shards"):
        for _ in range(4):
            assert np.array_equal(cut.best(theta)[1], whole.best(theta)[1])
            assert np.allclose(cut.expected(theta).counts, whole.expected(theta).counts, rtol=ROUNDING)
    assert "done here" in caplog.text or "done in this process" in caplog.text


def test_an_error_in_the_work_itself_is_raised() -> None:
    whole = chains_of_unequal_lengths()
    cut = shard(whole, Inline(), 2)
    with pytest.raises(ValueError, match="reshape"):
        cut.best(np.zeros(whole.tables.dimension - 1))


def small_problem() -> GenerativeMargin:
    data = ring(12, 8, 5, HARD, seed=2)
    return GenerativeMargin.hmm(data.symbols, data.states, 5, data.n_symbols, eta=0.2, loss="ring")


@pytest.mark.slow
def test_threads_and_processes_reach_the_serial_bounds(processes: ProcessPoolExecutor) -> None:
    serial = solve(small_problem(), ProximalRSD(), tol=1e-4, max_iterations=150)
    with ThreadPoolExecutor(2) as threads:
        for executor in (threads, processes):
            solution = solve(small_problem(), ProximalRSD(), tol=1e-4, max_iterations=150, executor=executor)
            assert solution.status is serial.status
            assert solution.iterations == serial.iterations
            assert solution.primal == pytest.approx(serial.primal, rel=ROUNDING)
            assert solution.lower_bound == pytest.approx(serial.lower_bound, rel=ROUNDING)


@pytest.mark.slow
def test_workers_that_die_in_the_middle_are_survived(caplog: pytest.LogCaptureFixture) -> None:
    problem = small_problem()
    serial = solve(problem, ProximalRSD(), tol=1e-4, max_iterations=40)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:

        def kill(iterate: Any, trace: Any) -> None:
            if len(trace) == 5:
                executor.submit(os._exit, 1)

        with caplog.at_level(logging.WARNING, logger="convexstruct.inference.shards"):
            solution = solve(problem, ProximalRSD(), tol=1e-4, max_iterations=40, executor=executor, callback=kill)
    assert "done here" in caplog.text or "done in this process" in caplog.text
    assert solution.lower_bound == pytest.approx(serial.lower_bound, rel=ROUNDING)
    assert solution.primal == pytest.approx(serial.primal, rel=ROUNDING)
    again = certify(problem, solution.point, solution.dual_point)
    assert again.lower_bound == pytest.approx(solution.lower_bound, rel=ROUNDING)


@dataclass(frozen=True)
class Without:
    """A problem without examples."""

    family: str = "projection"

    def as_point(self, value: Any) -> Point:
        return {"x": np.asarray(value)}

    def primal(self, point: Point) -> float:
        return 0.0

    dual = primal

    def repair(self, point: Point) -> Point:
        return point

    def residuals(self, point: Point) -> dict[str, float]:
        return {}

    dual_residuals = residuals


def test_what_cannot_be_cut_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="n_shards is 0, wanted a whole number of at least 1"):
        sharded(small_problem(), Inline(), 0)
    with pytest.raises(
        ValueError, match="a Without of the family 'projection', which cannot be cut into shards, wanted None"
    ):
        sharded(Without(), Inline())
    with pytest.raises(ValueError, match=r"executor is 'threads', wanted a concurrent\.futures\.Executor"):
        sharded(small_problem(), "threads")  # type: ignore[arg-type]  # what a user may type


def test_a_broken_executor_is_told_once_and_used_no_more(caplog: pytest.LogCaptureFixture) -> None:
    whole, executor = chains_of_unequal_lengths(), Inline(broken_from=5)
    cut = shard(whole, executor, 3)
    theta = np.linspace(-1, 1, whole.tables.dimension)
    with caplog.at_level(logging.WARNING, logger="convexstruct.inference.shards"):
        for _ in range(100):
            assert np.array_equal(cut.best(theta)[1], whole.best(theta)[1])
    assert len(caplog.records) == 1
    assert executor.tasks == 5


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


def test_a_problem_in_shards_can_be_cut_again() -> None:
    problem = small_problem()
    cut = sharded(problem, Inline(), 2)
    assert isinstance(cut.oracle, ShardedOracle)
    again = sharded(cut, Inline(), 3)
    theta = problem.uniform()
    assert again.primal({"theta": theta}) == pytest.approx(problem.primal({"theta": theta}), rel=ROUNDING)


def test_the_default_solver_runs_on_shards() -> None:
    problem = small_problem()
    serial = solve(problem, tol=1e-4)
    solution = solve(problem, tol=1e-4, executor=Inline())
    assert solution.status is Status.OPTIMAL
    assert solution.lower_bound <= serial.primal * (1 + ROUNDING)
    assert serial.lower_bound <= solution.primal * (1 + ROUNDING)
