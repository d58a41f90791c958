"""Processes of the command line: one a core for the draws of an experiment, and how a signal ends the work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn

#: What linear algebra reads its number of threads from, when it is loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Ending:
    """``with Ending() as ending``: SIGTERM ends the work as Ctrl-C does. code : the exit status of a run so ended.

    A solver that is interrupted returns what it has; so whoever runs several asks `check` after each.
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
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self._over:
            raise KeyboardInterrupt


@contextmanager
def one_a_core(quick: bool) -> Iterator[Executor | None]:
    """A process for each core that this one may use; None for one core, and for a quick run, which would wait for them
    longer than they help. They start with the first call, have one thread each in their linear algebra, and are ended
    where the work is interrupted."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if quick or cores == 1:
        yield None
        return
    for name in THREADS:
        os.environ.setdefault(name, "1")
    executor = ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"), initializer=_leave_interrupts)
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    executor.shutdown()


def _leave_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal: the one that waits for the others decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
