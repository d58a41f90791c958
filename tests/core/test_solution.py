from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from tests.verification.toy import BEST, COSTS, OPTIMUM, Box


def solution(dual: bool = True) -> Solution:
    trace = Trace()
    trace.append(1, 0.1, 1, 0.0, -np.inf)
    trace.append(2, 0.2, 2, -5.0, -7.0)
    trace.append(3, 0.4, 3, OPTIMUM, OPTIMUM)
    trace.parts = {"master": 0.3}
    witness = {"q": np.maximum(COSTS, 0.0)} if dual else None
    certificate = certify(Box(COSTS), BEST, witness)
    status = Status.OPTIMAL if dual else Status.UNCERTIFIED
    return Solution({"x": BEST}, witness, certificate, status, trace, "Stepper (for a test)", "one sentence")


@pytest.mark.parametrize("dual", [True, False])
def test_a_saved_solution_comes_back_as_it_was(tmp_path: Path, dual: bool) -> None:
    before = solution(dual)
    after = Solution.load(before.save(tmp_path / "kept.npz"))
    np.testing.assert_array_equal(after.point["x"], before.point["x"])
    assert (after.dual_point is None) is not dual
    assert after.certificate == before.certificate
    assert (after.status, after.solver, after.message) == (before.status, before.solver, before.message)
    assert list(after.trace) == list(before.trace)
    assert after.trace.parts == {"master": 0.3}


def test_saving_leaves_nothing_else_behind(tmp_path: Path) -> None:
    solution().save(tmp_path / "kept.npz")
    solution().save(tmp_path / "kept.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.npz"]


def test_saving_follows_links_leaves_devices_alone_and_gives_the_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "link.npz").symlink_to("kept.npz")
    solution().save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    (tmp_path / "other").write_text("")
    assert (tmp_path / "kept.npz").stat().st_mode == (tmp_path / "other").stat().st_mode
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ValueError, match=r"solution '.*fifo' is a pipe, wanted a regular file"):
        solution().save(tmp_path / "fifo")


def test_a_solution_that_would_need_pickle_is_not_saved_and_nothing_is_written(tmp_path: Path) -> None:
    one = solution()
    strange = Solution({"x": np.array([None])}, None, one.certificate, one.status, one.trace)
    with pytest.raises(ValueError, match="pickle"):
        strange.save(tmp_path / "kept.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_solution_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("not an archive")
    (tmp_path / "evil.npz").write_bytes(pickle.dumps({"head": 1}))
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    for name in ("text.npz", "evil.npz", "other.npz"):
        with pytest.raises(ValueError, match="is not a saved solution"):
            Solution.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Solution.load(tmp_path / "nowhere.npz")


def test_every_status_says_what_to_do_and_only_optimal_is_solved() -> None:
    assert [status for status in Status if status.solved] == [Status.OPTIMAL]
    assert all(len(status.value) > 20 for status in Status)


def test_a_solution_shows_bounds_gap_and_who_found_it() -> None:
    shown = repr(solution())
    for part in ("OPTIMAL", "-6 <= optimum <= -6", "gap 0", "3 iterations", "0.40 s", "Stepper"):
        assert part in shown


def test_the_trace_tells_when_a_gap_was_first_reached() -> None:
    trace = solution().trace
    assert trace.first_within(0.5) == (2, 0.2)
    assert trace.first_within(1e-6) == (3, 0.4)
    assert Trace().first_within(1.0) is None
    assert len(trace) == 3


def test_an_empty_trace_has_no_seconds_and_no_iterations() -> None:
    one = solution()
    fresh = Solution(one.point, None, one.certificate, one.status, Trace())
    assert (fresh.seconds, fresh.iterations) == (0.0, 0)


def test_plot_draws_the_bounds() -> None:
    drawn = solution().plot().get_legend()
    assert drawn is not None
    assert [text.get_text() for text in drawn.get_texts()] == [
        "solver's own upper bound", "solver's own lower bound", "certificate",
    ]  # fmt: skip
