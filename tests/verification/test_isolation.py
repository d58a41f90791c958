from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.verification import cases_for, isolation
from convexstruct.verification.isolation import Entrant, load, split
from tests.verification.toy import BEST, COSTS, OPTIMUM, Box, answer


def test_an_array_a_point_by_names_or_a_mapping_with_a_dual_point_and_claims_come_back_as_they_were() -> None:
    got = answer(lambda problem: -np.sign(problem.c))
    np.testing.assert_array_equal(got.point, BEST)
    assert (got.trouble, got.changed) == ("", False)
    np.testing.assert_array_equal(answer(lambda problem: {"x": [1.0, 2.0, 3.0]}).point["x"], [1.0, 2.0, 3.0])
    got = answer(lambda problem: {"point": BEST, "dual_point": {"q": COSTS}, "primal": 1, "lower_bound": 2.0})
    np.testing.assert_array_equal(got.point, BEST)
    assert got.dual_point is not None
    np.testing.assert_array_equal(got.dual_point["q"], COSTS)
    assert (got.primal, got.lower_bound) == (1.0, 2.0)


def test_a_solution_brings_all_it_has() -> None:
    def solver(problem: Box) -> Solution:
        witness = {"q": np.maximum(problem.c, 0.0)}
        trace = Trace()
        trace.append(7, 0.1, 7, OPTIMUM, OPTIMUM)
        return Solution({"x": BEST}, witness, certify(problem, BEST, witness), Status.OPTIMAL, trace)

    got = answer(solver)
    np.testing.assert_array_equal(got.point["x"], BEST)
    assert got.dual_point is not None
    assert (got.primal, got.lower_bound, got.iterations) == (OPTIMUM, OPTIMUM, 7)


class Silent(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def raising(error: BaseException) -> Callable[[Box], None]:
    def raises(problem: Box) -> None:
        raise error

    return raises


@pytest.mark.parametrize(
    ("solver", "trouble"),
    [
        (raising(RuntimeError("no luck\nwith this one")), "raises RuntimeError: no luck"),
        (raising(SystemExit(5)), "raises SystemExit: 5"),
        (raising(KeyboardInterrupt()), "raises KeyboardInterrupt"),
        (raising(Silent()), "raises Silent"),
        (lambda problem: np.broadcast_to(0.0, (1 << 40,)), f"returns {1 << 43} bytes, more than the"),
        (lambda problem: os._exit(7), "ended its process (exit code 7) instead of returning"),
        (lambda problem: None, "returns None, wanted"),
        (lambda problem: "x", "returns a str, wanted"),
        (lambda problem: {}, "returns a point without any array"),
        (lambda problem: {"x": object()}, "returns a object, wanted"),
        (lambda problem: [[1.0], [1.0, 2.0]], "returns a list, wanted"),
        (lambda problem: np.ones(3, dtype=complex), "returns an array of complex128, wanted"),
        (lambda problem: np.array([None, 1.0, 2.0]), "returns an array of object, wanted"),
        (lambda problem: {"point": BEST, "primal": "best"}, "returns 'primal' as a str, wanted a number"),
    ],
)
def test_trouble_is_named_in_one_sentence(solver: Callable[[Any], Any], trouble: str) -> None:
    got = answer(solver)
    assert got.trouble.startswith(trouble)
    assert "\n" not in got.trouble


def test_where_a_solver_raises_is_told_by_file_and_line() -> None:
    def indexes(problem: Box) -> Any:
        return np.take(problem.c, 7)

    own, innermost = answer(indexes).trouble.split("; ")[1:]
    line = indexes.__code__.co_firstlineno + 1
    assert own == f"test_isolation.py, line {line}: return np.take(problem.c, 7)"
    assert innermost.startswith("fromnumeric.py, line ")
    said = "; test_isolation.py, line "
    assert answer(raising(RuntimeError("no luck"))).trouble.count(said) == 1  # one line is both
    assert said not in answer(lambda problem: None).trouble


def test_the_clock_is_ours_and_not_the_solvers() -> None:
    def stops_the_clock(problem: Box) -> Any:
        for name in ("perf_counter", "monotonic", "time"):
            setattr(time, name, lambda: 0.0)
        time.sleep(0.3)
        return BEST

    assert answer(stops_the_clock).seconds >= 0.3
    assert answer(stops_the_clock, limit=0.1).trouble == "did not return within 0.1 s"


def test_a_changed_input_is_noticed_even_if_the_solver_raises() -> None:
    def spoils(problem: Box) -> Any:
        problem.c[0] = 5.0
        raise ValueError("afterwards")

    got = answer(spoils)
    assert got.changed
    assert "afterwards" in got.trouble
    assert answer(lambda problem: object.__setattr__(problem, "c", None)).changed  # cannot even be read


def test_what_a_solver_prints_does_not_reach_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    def talks(problem: Box) -> Any:
        print("hello")
        os.write(1, b"from below\n")
        return BEST

    assert answer(talks).trouble == ""
    out, err = capfd.readouterr()
    assert out == ""
    assert "from below" in err


def test_without_a_fork_it_runs_right_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "FORKS", False)
    calls = []
    got = answer(lambda problem: calls.append(1) or BEST)  # type: ignore[func-returns-value]  # None, on purpose
    np.testing.assert_array_equal(got.point, BEST)
    assert calls == [1]
    assert answer(raising(RuntimeError())).trouble.startswith("raises RuntimeError")


# -- FILE.py:NAME ------------------------------------------------------------------------------------------------------


def write(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text(text)
    return str(folder / "mine.py")


@pytest.mark.slow
def test_a_file_that_hangs_is_ended_and_the_next_case_goes_on(tmp_path: Path) -> None:
    text = "def solve(problem):\n    while problem.n_examples == 6:\n        pass\n    return problem.uniform()\n"
    chosen = [one for one in cases_for("generative_margin", quick=True) if one.name in ("hmm-planted", "hmm-ties")]
    with Entrant(f"{write(tmp_path, text)}:solve") as entrant:
        assert "did not return" in entrant.answer(chosen[0], 0, 0.2).trouble
        assert entrant.answer(chosen[1], 0, 20.0).trouble == ""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def other(problem):\n    return 1\n", "has no function 'solve'"),
        ("import nothing_of_this_name\n", "does not load: ModuleNotFoundError"),
        ("def solve(:\n", "does not load: SyntaxError"),
        ("raise SystemExit(3)\n", "does not load: SystemExit"),
    ],
)
def test_a_file_that_does_not_serve_is_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(f"{write(tmp_path, text)}:solve")


@pytest.mark.parametrize("given", ["mine.py", "mine.py:not a name", "nowhere.py:solve"])
def test_a_solver_is_a_file_and_a_name(given: str) -> None:
    with pytest.raises(ValueError, match=r"wanted FILE\.py:NAME"):
        split(given)
