"""Checkpoints of a run: what a killed process leaves, and what a full disk does."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution, Status
from convexstruct.families.log_linear import ConditionalRandomField

#: So small that every round is saved.
ALWAYS = 1e-9


def field() -> ConditionalRandomField:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 9, 60)
    x = [rng.normal(size=(n, 6)) for n in lengths]
    return ConditionalRandomField.read(x, [rng.integers(0, 4, n) for n in lengths], 4, lam=1e-3)


def test_the_last_checkpoint_has_the_best_points_and_a_run_goes_on_from_it(tmp_path: Path) -> None:
    problem, path = field(), tmp_path / "run.npz"
    whole = solve(problem, tol=1e-6)
    solve(problem, tol=1e-6, checkpoint=path, every=ALWAYS, max_iterations=8)
    kept = Solution.load(path, problem)
    assert (kept.status, kept.iterations, kept.message) == (Status.INTERRUPTED, 7, "checkpoint after 7 rounds")
    assert np.isfinite([kept.primal, kept.lower_bound]).all()
    found = solve(problem, tol=1e-6, start=kept)
    assert found.status is Status.OPTIMAL
    assert found.iterations < whole.iterations
    assert os.listdir(tmp_path) == ["run.npz"]


def test_it_is_written_no_more_often_than_asked(tmp_path: Path) -> None:
    solve(field(), tol=1e-6, checkpoint=tmp_path / "run.npz", every=3600)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_costs_the_new_checkpoint_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    problem, path = field(), tmp_path / "run.npz"
    solve(problem, tol=1e-6, checkpoint=path, every=ALWAYS, max_iterations=3)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with caplog.at_level(logging.WARNING, logger="convexstruct.core.driver"):
        found = solve(problem, tol=1e-6, checkpoint=path, every=ALWAYS)
    assert found.status is Status.OPTIMAL
    assert "No space left on device" in caplog.text
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.npz"]


KILLED = """
import os, signal, sys
from convexstruct.core.driver import solve
from tests.core.test_checkpoint import ALWAYS, field

def callback(iterate, trace):
    if len(trace) == 6:
        os.kill(os.getpid(), signal.SIGKILL)

solve(field(), tol=1e-6, checkpoint=sys.argv[1], every=ALWAYS, callback=callback)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_its_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    kept = Solution.load(path, field())
    assert kept.iterations == 5
    assert solve(field(), tol=1e-6, start=kept).status is Status.OPTIMAL


def test_a_checkpoint_that_could_not_be_written_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"checkpoint '/nowhere/run\.npz': there is no folder"):
        solve(field(), checkpoint="/nowhere/run.npz")
