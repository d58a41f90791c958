"""Hostile solvers: each gives one sentence in its row, the run goes on, and no process of theirs is left."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from convexstruct.processes import Ending
from convexstruct.verification import cases_for, guard, isolation, verify
from convexstruct.verification.isolation import Entrant, _pack, _unpack
from tests.verification.toy import BEST, Box, answer

#: Seconds after which a process that should have ended counts as left over.
PATIENCE = 20.0
#: Bytes of an answer that are read here.
MOST_BYTES = 1 << 20


def gone(process: int) -> bool:
    try:
        return bool(psutil.wait_procs([psutil.Process(process)], PATIENCE)[0])
    except psutil.NoSuchProcess:
        return True


def place() -> Path:
    """Where the answer is to appear: the path is in a frame of whoever called the solver."""
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    return Path(frame.f_locals["request"]["answer"])


def garbage(problem: Box) -> Any:
    place().write_bytes(b"garbage" * 100)
    time.sleep(600)


def a_terabyte(problem: Box) -> Any:
    beside = place().with_suffix(".part")
    with beside.open("wb") as file:
        file.truncate(1 << 40)
    beside.rename(place())  # whoever looks must not find it while it is still empty
    time.sleep(600)


def a_fifo(problem: Box) -> Any:
    os.mkfifo(place())
    time.sleep(600)


def a_folder(problem: Box) -> Any:
    place().mkdir()
    time.sleep(600)


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


@pytest.mark.parametrize(
    ("solver", "trouble"),
    [
        (garbage, "answers in a form that cannot be read: "),
        (a_terabyte, f"answers with what is longer than the {MOST_BYTES} bytes that are read"),
        (a_fifo, "answers with what is no regular file"),
        (a_folder, "answers with what "),
        (deaf, "did not return within 0.5 s"),
        (segfault, "ended its process (signal SIGSEGV) instead of returning"),
        (ends_itself, "ended its process (signal SIGKILL) instead of returning"),
        (ends_its_group, "ended its process (signal SIGTERM) instead of returning"),
        (ends_its_guard, "ended its process (signal SIGKILL) instead of returning|ended the process that guards it"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_solver_that_means_harm_ends_as_one_sentence(
    solver: Callable[[Any], Any], trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_BYTES", MOST_BYTES)  # a quarter of a GB takes a second to be read
    got = answer(solver, limit=0.5 if solver is deaf else PATIENCE)  # a loaded machine takes its time to fork
    assert any(got.trouble.startswith(part) for part in trouble.split("|")), got.trouble
    assert "\n" not in got.trouble
    np.testing.assert_array_equal(answer(lambda problem: BEST).point, BEST)


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
        assert answer(starts, limit=PATIENCE if ends == "returns" else 2.0).trouble == trouble
        started = [int(path.read_text()) for path in sorted(tmp_path.iterdir())]
        assert len(started) == 3
        assert all(map(gone, started))
        for path in tmp_path.iterdir():
            path.unlink()


def test_a_message_is_read_as_numbers_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MOST_BYTES", MOST_BYTES)
    head = {"trouble": "", "primal": 1.0, "changed": False, "bare": True}
    good = _pack(head, {"point/": np.ones(2)})
    np.testing.assert_array_equal(_unpack(good).point, np.ones(2))
    objects = io.BytesIO()
    np.savez(objects, head=np.array(json.dumps(head)), **{"point/": np.array([{}], dtype=object)})  # type: ignore[arg-type]  # NumPy types every keyword as allow_pickle
    bomb = io.BytesIO()
    np.savez_compressed(bomb, head=np.array(json.dumps(head)), **{"point/": np.zeros(MOST_BYTES // 8)})  # type: ignore[arg-type]  # as above
    for packed in (
        b"", b"garbage", good[:-20], pickle.dumps({}), objects.getvalue(), bomb.getvalue(),
        _pack({}, {}), _pack([1], {}), _pack(head, {}), _pack(head | {"primal": "a"}, {"point/": np.ones(2)}),  # type: ignore[arg-type]  # wrong on purpose
        _pack(head | {"iterations": [1]}, {"point/": np.ones(2)}), _pack(head | {"trouble": 3}, {}),
        _pack(head, {"point/": np.array(["text"])}), _pack(head | {"primal": 10**400}, {"point/": np.ones(2)}),
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
            os.set_blocking(number, False)
            os.write(number, b"garbage" * 10)
        except OSError:
            pass
    raise RuntimeError("noise")
"""


def test_the_answer_of_a_forked_child_is_not_taken_for_that_of_the_next_case(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FORKS)
    chosen = cases_for("generative_margin", quick=True)[:2]
    with Entrant(f"{tmp_path / 'mine.py'}:solve") as entrant:
        assert entrant.name == "mine.py:solve"
        assert [float(entrant.answer(one, 0, 20.0).point[0]) for one in chosen] == [1.0, 2.0]


DAEMON = """
import os, time
def solve(problem):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.environ.clear()
            with open("pid.part", "w") as file:
                file.write(str(os.getpid()))
            os.rename("pid.part", "pid")
            time.sleep(600)
        os._exit(0)
    while not os.path.exists("pid"):
        time.sleep(0.01)
    return problem.uniform()
"""


@pytest.mark.parametrize("adopts", [True, False])
def test_a_daemon_ends_with_its_case_also_where_no_process_adopts_orphans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adopts: bool
) -> None:
    (tmp_path / "mine.py").write_text(DAEMON)
    monkeypatch.chdir(tmp_path)
    if not adopts:  # as on macOS
        other = "import convexstruct.verification.guard as guard\nguard.LINUX = False\n"
        monkeypatch.setattr(isolation, "PROGRAM", other + isolation.PROGRAM)
    with Entrant("mine.py:solve") as entrant:
        assert entrant.answer(cases_for("generative_margin", quick=True)[0], 0, 20.0).trouble == ""
    assert gone(int((tmp_path / "pid").read_text()))


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
    (note,) = (row["note"] for row in shown["rows"])
    assert note.startswith("raises RuntimeError: noise; mine.py, line ")
    assert "noise" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_run_ends_the_solver_and_its_children(tmp_path: Path, number: signal.Signals) -> None:
    def brood(problem: Any) -> Any:
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        (tmp_path / "part").write_text(f"{os.getpid()} {child.pid}")
        (tmp_path / "part").rename(tmp_path / "pids")
        time.sleep(600)

    run = os.fork()
    if run == 0:
        with Ending():
            verify(brood, on="hmm-planted")
        os._exit(0)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pids").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    started = [int(each) for each in (tmp_path / "pids").read_text().split()]
    assert all(psutil.Process(each).status() != psutil.STATUS_ZOMBIE for each in started)
    os.kill(run, number)
    assert os.waitpid(run, 0)[1] == (0 if number == signal.SIGTERM else number)
    assert all(map(gone, started))
