"""A process for foreign code, which ends with everything that the code started.

Three processes take part: ours; the *worker*, which runs the foreign code in a session of its own; and between them the
*guard*, which runs none of it. When the worker ends, or our process ends or asks for it, the guard kills the worker's
group and the tree of processes below it, as psutil sees it, until nothing is left. On Linux the guard adopts orphans,
so a process that left the group and the session by a second fork is in that tree too; elsewhere such a
process is known by a mark in the environment with which the interpreter of the worker was started.

We send a line of text for each request through a pipe that only the worker reads. It answers with a file in a folder of
ours, which appears whole (it is renamed when it is complete) under a name that the request tells. So what the code
prints, or writes to any descriptor that it finds, is no part of an answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import psutil

#: Seconds that the guard has to end the processes that the worker started.
GRACE_SECONDS = 5.0
#: Seconds between two looks: of our process for an answer, of the guard for the ends of the worker and our process.
LOOK_SECONDS, GUARD_SECONDS = 0.002, 0.05
#: Bytes that an answer may have: 32 million numbers.
MOST_BYTES = 1 << 28
LINUX = sys.platform.startswith("linux")
#: Numbers of options of Linux's prctl: a signal to this process when its parent ends; this process adopts orphans.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

#: The environment variable that marks what a fresh worker starts; its value is the folder of the worker's answers.
MARK = "CONVEXSTRUCT_WORKER"

#: What a worker runs; the argument is the file descriptor of its requests, one a line.
Work = Callable[[int], None]


class Ended(Exception):
    """The worker is gone; the text says how, as the rest of a sentence."""


def regular(path: Path) -> bytes:
    """What is in a file of foreign code; ValueError, the rest of a sentence, if it is no regular file or too long."""
    if not path.is_file():
        raise ValueError("is no regular file")
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"is longer than the {MOST_BYTES} bytes that are read")
    return raw


class Guarded:
    """A worker and its guard. folder : where its answers appear."""

    def __init__(self, start: Callable[[int, int, Path], psutil.Process]) -> None:
        """start : starts the guard, given the file descriptors that it reads and writes, and the folder."""
        self.folder = Path(tempfile.mkdtemp(prefix="convexstruct-"))
        asked, self._requests = os.pipe()
        self._told, tell = os.pipe()
        self._said: list[int] = []
        self._guard = start(asked, tell, self.folder)
        os.close(asked)
        os.close(tell)

    def ask(self, request: str) -> None:
        """Send a request of one line. Whoever waits for the answer hears if the worker is gone."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, request.encode() + b"\n")

    def receive(self, name: str, seconds: float) -> bytes:
        """The answer ``name``. TimeoutError if it is not there after so many seconds, ValueError, the rest of a
        sentence, if it is no file of at most `MOST_BYTES`. Raises `Ended` if the worker ended first."""
        path, deadline = self.folder / name, time.monotonic() + seconds
        while not (over := self._over(0.0)) and not os.path.lexists(path):
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(LOOK_SECONDS)
        if over and not os.path.lexists(path):
            raise Ended(self._fate())
        if time.monotonic() > deadline:  # it is there, but we looked too late to know since when
            raise TimeoutError
        try:
            return regular(path)
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from None

    def _over(self, seconds: float) -> bool:
        """Whether the guard, and so the worker, has ended after at most so many seconds."""
        with contextlib.suppress(psutil.TimeoutExpired):
            self._guard.wait(seconds)
            return True
        return False

    def _report(self) -> list[int]:
        """What an ended guard has told: the worker's process number, and its exit code once all is swept."""
        os.set_blocking(self._told, False)
        with contextlib.suppress(BlockingIOError):
            self._said += map(int, os.read(self._told, 1000).split())
        return self._said

    def _fate(self) -> str:
        match self._report():
            case [_, code] if code >= 0:
                return f"ended its process (exit code {code})"
            case [_, code]:
                return f"ended its process (signal {next((s.name for s in signal.Signals if s == -code), -code)})"
        return "ended the process that guards it"

    def end(self) -> None:
        """End the worker and all it started; returns when they are gone."""
        if not self._over(0.0):
            self._guard.terminate()
        if not self._over(2 * GRACE_SECONDS):
            self._guard.kill()
            self._over(GRACE_SECONDS)
        if len(self._report()) == 1:  # the guard was ended by force before it could end the others
            with contextlib.suppress(OSError):
                os.killpg(self._said[0], signal.SIGKILL)
        os.close(self._requests)
        os.close(self._told)
        shutil.rmtree(self.folder, ignore_errors=True)


def forked(work: Work) -> Guarded:
    """Run ``work`` in a fork of this process; it may be any function, also a closure."""
    ours = os.getpid()

    def start(asked: int, tell: int, folder: Path) -> psutil.Process:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()  # else both processes would write what is still in the buffers
        child = _fork()
        if child == 0:
            _leave(lambda: guard(work, asked, tell, ours, folder))
        return psutil.Process(child)

    return Guarded(start)


def fresh(program: str, text: str) -> Guarded:
    """Run the Python ``program`` in a new interpreter. It finds in ``given`` what `guard` takes after its first
    argument, and in ``text`` the text."""
    begin = f"import json, sys\ntext, sys.path[:], given = json.loads(sys.argv.pop())\n{program}"

    def start(asked: int, tell: int, folder: Path) -> psutil.Process:
        both = json.dumps([text, sys.path, [0, 1, os.getpid(), str(folder)]])
        marked = os.environ | {MARK: str(folder)}
        return psutil.Popen([sys.executable, "-c", begin, both], stdin=asked, stdout=tell, env=marked)

    return Guarded(start)


# -- in the guard ------------------------------------------------------------------------------------------------------


def guard(work: Work, asked: int, tell: int, ours: int, folder: str | Path) -> NoReturn:
    """Start the worker, wait until it or our process ends, or until SIGTERM, kill whatever is left of it, and leave."""
    signal.set_wakeup_fd(-1)
    with contextlib.suppress(OSError):
        os.setsid()  # an interrupt from the keyboard goes to our process, and that ends the guard
    _control(PR_SET_CHILD_SUBREAPER, 1)
    me, worker, code = psutil.Process(), None, 0
    with contextlib.suppress(SystemExit):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        child = _fork()
        if child == 0:
            os.environ["CONVEXSTRUCT_CACHE"] = str(folder)  # the user's is not for foreign code
            _leave(lambda: work(_enter(me.pid, asked, tell)))
        worker = psutil.Process(child)
        os.write(tell, b"%d " % child)
        while os.getppid() == ours:
            with contextlib.suppress(psutil.TimeoutExpired):
                code = worker.wait(GUARD_SECONDS)
                break
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if worker is not None:
        with contextlib.suppress(OSError):
            os.killpg(worker.pid, signal.SIGKILL)
    deadline = time.monotonic() + GRACE_SECONDS
    while left := _left(me, str(folder)):
        for each in left:
            with contextlib.suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(left, GUARD_SECONDS)
        if time.monotonic() > deadline:
            break
    with contextlib.suppress(OSError):
        os.write(tell, b"%d" % code)
    if os.getppid() != ours:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _left(me: psutil.Process, mark: str) -> list[psutil.Process]:
    """The processes below this one, and, where orphans are not adopted, those that have the mark."""
    found: list[psutil.Process] = me.children(recursive=True)
    for each in () if LINUX else psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if each != me and each.environ().get(MARK) == mark and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


def _enter(parent: int, asked: int, tell: int) -> int:
    """Prepare the worker: a session of its own, ended when the guard ends; the first process that Linux ends where
    memory is short; no core file, no standard input, and standard error in place of standard output. Returns a file
    descriptor of the requests that programs which the foreign code starts do not have."""
    import resource  # only where there is a fork

    os.setsid()
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    requests = os.dup(asked)
    os.close(tell)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stdin, sys.stdout = open(0, closefd=False), sys.stderr  # noqa: SIM115  # open as long as the process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if LINUX:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    return requests


def _control(option: int, value: int) -> None:
    """Linux's prctl; nothing elsewhere."""
    if LINUX:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _leave(work: Callable[[], object]) -> NoReturn:
    """Do ``work`` and end this process at once: neither its callers nor their exit handlers run after it."""
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:
        with contextlib.suppress(BaseException):
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


def _fork() -> int:
    with warnings.catch_warnings():
        # From Python 3.12 a fork beside threads is warned about; the child only computes, then ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
