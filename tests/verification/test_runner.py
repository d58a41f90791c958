from __future__ import annotations

import json
import math
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import convexstruct as cs
from convexstruct.cli import verification_page
from convexstruct.core.certificates import certify
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.tolerances import HIGH, LOW, MID
from convexstruct.verification import Case, Outcome, cases_for, families, runner
from convexstruct.verification.outcome import Fast, Reference, Row, strict_json
from convexstruct.verification.runner import compare
from tests.verification import toy
from tests.verification.rows import told

VERIFY_KEYS = ["family", "system", "case", "paper", "equations", "reference", "fast", "ratio", "verdict", "note"]
REFERENCE_KEYS = ["formulation", "solver", "status", "value", "seconds"]
FAST_KEYS = ["solver", "primal", "lower_bound", "gap", "iterations", "seconds"]


def solution(x: Any = toy.BEST, witness: bool = True) -> Solution:
    dual = {"q": np.maximum(toy.COSTS, 0.0)} if witness else None
    return Solution({"x": np.asarray(x)}, dual, certify(toy.Box(toy.COSTS), x, dual), Status.OPTIMAL, Trace(), "Toy")


def reference(value: float = toy.OPTIMUM, trouble: str = "") -> Reference:
    return Reference("none", "by hand", "optimal", value, 1.0, trouble=trouble)


# -- the verdict on the built-in paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "found", "verdict", "words"),
    [
        (reference(), solution(), "verified", "a linear function on a box"),
        (reference(toy.OPTIMUM + 1e-3), solution(), "failed", "above the primal value"),
        (reference(toy.OPTIMUM - 1e-3), solution(), "failed", "below the lower bound"),
        (reference(), solution(0.99 * toy.BEST), "failed", "gap 1.0e-02, wanted 1e-04"),
        (reference(), solution(1.1 * toy.BEST), "failed", "infeasible by 0.1"),  # even if its repair is optimal
        (reference(trouble="by hand says infeasible"), solution(), "unverified", "no reference: by hand says infeas"),
        (reference(math.nan), solution(), "unverified", "no reference: "),
        (replace(reference(), note="by the stored optimum"), solution(), "verified", "; reference by the stored optim"),
    ],
)
def test_a_reference_is_verified_inside_a_closed_bracket_of_a_feasible_point(
    of: Reference, found: Solution, verdict: str, words: str
) -> None:
    said, note = compare(toy.case(), of, found, MID)
    assert said == verdict
    assert words in note


def test_without_a_certificate_nothing_is_verified_but_a_contradiction_still_fails() -> None:
    case, rough = toy.case(certified=False), replace(toy.case(), accuracy=LOW.gap)
    assert compare(case, reference(), solution(witness=False), MID)[0] == "unverified"
    assert compare(case, reference(toy.OPTIMUM + 1), solution(witness=False), MID)[0] == "failed"
    assert compare(rough, reference(toy.OPTIMUM - 1e-3), solution(), MID)[0] == "verified"  # by its own accuracy


def test_the_run_is_verified_where_every_general_solver_fails_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(problem: cp.Problem, solver: str, settings: Mapping[str, Any]) -> None:
        raise cp.error.SolverError("insufficient progress")

    monkeypatch.setattr("convexstruct.models.formulation.run", broken)
    outcome = cs.verify(on="hmm-ties")
    assert outcome.ok, outcome
    assert "reference by the stored optimum (dual, cvxpy" in outcome.rows[0].note
    assert "dual by CLARABEL says solver_error" in outcome.rows[0].note
    assert math.isnan(outcome.rows[0].ratio)


def test_a_fast_path_that_raises_fails_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> Solution:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(runner, "solve", broken)
    outcome = cs.verify(on="hmm-ties")
    assert [row.verdict for row in outcome] == ["failed"]
    assert "ZeroDivisionError" in outcome.rows[0].note


@pytest.mark.parametrize("name", ["hmm-planted", "hmm-ties", "network-planted"])
def test_built_in_cases_are_verified_to_the_highest_profile(name: str) -> None:
    outcome = cs.verify(on=name, tol=HIGH)
    assert outcome.ok, told(outcome)
    row = outcome.rows[0]
    assert row.profile == "HIGH"
    assert row.fast.lower_bound <= row.reference.value + HIGH.gap * abs(row.reference.value)
    assert row.ratio == row.reference.seconds / row.fast.seconds


# -- anyone's solver ---------------------------------------------------------------------------------------------------


def test_a_solver_is_checked_from_python_on_every_open_case() -> None:
    outcome = cs.verify(lambda problem: problem.trivial()[0], on="energy_network", quick=True)
    assert [row.case for row in outcome] == [c.name for c in cases_for("energy_network", quick=True, open_only=True)]
    assert not outcome.ok, told(outcome)
    assert all("above the optimum" in row.note for row in outcome)
    assert any("too large" in sentence for sentence in outcome.left_out)


def test_cases_serve_as_parametrised_tests() -> None:
    case = cases_for("generative_margin", open_only=True)[0]
    row = cs.check(lambda problem: cs.solve(problem, tol=HIGH), case, tol=HIGH)
    assert row.verdict == "verified"
    with pytest.raises(AssertionError, match=f"on {case.name}: returns NaN"):
        cs.check(lambda problem: np.full(problem.dimension, np.nan), case)


def decide(case: Case, *arguments: Any, **options: Any) -> Row:
    return Row("f", "s", case.name, "p", "e", reference(), Fast("x"), "verified", "")


def test_an_executor_shares_the_cases_and_what_it_loses_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    class Losing(ThreadPoolExecutor):
        def submit(self, function: Any, name: str, *arguments: Any) -> Future[Any]:  # type: ignore[override]
            asked.append(name)
            if len(asked) != 3:
                return super().submit(function, name, *arguments)
            lost: Future[Any] = Future()
            lost.set_exception(BrokenExecutor())
            return lost

    asked: list[str] = []
    monkeypatch.setattr(runner, "built_in", lambda case, *arguments, **options: decide(case))
    names = [case.name for case in cases_for("generative_margin")]
    with Losing(2) as executor:
        assert [row.case for row in cs.verify(on="generative_margin", executor=executor)] == names
        assert asked == names
        assert len(cs.verify(on="hmm-ties", executor=executor)) == 1
    assert asked == names


def test_an_interrupted_run_keeps_the_rows_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def until(case: Case, *arguments: Any, **options: Any) -> Row:
        if case.name == "network-planted":
            raise KeyboardInterrupt
        return decide(case)

    monkeypatch.setattr(runner, "built_in", until)
    outcome = cs.verify(on="generative_margin")
    total = len(cases_for("generative_margin"))
    assert [row.case for row in outcome] == [case.name for case in cases_for("generative_margin")[:3]]
    assert outcome.interrupted
    assert not outcome.ok
    assert outcome.count() == "interrupted: 3 verified"
    assert f"{total - 3} of {total} cases, interrupted at network-planted" in outcome.left_out


def test_missing_data_and_what_quick_leaves_out_are_a_line_where_a_family_would_have_used_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_DATA", str(tmp_path))
    monkeypatch.setattr(runner, "built_in", decide)
    said = {on: [line for line in cs.verify(on=on).left_out if "data" in line] for on in (None, *families())}
    assert said["projection"] == said["gaussian_process"] == []
    assert said["generative_margin"] == [
        "real data of protein, connect4: `convexstruct data` says where they come from"
    ]
    assert len(said[None]) == 1
    assert "ocr_letters" in said[None][0]
    outcome = cs.verify(quick=True)
    named = {row.case for row in outcome}
    for case in cases_for("generative_margin"):
        assert (case.name in named) == case.quick
        assert any(sentence.startswith(case.name) for sentence in outcome.left_out) == (not case.quick)


# -- what it looks like ------------------------------------------------------------------------------------------------


def test_json_has_exactly_the_promised_keys_and_is_strict() -> None:
    outcome = cs.verify(lambda problem: None, on="hmm-ties")
    text = strict_json(outcome.as_json())
    shown = json.loads(text, parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))
    assert list(shown) == ["ok", "rows", "left_out"]
    row = shown["rows"][0]
    assert list(row) == VERIFY_KEYS
    assert list(row["reference"]) == REFERENCE_KEYS
    assert list(row["fast"]) == FAST_KEYS
    assert row["fast"]["primal"] is None
    assert row["ratio"] is None


def test_an_outcome_counts_and_shows_itself() -> None:
    row = Row("f", "s", "a-case", "p", "e", reference(), Fast("x"), "failed", "<wrong>")
    outcome = Outcome([row, replace(row, verdict="verified")])
    assert outcome.count() == "1 verified, 1 failed"
    assert "a-case" in repr(outcome)
    assert "&lt;wrong&gt;" in outcome._repr_html_()
    assert not outcome.ok, told(outcome)
    assert not Outcome([]).ok
    assert Outcome([replace(row, verdict="verified")]).ok


def test_several_families_are_told_apart_and_summed_up() -> None:
    fast = Fast("s", 1.0, 1.0 - 1e-5, 1e-5, 3, 0.5)
    timed = Reference("primal", "CLARABEL", "optimal", 1.0, 2.0)
    row = Row("toy", "toy", "one", "1", "(1)", timed, fast, "verified", "")
    other = replace(row, family="other", verdict="failed", fast=Fast("s"))
    outcome = Outcome([row, replace(other, case="two"), replace(row, case="three")], ["much"])
    heads, rows = outcome.summary()
    assert [row[0] for row in rows] == ["toy", "other"]
    shown = [dict(zip(heads, row)) for row in rows]
    assert shown[0] == dict(zip(heads, ["toy", "2", "2 verified", "1e-05", "4", "1"]))
    assert (shown[1]["worst gap"], shown[1]["median ratio"]) == ("-", "-")
    page = verification_page(outcome, pictures=True)
    assert [table.title for table in page.tables] == ["", "toy", "other"]
    assert sum(len(table.rows) for table in page.tables[1:]) == 3
    assert any(caption.startswith("other:") for caption in page.figures or {})
    assert len(verification_page(Outcome([row]), pictures=False).tables) == 1
    assert len(verification_page(Outcome([]), pictures=True).tables) == 1


def test_without_a_stored_reference_nothing_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "stored", lambda case, problem: None)
    row = cs.verify(lambda problem: problem.uniform(), on="hmm-ties").rows[0]
    assert row.verdict == "unverified"
    assert "--refresh" in row.note


def test_a_point_that_cannot_be_evaluated_fails_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise FloatingPointError("overflow")

    monkeypatch.setattr(runner, "judge", broken)
    row = cs.verify(lambda problem: problem.uniform(), on="hmm-ties").rows[0]
    assert row.verdict == "failed"
    assert "cannot be evaluated: FloatingPointError: overflow" in row.note
