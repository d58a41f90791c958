"""A process for foreign code, which can be ended with everything that it started, and the pipe to it.

Three processes take part: this one, which sends requests and waits for answers, never beyond a deadline; the *worker*,
which runs the foreign code in a session of its own; and between them the *warden* (see
`convexstruct.verification.warden`), which ends the worker and all processes that the worker started. The *pipe* goes to
the worker, the *line* to the warden. Where there is neither fork nor process group (Windows) there is no warden, and
the worker alone is ended.

A message on the pipe is a frame: a mark, the nonce of the request, a length, the content. The foreign code and the
processes that it started can write to the pipe as well. So bytes that are not a frame end the worker, a frame with
another nonce is taken for the answer to an earlier request and skipped, and a frame whose length is above the limit is
refused before its content is read.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from convexstruct.verification.warden import GRACE_SECONDS, NOTICE, POSIX, Work, fork, guard, kill, leave, ready

#: First bytes of a frame, then 16 bytes of nonce and the length of what follows.
MARK = b"cxs1"
HEAD = struct.Struct(">4s16sQ")
#: Bytes that a message may have: 32 million numbers.
MOST_BYTES = 1 << 28
#: In place of the worker's exit code where the warden ended without reporting it.
WARDEN_GONE = -256

#: The program of a fresh interpreter. Its argument, in JSON: our import path, the function "module:name", the text that
#: the function takes, the file descriptors of the two sockets.
BOOT = """
import json, sys
given = json.loads(sys.argv[1])
sys.path[:], sys.argv[1:] = given["path"], []
from convexstruct.verification.enclosure import _booted
_booted(given)
"""


class Ended(Exception):
    """The worker is gone, or its end of the pipe closed; the text says how, as the rest of a sentence."""


class Garbled(Exception):
    """The bytes on the pipe are no valid answer; the text says what came, as the rest of a sentence."""


@dataclass
class Enclosure:
    """A running worker.

    pipe : our end of the pipe to the worker. line : our end of the line to the warden, None without a warden.
    reap : waits for the process that this one started (the warden, else the worker), at most so many seconds, and says
    whether it has ended. kill : ends that process at once.
    """

    pipe: socket.socket
    line: socket.socket | None
    reap: Callable[[float], bool]
    kill: Callable[[], None]
    _worker: int = field(default=0, init=False)
    _status: int | None = field(default=None, init=False)
    _over: bool = field(default=False, init=False)

    def send(self, nonce: bytes, content: bytes) -> None:
        """Send one message. Raises `Ended` if the other end is closed."""
        try:
            self.pipe.settimeout(GRACE_SECONDS)
            send(self.pipe, nonce, content)
        except OSError:
            raise Ended(self._fate(GRACE_SECONDS)) from None

    def receive(self, nonce: bytes, seconds: float) -> bytes:
        """The message with this nonce. TimeoutError if it was not whole after so many seconds. Raises `Ended` if the
        worker ended first. Raises `Garbled` if what came is no message, or too long."""
        deadline = time.monotonic() + seconds
        while True:
            mark, told, size = HEAD.unpack(self._take(HEAD.size, deadline))
            if mark != MARK:
                raise Garbled("writes to the pipe that carries its answers")
            if size > MOST_BYTES:
                raise Garbled(f"answers with {size} bytes, more than the {MOST_BYTES} that are read")
            content = self._take(size, deadline)
            if told == nonce:
                return content

    def _take(self, size: int, deadline: float) -> bytes:
        """The next ``size`` bytes of the pipe; TimeoutError after ``deadline``, Ended if there will be no more."""
        taken = bytearray()
        while len(taken) < size:
            left = deadline - time.monotonic()
            watched = [self.pipe] if self.line is None else [self.pipe, self.line]
            open_to_read = ready(watched, left) if left > 0 else []
            if not open_to_read:
                raise TimeoutError
            # The pipe comes first: an answer counts even if the worker has ended since.
            if self.pipe not in open_to_read:
                assert self.line is not None
                if self._heard() is None:
                    continue
                if not ready([self.pipe], 0.0):
                    raise Ended(self._fate(0.0))
            try:
                piece = self.pipe.recv(min(size - len(taken), 1 << 20))
            except OSError:
                piece = b""
            if not piece:
                raise Ended(self._fate(GRACE_SECONDS))
            taken += piece
        return bytes(taken)

    def _heard(self) -> int | None:
        """The worker's exit code if the warden has reported it by now; `WARDEN_GONE` if the warden itself is gone; else
        None."""
        while self.line is not None and not self._over and ready([self.line], 0.0):
            try:
                said = self.line.recv(NOTICE.size, socket.MSG_WAITALL)
            except OSError:
                said = b""
            self._over = len(said) < NOTICE.size
            kind, value = (b"over", 0) if self._over else NOTICE.unpack(said)
            if kind == b"born":
                self._worker = value
            elif kind == b"exit":
                self._status = value
            elif kind == b"done":
                self._worker = 0
            elif self._status is None:
                self._status = WARDEN_GONE
        return self._status

    def _fate(self, seconds: float) -> str:
        """How the worker ended, as the rest of a sentence; waits at most so many seconds for the warden to say."""
        deadline = time.monotonic() + seconds
        while (code := self._heard()) is None and self.line is not None:
            if not ready([self.line], deadline - time.monotonic()):
                break
        if code is None:
            return "closed the pipe that carries its answers"
        if code == WARDEN_GONE:
            return "ended the process that guards it"
        named = f"exit code {code}" if code >= 0 else f"signal {_signal(-code)}"
        return f"ended its process ({named})"

    def end(self) -> None:
        """End the worker and all it started; returns when they are gone."""
        if self.line is not None:
            with contextlib.suppress(OSError):
                self.line.shutdown(socket.SHUT_WR)
        else:
            self.kill()
        if not self.reap(GRACE_SECONDS):
            self.kill()
            self.reap(GRACE_SECONDS)
        if POSIX:
            self._heard()
            if self._worker > 0:  # the warden was ended by force before it reported that all processes are gone
                with contextlib.suppress(OSError):
                    os.killpg(self._worker, signal.SIGKILL)
        for end in (self.pipe, self.line):
            if end is not None:
                end.close()


def send(pipe: socket.socket, nonce: bytes, content: bytes) -> None:
    """Write one frame."""
    pipe.sendall(HEAD.pack(MARK, nonce, len(content)))
    pipe.sendall(content)


def requests(pipe: socket.socket) -> Iterable[tuple[bytes, bytes]]:
    """The worker's side: (nonce, content) of one request after another, until there are no more."""
    with pipe.dup() as own, own.makefile("rb") as file:
        while len(head := file.read(HEAD.size)) == HEAD.size:
            mark, nonce, size = HEAD.unpack(head)
            if mark != MARK or size > MOST_BYTES:
                return
            yield nonce, file.read(size)


def nonce() -> bytes:
    """16 random bytes that foreign code cannot guess."""
    return secrets.token_bytes(16)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


# -- starting ----------------------------------------------------------------------------------------------------------


def forked(work: Work) -> Enclosure:
    """Run ``work(pipe)`` in a fork of this process; ``work`` may be any function, also a lambda or a closure."""
    pipe, theirs = socket.socketpair()
    line, wardens = socket.socketpair()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()  # else both processes would write what is still in the buffers
    child = fork()
    if child == 0:

        def begin() -> None:
            pipe.close()
            line.close()
            guard(wardens, theirs, work)

        leave(begin)
    theirs.close()
    wardens.close()
    return Enclosure(pipe, line, functools.partial(_reap, child), functools.partial(kill, child))


def fresh(function: str, text: str) -> Enclosure:
    """``function(pipe, text)`` in a new interpreter, where ``function`` is "module:name"."""
    pipe, theirs = socket.socketpair()
    if not POSIX:
        return _spawned(pipe, theirs, function, text)
    line, wardens = socket.socketpair()
    given = {"path": sys.path, "function": function, "text": text, "sockets": [wardens.fileno(), theirs.fileno()]}
    command = [sys.executable, "-c", BOOT, json.dumps(given)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(wardens.fileno(), theirs.fileno())
    )
    theirs.close()
    wardens.close()

    def reap(seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    return Enclosure(pipe, line, reap, process.kill)


def _booted(given: dict[str, Any]) -> NoReturn:
    wardens, theirs = (socket.socket(fileno=number) for number in given["sockets"])
    for end in (wardens, theirs):
        end.set_inheritable(False)  # programs that the foreign code executes must not hold the pipe
    leave(lambda: guard(wardens, theirs, lambda pipe: _named(given["function"])(pipe, given["text"])))


def _named(function: str) -> Callable[[socket.socket, str], None]:
    module, _, name = function.partition(":")
    found: Callable[[socket.socket, str], None] = getattr(importlib.import_module(module), name)
    return found


def _spawned(pipe: socket.socket, theirs: socket.socket, function: str, text: str) -> Enclosure:
    """Without fork and process groups: the worker alone, without a warden."""
    import multiprocessing

    process = multiprocessing.get_context("spawn").Process(target=_named(function), args=(theirs, text))
    process.start()
    theirs.close()

    def reap(seconds: float) -> bool:
        process.join(seconds)
        return process.exitcode is not None

    return Enclosure(pipe, None, reap, process.kill)


def _reap(process: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if os.waitpid(process, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
