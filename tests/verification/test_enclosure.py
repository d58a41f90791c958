"""Hostile solvers: each gives one sentence in its row, the run goes on, and no process of theirs is left."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import json
import os
import pickle
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convexstruct.verification import cases_for, enclosure
from convexstruct.verification.enclosure import HEAD, MARK, MOST_BYTES
from convexstruct.verification.isolation import Answer, Entrant, _pack, _unpack
from tests.verification.toy import BEST, Box, case

#: Seconds after which a process that should have ended counts as left over.
PATIENCE = 20.0


def answer(solver: Callable[[Any], Any], limit: float = 20.0) -> Answer:
    with Entrant(solver) as entrant:
        return entrant.answer(case(), 0, limit)


def gone(process: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":  # ended; whoever adopted it has not asked for its exit code yet
            return True
        time.sleep(0.02)
    return False


def pipes() -> list[int]:
    """The sockets among the file descriptors from 3 up: the pipe of the answers is one of them."""
    found = []
    for number in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                found.append(number)
        except OSError:
            continue
    return found


def tell(content: bytes) -> None:
    for number in pipes():
        os.write(number, content)


def garbage(problem: Box) -> Any:
    tell(b"garbage" * 100)
    return BEST


def half_a_frame(problem: Box) -> Any:
    tell(MARK)
    time.sleep(600)


def half_an_answer(problem: Box) -> Any:
    tell(HEAD.pack(MARK, bytes(16), 1000) + bytes(10))
    time.sleep(600)


def a_frame_of_a_terabyte(problem: Box) -> Any:
    tell(HEAD.pack(MARK, bytes(16), 1 << 40))
    return BEST


def endless_frames(problem: Box) -> Any:
    while True:
        tell(HEAD.pack(MARK, bytes(16), 1000) + bytes(1000))


def a_large_answer(problem: Box) -> Any:
    return np.broadcast_to(0.0, (1 << 40,))


def all_of_memory(problem: Box) -> Any:
    return np.ones(1 << 50)


def segfault(problem: Box) -> Any:
    faulthandler.disable()  # pytest's, which would write a page on it
    ctypes.string_at(0)


def ends_itself(problem: Box) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def ends_its_guard(problem: Box) -> Any:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def ends_its_group(problem: Box) -> Any:
    os.killpg(0, signal.SIGTERM)
    time.sleep(600)


def deaf(problem: Box) -> Any:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


def interrupts(problem: Box) -> Any:
    raise KeyboardInterrupt


class Silent(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def raises_what_cannot_be_said(problem: Box) -> Any:
    raise Silent


def spoils_its_input(problem: Box) -> Any:
    object.__setattr__(problem, "c", None)
    return BEST


@pytest.mark.parametrize(
    ("solver", "trouble"),
    [
        (garbage, "writes to the pipe that carries its answers"),
        (half_a_frame, "did not return within 0.5 s"),
        (half_an_answer, "did not return within 0.5 s"),
        (endless_frames, "did not return within 0.5 s"),
        (deaf, "did not return within 0.5 s"),
        (a_frame_of_a_terabyte, f"answers with {1 << 40} bytes, more than the {MOST_BYTES} that are read"),
        (a_large_answer, f"returns {1 << 43} bytes, more than the {MOST_BYTES - (1 << 20)} that are read"),
        (all_of_memory, "raises "),
        (segfault, "ended its process (signal SIGSEGV) instead of returning"),
        (ends_itself, "ended its process (signal SIGKILL) instead of returning"),
        (ends_its_group, "ended its process (signal SIGTERM) instead of returning"),
        (ends_its_guard, "ended its process (signal SIGKILL) instead of returning|ended the process that guards it"),
        (interrupts, "raises KeyboardInterrupt"),
        (raises_what_cannot_be_said, "raises Silent"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_solver_that_means_harm_ends_as_one_sentence(solver: Callable[[Any], Any], trouble: str) -> None:
    got = answer(solver, limit=0.5)
    assert any(got.trouble.startswith(part) for part in trouble.split("|")), got.trouble
    assert "\n" not in got.trouble
    np.testing.assert_array_equal(answer(lambda problem: BEST).point, BEST)


def test_an_input_that_can_no_longer_be_read_was_changed() -> None:
    assert answer(spoils_its_input).changed


def test_a_pipe_that_the_solver_closes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def closes(problem: Box) -> Any:
        for number in pipes():
            os.close(number)
        time.sleep(600)

    def shuts(problem: Box) -> Any:
        for number in pipes():
            socket.socket(fileno=os.dup(number)).shutdown(socket.SHUT_RDWR)
        time.sleep(600)

    monkeypatch.setattr(enclosure, "GRACE_SECONDS", 0.5)
    for solver in (closes, shuts):
        assert answer(solver).trouble == "closed the pipe that carries its answers instead of returning"


def test_an_answer_to_another_request_is_passed_over() -> None:
    def early(problem: Box) -> Any:
        forged = _pack({"trouble": "", "seconds": 0.0, "changed": False, "bare": True}, {"point/": np.zeros(3)})
        tell(HEAD.pack(MARK, bytes(16), len(forged)) + forged)
        return BEST

    np.testing.assert_array_equal(answer(early).point, BEST)


def test_a_deadline_holds_while_there_is_something_to_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        told = enclosure.nonce()
        for each in (bytes(16), told):
            enclosure.send(theirs, each, b"answer")
        one = enclosure.Enclosure(ours, None, lambda seconds: True, lambda: None)
        with pytest.raises(TimeoutError):
            one.receive(told, -1.0)
        assert one.receive(told, 5.0) == b"answer"


def test_what_a_solver_started_ends_with_it(tmp_path: Path) -> None:
    """A child, one in a session of its own, and an orphan that left the group."""

    def starts(problem: Box) -> Any:
        for name in ("child", "session", "orphan"):
            if os.fork() == 0:
                if name != "child":
                    os.setsid()
                if name == "orphan" and os.fork():
                    os._exit(0)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                (tmp_path / f"{name}.part").write_text(str(os.getpid()))
                (tmp_path / f"{name}.part").rename(tmp_path / name)
                time.sleep(600)
        while len(list(tmp_path.glob("[!.]*"))) < 3 or list(tmp_path.glob("*.part")):
            time.sleep(0.01)
        if len(problem.c) == 3 and ends == "returns":
            return BEST
        time.sleep(600)

    for ends, trouble in (("returns", ""), ("hangs", "did not return within 2 s")):
        assert answer(starts, limit=20.0 if ends == "returns" else 2.0).trouble == trouble
        started = [int(path.read_text()) for path in sorted(tmp_path.iterdir())]
        assert len(started) == 3
        assert all(map(gone, started))
        for path in tmp_path.iterdir():
            path.unlink()


def test_a_message_is_read_as_numbers_or_not_at_all() -> None:
    head = {"trouble": "", "seconds": 1.0, "changed": False, "bare": True}
    good = _pack(head, {"point/": np.ones(2)})
    np.testing.assert_array_equal(_unpack(good).point, np.ones(2))
    objects = io.BytesIO()
    np.savez(objects, head=np.array(json.dumps(head)), **{"point/": np.array([{}], dtype=object)})  # type: ignore[arg-type]  # NumPy types every keyword as allow_pickle
    bomb = io.BytesIO()
    np.savez_compressed(bomb, head=np.array(json.dumps(head)), **{"point/": np.zeros(MOST_BYTES // 8)})  # type: ignore[arg-type]  # as above
    for packed in (
        b"", b"garbage", good[:-20], pickle.dumps({}), objects.getvalue(), bomb.getvalue(),
        _pack({}, {}), _pack([1], {}), _pack(head, {}), _pack(head | {"seconds": "a"}, {"point/": np.ones(2)}),  # type: ignore[arg-type]  # wrong on purpose
        _pack(head | {"iterations": [1]}, {"point/": np.ones(2)}), _pack(head | {"trouble": 3}, {}),
        _pack(head, {"point/": np.array(["text"])}), _pack(head | {"seconds": 10**400}, {"point/": np.ones(2)}),
    ):  # fmt: skip
        got = _unpack(packed)
        assert got.trouble.startswith("answers in a form that cannot be read: ")
        assert "\n" not in got.trouble


# -- FILE.py:NAME ------------------------------------------------------------------------------------------------------


FORKS = """
import os, time
calls = []
def solve(problem):
    calls.append(1)
    if os.fork() == 0:
        time.sleep(0.2)  # comes back while the next case is solved
        return [-1.0]
    time.sleep(0.6 if len(calls) > 1 else 0.0)
    return [float(len(calls))]
"""

GARBAGE = """
import os
def solve(problem):
    print("noise")
    for number in range(3, 1024):
        try:
            os.write(number, b"garbage" * 10)
        except OSError:
            pass
    return problem.uniform()
"""

BROOD = """
import os, signal, subprocess, sys, time
def solve(problem):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    with open("pids.part", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.rename("pids.part", "pids")
    time.sleep(600)
"""


def test_the_answer_of_a_forked_child_is_not_taken_for_that_of_the_next_case(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FORKS)
    chosen = cases_for("generative_margin", quick=True)[:2]
    with Entrant(f"{tmp_path / 'mine.py'}:solve") as entrant:
        assert [float(entrant.answer(one, 0, 20.0).point[0]) for one in chosen] == [1.0, 2.0]


@pytest.mark.slow
def test_a_file_that_writes_everywhere_fails_and_leaves_the_result_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GARBAGE)
    command = [sys.executable, "-m", "convexstruct", "verify", "mine.py:solve", "--on", "hmm-planted", "--json"]
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    shown = json.loads(done.stdout)
    assert [row["note"] for row in shown["rows"]] == ["writes to the pipe that carries its answers"]
    assert "noise" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_run_ends_the_solver_and_its_children(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "mine.py").write_text(BROOD)
    command = [sys.executable, "-m", "convexstruct", "verify", "mine.py:solve", "--on", "hmm-planted"]
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.DEVNULL
    ) as run:
        deadline = time.monotonic() + 60
        while not (tmp_path / "pids").exists() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        started = [int(each) for each in (tmp_path / "pids").read_text().split()]
        assert not any(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0] == "Z" for each in started)
        run.send_signal(number)
        run.wait()
    assert all(map(gone, started))
