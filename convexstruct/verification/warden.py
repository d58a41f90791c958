"""The warden: a process between ours and a worker with foreign code, which ends every process the worker started.

It runs no foreign code. When the worker ends, or the other end of the warden's line closes (on request, or because our
process has ended for whatever reason), it ends the worker and all processes that the worker started, and then itself.
On Linux it adopts orphans, so that a process which left the worker's group is found too; on other POSIX systems it ends
the group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Callable
from typing import NoReturn

#: Seconds that the warden has to end the processes that the worker started; after them it is ended itself.
GRACE_SECONDS = 5.0
#: Whether a process can be given a warden.
POSIX = os.name == "posix"
LINUX = sys.platform.startswith("linux")
#: A message of the warden: b"born" and the worker's process number, b"exit" and its exit code, or b"done" and 0 when
#: all processes have ended.
NOTICE = struct.Struct(">4si")

#: Numbers of options of Linux's prctl: a signal to this process when its parent ends; this process adopts orphans.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

#: What a worker runs; the argument is its end of the pipe.
Work = Callable[[socket.socket], None]


def guard(line: socket.socket, pipe: socket.socket, work: Work) -> None:
    """Fork the worker, wait until it or the line ends, and end whatever is left of it."""
    with contextlib.suppress(OSError):
        os.setsid()  # an interrupt from the keyboard goes to the process that started the warden, and that ends it
    _control(PR_SET_CHILD_SUBREAPER, 1)
    signal.set_wakeup_fd(-1)
    me = os.getpid()
    worker = fork()
    if worker == 0:

        def begin() -> None:
            line.close()
            _enter(me)
            work(pipe)

        leave(begin)
    pipe.close()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # with a handler, a child's end writes to the waker
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    with contextlib.suppress(OSError):
        line.sendall(NOTICE.pack(b"born", worker))
        while (code := _collect().get(worker)) is None and line not in ready([line, woken], 1.0):
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
        if code is not None:
            line.sendall(NOTICE.pack(b"exit", code))
    _sweep(worker)
    with contextlib.suppress(OSError):
        line.sendall(NOTICE.pack(b"done", 0))


def _enter(warden: int) -> None:
    """Prepare the worker: a session of its own, ended when the warden ends; the first process that Linux ends where
    memory is short; no core file, no standard input, and standard error in place of standard output."""
    os.setsid()
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != warden:
        os._exit(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number, to in ((0, nowhere), (1, 2)):
        try:
            os.dup2(to, number)  # there is nothing to read, and standard output is for the result alone
        except OSError:
            os.dup2(nowhere, number)
    os.close(nowhere)
    sys.stdin, sys.stdout = open(0, closefd=False), sys.stderr  # noqa: SIM115  # open as long as the process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError, ImportError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if LINUX:
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")


def _control(option: int, value: int) -> None:
    """Linux's prctl; nothing elsewhere."""
    if LINUX:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _collect() -> dict[int, int]:
    """Exit codes of the children that have ended, by process."""
    ended = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    return ended


def _sweep(worker: int) -> None:
    """End the worker's group, then, as long as there are any, the children that this process has or adopts."""
    deadline = time.monotonic() + GRACE_SECONDS
    with contextlib.suppress(OSError):
        os.killpg(worker, signal.SIGKILL)
    while time.monotonic() < deadline:
        for child in _children():
            kill(child)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """The living children of this process, on Linux; elsewhere none is known but the worker, whose group is ended."""
    found = []
    if LINUX:
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat") as file:
                # After the command in brackets, which may hold anything: the state, then the parent.
                if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
    return found


def leave(work: Callable[[], object]) -> NoReturn:
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


def fork() -> int:
    with warnings.catch_warnings():
        # From Python 3.12 a fork beside threads is warned about; the child only computes, then ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def kill(process: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(process, signal.SIGKILL)


def ready(sockets: list[socket.socket], seconds: float) -> list[socket.socket]:
    """The sockets that can be read, after at most so many seconds. (`select.select` fails from descriptor 1024 on.)"""
    if not POSIX:
        return select.select(sockets, [], [], max(seconds, 0.0))[0]
    poll = select.poll()
    for each in sockets:
        poll.register(each, select.POLLIN)
    known = {each.fileno(): each for each in sockets}
    return [known[number] for number, _ in poll.poll(1000 * max(seconds, 0.0))]
