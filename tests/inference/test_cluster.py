"""Shards on a Dask cluster of two processes: what travels, and what is left of workers that die or hang."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution, Status
from convexstruct.datasets.example_files import write_examples
from convexstruct.families.generative_margin import EntropicProximal, GenerativeMargin
from convexstruct.families.log_linear import ConditionalRandomField, HiddenMarkov
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.inference import file_parts
from convexstruct.inference.cluster import Cluster, pairwise_sum
from convexstruct.inference.shards import Shards, Workers
from tests.inference.test_shards import killed

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

#: The most by which bounds on a cluster may differ from the serial ones, relative.
ALIKE = 1e-9
#: Set when workers that hang are to go on.
released = threading.Event()


@contextmanager
def clients(**options: Any) -> Iterator[Any]:
    given = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"} | options
    ready = {"distributed.worker.multiprocessing-method": "forkserver"}  # it has imported what a worker needs
    with dask.config.set(ready), distributed.LocalCluster(**given) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with clients() as found:
        yield found


@dataclass(frozen=True)
class Told:
    """Leaves a mark in ``folder`` each time that it reaches another process."""

    number: int
    folder: Path

    def __reduce__(self) -> Any:
        return _arrived, (self.number, self.folder)

    def work(self, w: Vector) -> Vector:
        return self.number * w

    def shift(self, w: Vector) -> Vector:
        return w + np.ones(2)

    def wait(self, w: Vector) -> Vector:
        while not (self.folder / "enough").exists():
            time.sleep(0.05)
        return w


def _arrived(number: int, folder: Path) -> Told:
    with (folder / f"sent-{number}-{os.getpid()}").open("a") as file:
        file.write("x")
    return Told(number, folder)


def outgoing(client: Any) -> int:
    """Bytes that workers have sent to others and to the client."""
    found = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
    return int(sum(found.values()))


def test_parts_are_sent_once_and_a_round_moves_twice_w_a_worker_at_most(client: Any, tmp_path: Path) -> None:
    rounds, w = 10, np.arange(5000.0)
    shards = Shards([Told(i, tmp_path) for i in range(4)], client)
    before = outgoing(client)
    for _ in range(rounds):
        assert np.array_equal(shards.total(Told(0, tmp_path).work, w), 6 * w)
    moved = (outgoing(client) - before) / rounds / w.nbytes / 2
    assert 0.5 < moved <= 2.0
    home = str(os.getpid())
    sent = [path for path in tmp_path.iterdir() if path.name.rpartition("-")[2] in workers(client)]
    assert {path.name.rpartition("-")[2] for path in tmp_path.iterdir()} >= set(workers(client)) - {home}
    assert [path.read_text() for path in sent] == ["x"] * 4


def workers(client: Any) -> list[str]:
    return [str(pid) for pid in client.run(os.getpid).values()]


#: Problems from files whose w is long beside what a task says of itself, and how each is run.
WIDE: dict[type, tuple[dict[str, Any], Any, int]] = {
    ConditionalRandomField: ({"C_mean": 1.0}, None, 4),
    StructuredSVM: ({"lam": 1e-2}, None, 2),
    HiddenMarkov: ({"n_states": 3}, None, 4),
    GenerativeMargin: ({"eta": 0.5}, EntropicProximal(max_steps=5), 1),
    RegularizedRisk: ({"loss": "multiclass", "lam": 1e-2}, None, 2),
}


@pytest.mark.parametrize("kind", WIDE, ids=lambda kind: kind.__name__)
def test_runs_from_files_have_the_serial_bounds_and_move_twice_w_a_worker_and_round_at_most(
    kind: Any, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, (given, solver, rounds), width = np.random.default_rng(3), WIDE[kind], 400
    for i in range(3):
        lengths = rng.integers(1, 9, 20)
        x, y = [rng.normal(size=(n, width)) for n in lengths], [rng.integers(0, 3, n) for n in lengths]
        symbols = [rng.integers(0, width, n) for n in lengths]
        write_examples(tmp_path / f"{i}.npz", x, y, 3, symbols=symbols, n_symbols=width)
    problem, asked, answers = kind.from_files(tmp_path, **given), [], Cluster.answers

    def counted(cluster: Any, method: str, *more: Any) -> Any:
        asked.append(method)
        return answers(cluster, method, *more)

    monkeypatch.setattr(Cluster, "answers", counted)
    before = outgoing(client)
    found = solve(problem, solver, tol=1e-6, max_iterations=rounds, executor=client)
    moved = (outgoing(client) - before) / 2 / sum(array.nbytes for array in found.point.values())
    assert 0.4 * len(asked) < moved <= 2.0 * len(asked)
    same(found, solve(problem, solver, tol=1e-6, max_iterations=rounds))


def test_arguments_reach_each_of_many_workers_once_by_a_tree(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with clients(processes=False, n_workers=7, threads_per_worker=2) as client:
        shards = Shards([Told(i, tmp_path) for i in range(20)], client)
        assert np.array_equal(shards.total(Told(0, tmp_path).work, np.ones(2)), np.full(2, 190.0))
        found = shards.map("work", np.ones(1))
        each = shards.map_each("work", [(np.full(1, 2.0),)] * 20)
    assert np.array_equal(np.concatenate([found, each], axis=1), [[i, 2.0 * i] for i in range(20)])
    assert "done here" not in caplog.text


def test_the_number_of_shards_is_that_of_the_threads_of_the_cluster(client: Any) -> None:
    assert Workers(client).many == 2
    assert Workers(client, 5).many == 5


def test_sums_are_by_pairs_of_neighbours() -> None:
    for n in range(1, 9):
        assert pairwise_sum([f"{i}" for i in range(n)], lambda a, b: a + b) == "".join(map(str, range(n)))
    assert pairwise_sum(list("abcde"), lambda a, b: f"({a}{b})") == "(((ab)(cd))e)"


def examples() -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 9, 60)
    return [rng.normal(size=(n, 6)) for n in lengths], [rng.integers(0, 4, n) for n in lengths]


def field() -> ConditionalRandomField:
    return ConditionalRandomField.read(*examples(), 4, lam=1e-3)


def filed(folder: Path) -> ConditionalRandomField:
    """`field` from three files."""
    x, y = examples()
    for i in range(0, 60, 20):
        write_examples(folder / f"{i}.npz", x[i : i + 20], y[i : i + 20], 4)
    problem: ConditionalRandomField = ConditionalRandomField.from_files(folder, lam=1e-3)
    return problem


def of_symbols(folder: Path) -> HiddenMarkov:
    """The labels of `examples` as symbols of a hidden Markov model, from three files."""
    _, y = examples()
    folder.mkdir()
    for i in range(0, 60, 20):
        write_examples(folder / f"{i}.npz", symbols=y[i : i + 20], n_symbols=4)
    return HiddenMarkov.from_files(folder, 3)


def same(found: Solution, serial: Solution) -> None:
    assert (found.status, found.iterations) == (serial.status, serial.iterations)
    assert found.primal == pytest.approx(serial.primal, rel=ALIKE)
    assert found.lower_bound == pytest.approx(serial.lower_bound, rel=ALIKE)


async def missed(scheduler: Any, worker: str) -> None:
    """The worker was last seen long ago, and the scheduler looks."""
    scheduler.workers[worker].last_seen -= 1e6
    await scheduler.check_worker_ttl()


def struck(client: Any, at: Mapping[int, int]) -> tuple[Any, list[int]]:
    """A callback that sends a worker that has parts the signal at[i] after round i, once there are two; and those sent.

    One that is stopped was last seen long ago, so that the scheduler has its nanny replace it.
    """
    sent: list[int] = []

    def callback(iterate: Any, trace: Any) -> None:
        if len(trace) not in at:
            return
        client.wait_for_workers(2, timeout=180)
        held = {worker: sum(key.startswith("part") for key in keys) for worker, keys in client.has_what().items()}
        worker, scheduler = max(held, key=lambda each: held[each]), client.cluster.scheduler
        os.kill(client.run(os.getpid, workers=[worker])[worker], at[len(trace)])
        sent.append(at[len(trace)])

        if sent[-1] == signal.SIGSTOP:
            scheduler.loop.add_callback(missed, scheduler, worker)

    return callback, sent


def test_workers_read_their_files_and_a_file_cut_in_mid_run_ends_it_with_a_sentence(
    client: Any, tmp_path: Path
) -> None:
    problem = filed(tmp_path)
    kept: list[int] = []

    def count(iterate: Any, trace: Any) -> None:
        kept.append(sum(client.run(lambda: len(file_parts._kept)).values()))

    found = solve(problem, tol=1e-6, executor=client, callback=count)
    same(found, solve(field(), tol=1e-6))
    assert kept[-1] == 3
    assert not file_parts._kept
    path = tmp_path / "20.npz"
    whole = path.read_bytes()

    def callback(iterate: Any, trace: Any) -> None:
        if len(trace) == 3:
            path.write_bytes(whole[:-1])

    unkept = ConditionalRandomField.from_files(tmp_path, lam=1e-3, memory=0)
    with pytest.raises(ValueError, match=rf"^{path} is no file .* it is no whole archive of arrays"):
        solve(unkept, tol=1e-6, executor=client, callback=callback, checkpoint=tmp_path / "run", every=1e-9)
    path.write_bytes(whole)
    assert Solution.load(tmp_path / "run", problem).primal >= found.lower_bound
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.npz", "20.npz", "40.npz", "run"]


def test_workers_that_are_killed_or_stopped_and_a_full_disk_change_nothing_and_leave_nothing(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Parts that this process sent, and parts that the workers read."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    symbols = of_symbols(tmp_path / "symbols")
    monkeypatch.setattr(os, "fsync", full)
    limit: Any = {"tol": 1e-6, "max_iterations": 20}
    killed, stopped = signal.SIGKILL, signal.SIGSTOP
    for problem, at in ((field(), {2: killed, 9: stopped}), (symbols, {5: killed, 9: killed})):
        callback, sent = struck(client, at)
        disk: Any = {"checkpoint": tmp_path / "run", "every": 1e-9}
        same(solve(problem, executor=client, callback=callback, **limit, **disk), solve(problem, **limit))
        assert sent == list(at.values())
    assert "the checkpoint was not written: [Errno 28] No space left on device" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["symbols"]


def test_a_worker_killed_in_mid_round_has_its_part_sent_to_another(client: Any, tmp_path: Path) -> None:
    killed(client, tmp_path)


def hang() -> None:
    """What a worker of one thread, in this process, is busy with until it is released."""
    released.wait()


def test_a_worker_that_hangs_holds_no_run_beyond_its_limit_and_is_given_up_when_the_scheduler_misses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, ahead = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + ahead[0])
    with clients(processes=False, n_workers=2) as client:
        worker, scheduler = client.cluster.workers[0], client.cluster.scheduler
        busy: list[Any] = []

        def callback(iterate: Any, trace: Any) -> None:
            if len(trace) == 2:
                busy.append(client.submit(hang, workers=[worker.address]))
                ahead[0] = 599.5

        try:
            found = solve(field(), tol=1e-9, executor=client, callback=callback, time_limit=600.0)
            assert found.status is Status.TIME_LIMIT
            assert np.isfinite([found.primal, found.lower_bound]).all()
            assert worker.address in client.nthreads()
            scheduler.loop.add_callback(scheduler.loop.call_later, 0.5, partial(missed, scheduler, worker.address))
            same(solve(field(), tol=1e-6, executor=client), solve(field(), tol=1e-6))
            assert worker.address not in client.nthreads()
        finally:
            released.set()


def test_a_cluster_that_ends_leaves_the_rest_to_this_process_and_the_checkpoint(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    serial, kept = solve(field(), tol=1e-6), tmp_path / "run"
    with clients(processes=False) as client:

        def callback(iterate: Any, trace: Any) -> None:
            if len(trace) == 3:
                client.cluster.close()
                assert Solution.load(kept, field()).iterations == 2

        same(solve(field(), tol=1e-6, executor=client, callback=callback, checkpoint=kept, every=1e-9), serial)
    assert "what follows is done in this process" in caplog.text


@pytest.mark.parametrize(
    ("version", "said"),
    [("0.0.1", r"the worker tcp://.* with convexstruct 0\.0\.1"), ("", "a worker without convexstruct")],
)
def test_a_worker_of_another_version_is_refused_in_one_sentence(client: Any, version: str, said: str) -> None:
    def forge() -> None:
        def forged(name: str) -> str:
            if version:
                return version
            raise importlib.metadata.PackageNotFoundError(name)

        there: Any = importlib.metadata
        there.true_version, there.version = there.version, forged

    def mend() -> None:
        there: Any = importlib.metadata
        there.version = there.true_version

    client.run(forge)
    with pytest.raises(ValueError, match=f"^executor has {said}, wanted convexstruct"):
        solve(field(), executor=client)
    client.run(mend)


def test_the_executor_of_a_client_is_refused(client: Any) -> None:
    with pytest.raises(ValueError, match="executor is a ClientExecutor, wanted the Dask client itself"):
        solve(field(), executor=client.get_executor())


def test_what_is_wrong_in_a_worker_is_raised_here(client: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="could not be broadcast"):
        Shards([Told(i, tmp_path) for i in range(2)], client).map("shift", np.ones(3))
    with deadline.within(0.5), pytest.raises(deadline.DeadlinePassed):
        Shards([Told(i, tmp_path) for i in range(2)], client).map("wait", np.ones(3))
    (tmp_path / "enough").touch()
