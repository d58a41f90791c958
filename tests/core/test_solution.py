"""A solution: what it shows and keeps; a saved one is checked when it is loaded, and its claims count only where the
problem confirms them."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convexstruct.core.certificates import Certificate, certify
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


def test_a_solution_shows_bounds_gap_and_who_found_it() -> None:
    shown = repr(solution())
    for part in ("OPTIMAL", "-6 <= optimum <= -6", "gap 0", "3 iterations", "0.40 s", "Stepper"):
        assert part in shown


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


def forged(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    """A file as `save` writes it, its head and arrays changed by hand."""
    path = solution().save(folder / "forged.npz")
    with np.load(path) as archive:
        arrays = dict(archive)
    head = json.loads(str(arrays.pop("head")))
    change(head, arrays)
    np.savez(path, head=np.array(json.dumps(head)), **arrays)
    return path


def test_a_loaded_certificate_says_that_nobody_computed_it(tmp_path: Path) -> None:
    path = solution().save(tmp_path / "kept.npz")
    assert not solution().stored
    loaded = Solution.load(path)
    assert loaded.stored
    assert "as stored, not verified" in repr(loaded)
    again = Solution.load(path, Box(COSTS))
    assert not again.stored
    assert "not verified" not in repr(again)
    assert (again.certificate, again.status, again.message) == (loaded.certificate, Status.OPTIMAL, "one sentence")


def lies(head: dict[str, Any], arrays: dict[str, Any]) -> None:
    head["certificate"] |= {"primal": -7.0, "lower_bound": -7.0, "gap": 0.0, "claimed": -7.0}


def moves_the_point(head: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["point/x"] = np.zeros(3)


def hides_the_distance(head: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["point/x"] = 3 * BEST


def forges_a_witness(head: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["dual_point/q"] = np.zeros(3)


@pytest.mark.parametrize("change", [lies, moves_the_point, hides_the_distance, forges_a_witness])
def test_a_lie_is_found_out_by_the_problem(
    tmp_path: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]
) -> None:
    path = forged(tmp_path, change)
    assert Solution.load(path).stored
    loaded = Solution.load(path, Box(COSTS))
    assert loaded.certificate == certify(Box(COSTS), loaded.point, loaded.dual_point)
    assert loaded.status is Status.INACCURATE
    assert "the problem does not confirm it" in loaded.message
    assert not loaded.stored


def test_a_solution_of_another_problem_is_refused(tmp_path: Path) -> None:
    path = solution().save(tmp_path / "kept.npz")
    with pytest.raises(ValueError, match=r"does not fit the problem: x has shape \(3,\), wanted \(2,\)"):
        Solution.load(path, Box(COSTS[:2]))
    renamed = forged(tmp_path, lambda head, arrays: arrays.update({"point/y": arrays.pop("point/x")}))
    with pytest.raises(ValueError, match="does not fit the problem"):
        Solution.load(renamed, Box(COSTS))


def put(*names: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(head: dict[str, Any], arrays: dict[str, Any]) -> None:
        *path, last = names
        for name in path:
            head = head[name]
        head[last] = value

    return change


def places(head: dict[str, Any], *names: str) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Each value in a head with the names that lead to it."""
    for name, value in head.items():
        yield value, (*names, name)
        if isinstance(value, dict):
            yield from places(value, *names, name)


def test_a_value_of_another_type_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    heads: list[dict[str, Any]] = []
    forged(tmp_path, lambda head, arrays: heads.append(head))
    wrong: tuple[Any, ...] = ("text", None, True, [[]], {"name": []})
    for was, names in places(heads[0]):
        for value in wrong:
            if type(value) is not type(was) or type(value) in (list, dict):
                path = forged(tmp_path, put(*names, value=value))
                with pytest.raises(ValueError, match=f"^path: {path} is not a saved solution: it has "):
                    Solution.load(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("format", value=99), "has the format 99, this version reads 1"),
        (lambda head, arrays: head.pop("format"), "a head without a format"),
        (put("more", value=1), "which is unknown"),
        (put("status", value="SPLENDID"), "has the status 'SPLENDID', wanted one of OPTIMAL"),
        (put("has_dual_point", value=False), "holds a dual point and says that it has none"),
        (put("certificate", "primal", value=math.nan), "bounds are no numbers"),
        (put("certificate", "primal", value=10**400), "is not a saved solution"),
        (put("certificate", "gap", value=1e-6), "has the gap"),
        (put("certificate", "trust", value=1.0), "has a certificate with 'trust', which is unknown"),
        (lambda head, arrays: head["certificate"].pop("claimed"), "has a certificate without claimed"),
        (put("trace", "seconds", value=[0.1]), "has a trace whose columns have 1, 3 rows"),
        (put("trace", "iteration", value=[1, 1.5]), "has trace.iteration 1.5, wanted a int"),
        (put("trace", "iteration", value=[1, math.inf]), "is not a saved solution"),
        (lambda head, arrays: arrays.pop("point/x"), "has no point, and claims OPTIMAL with -6 <= optimum <= -6"),
        (lambda head, arrays: arrays.update({"point/x": np.array(["1", "2"])}), "with entries of <U1, wanted numbers"),
        (lambda head, arrays: arrays.update({"point/x": np.array([{}])}), "nothing is unpickled"),
        (lambda head, arrays: arrays.update({"point/": np.ones(3)}), "holds an array 'point/', wanted point/NAME"),
        (lambda head, arrays: head["certificate"].update(lower_bound=-math.inf, gap=math.inf), "OPTIMAL with the gap"),
    ],
)
def test_a_file_that_is_not_what_save_writes_is_refused_in_one_sentence(
    tmp_path: Path, change: Callable[[dict[str, Any], dict[str, Any]], object], words: str
) -> None:
    path = forged(tmp_path, change)
    for problem in (None, Box(COSTS)):
        with pytest.raises(ValueError, match=words) as said:
            Solution.load(path, problem)
        assert str(said.value).startswith(f"path: {path} is not a saved solution: it ")
        assert "\n" not in str(said.value)


def test_files_without_a_head_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    for head in ("[1]", "{", "[" * 100_000):
        np.savez(tmp_path / "odd.npz", head=np.array(head))
        with pytest.raises(ValueError, match="is not a saved solution: it "):
            Solution.load(tmp_path / "odd.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match="is not a saved solution: it has no head"):
        Solution.load(tmp_path / "other.npz")
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path(os.devnull)):  # which are not waited for
        with pytest.raises(ValueError, match="it is no regular file"):
            Solution.load(path)
    with pytest.raises(FileNotFoundError):
        Solution.load(tmp_path / "nowhere.npz")


def test_a_solve_without_a_point_is_kept_as_one(tmp_path: Path) -> None:
    trace = Trace()
    trace.append(1, 0.1, 0, math.inf, -math.inf)
    none = Solution({}, None, Certificate(math.inf, -math.inf, math.inf, math.nan), Status.INFEASIBLE, trace)
    path = none.save(tmp_path / "none.npz")
    assert Solution.load(path).status is Status.INFEASIBLE
    assert Solution.load(path, Box(COSTS)).primal == math.inf


def test_numbers_of_numpy_are_kept_and_other_arrays_are_not(tmp_path: Path) -> None:
    one = solution()
    one.trace.append(np.int64(3), np.float64(0.3), np.int64(3), OPTIMUM, OPTIMUM)  # type: ignore[arg-type]  # as solvers may
    one = dataclasses.replace(one, status=Status.TIME_LIMIT)
    kept = Solution.load(one.save(tmp_path / "kept.npz"), Box(COSTS))
    assert list(kept.trace)[-1] == (3, 0.3, 3, OPTIMUM, OPTIMUM)
    assert (kept.status, kept.message) == (Status.TIME_LIMIT, "one sentence")  # as it was
    for value, said in ((np.ones(3) * 1j, "an array of complex128, wanted numbers"), (np.array([None]), ".*pickle")):
        with pytest.raises(ValueError, match=f"cannot save point/x: {said}"):
            dataclasses.replace(one, point={"x": value}).save(tmp_path / "strange.npz")
    assert not (tmp_path / "strange.npz").exists()
