"""Processes and signals of the command line: worker processes for experiments, and how a signal ends a command."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn

#: Environment variables from which linear algebra libraries read their number of threads when they are loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Ending:
    """``with Ending() as ending``: SIGTERM ends the work as Ctrl-C does. code : the exit status of a run that it ended.

    A solver that is interrupted returns its best iterate instead of raising; so code that runs several solvers calls
    `check` after each.
    """

    def __init__(self) -> None:
        self.code = 128 + signal.SIGINT
        self._over = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Ending:
        if threading.current_thread() is threading.main_thread():  # elsewhere no signal arrives
            heeded = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._end) for number in heeded}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _end(self, number: int, frame: object) -> NoReturn:
        self.code, self._over = 128 + number, True
        raise KeyboardInterrupt(self.code)

    def check(self) -> None:
        """Raise KeyboardInterrupt, with the exit status, if a signal has come."""
        if self._over:
            raise KeyboardInterrupt(self.code)


@contextmanager
def one_a_core(quick: bool = False, most: int | None = None) -> Iterator[Executor | None]:
    """An executor with a process for each core that this process may use, at most ``most``. None where there is one
    core, and for a quick run, in which starting the processes takes longer than they save. The processes start with the
    first call, use one thread each for linear algebra, and are ended where the work is interrupted."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = cores if most is None else min(cores, most)
    if quick or cores == 1:
        yield None
        return
    for name in THREADS:
        os.environ.setdefault(name, "1")
    executor = ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"), initializer=_leave_interrupts)
    try:
        yield executor
    except BaseException:
        end(executor)
        raise
    executor.shutdown()


def end(executor: Executor) -> None:
    """Wait for nothing that the processes of `one_a_core` still do."""
    executor.shutdown(wait=False, cancel_futures=True)
    for child in multiprocessing.active_children():
        child.terminate()


def _leave_interrupts() -> None:
    """Ignore Ctrl-C, which reaches every process of a terminal: the process that waits for the others handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
