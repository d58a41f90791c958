from __future__ import annotations

import json
import math
from collections.abc import Mapping
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
from convexstruct.verification.runner import built_in, compare
from tests.verification import toy
from tests.verification.rows import told

VERIFY_KEYS = ["family", "system", "case", "paper", "equations", "reference", "fast", "ratio", "verdict", "note"]
REFERENCE_KEYS = ["formulation", "solver", "status", "value", "seconds"]
FAST_KEYS = ["solver", "primal", "lower_bound", "gap", "iterations", "seconds"]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_CACHE", str(tmp_path / "cache"))


def solution(x: Any = toy.BEST, witness: bool = True) -> Solution:
    dual = {"q": np.maximum(toy.COSTS, 0.0)} if witness else None
    return Solution({"x": np.asarray(x)}, dual, certify(toy.Box(toy.COSTS), x, dual), Status.OPTIMAL, Trace(), "Toy")


def reference(value: float = toy.OPTIMUM, trouble: str = "") -> Reference:
    return Reference("none", "by hand", "optimal", value, 1.0, trouble=trouble)


# -- the verdict on the built-in paths ---------------------------------------------------------------------------------


def test_a_reference_inside_a_closed_bracket_is_verified() -> None:
    assert compare(toy.case(), reference(), solution(), MID)[0] == "verified"


@pytest.mark.parametrize(
    ("value", "words"), [(toy.OPTIMUM + 1e-3, "above the primal value"), (toy.OPTIMUM - 1e-3, "below the lower bound")]
)
def test_a_reference_outside_the_bracket_fails(value: float, words: str) -> None:
    verdict, note = compare(toy.case(), reference(value), solution(), MID)
    assert verdict == "failed"
    assert words in note


def test_a_reference_may_be_off_by_its_own_accuracy() -> None:
    value = toy.OPTIMUM - 1e-3
    assert compare(replace(toy.case(), accuracy=LOW.gap), reference(value), solution(), MID)[0] == "verified"


def test_a_gap_that_is_too_wide_fails() -> None:
    verdict, note = compare(toy.case(), reference(), solution(0.99 * toy.BEST), MID)
    assert verdict == "failed"
    assert "gap 1.0e-02, wanted 1e-04" in note


def test_an_infeasible_point_fails_even_if_its_repair_is_optimal() -> None:
    verdict, note = compare(toy.case(), reference(), solution(1.1 * toy.BEST), MID)
    assert verdict == "failed"
    assert "infeasible by 0.1" in note


def test_without_a_reference_nothing_is_verified_and_the_row_says_why() -> None:
    verdict, note = compare(toy.case(), reference(trouble="by hand says infeasible"), solution(), MID)
    assert verdict == "unverified"
    assert note == "no reference: by hand says infeasible"
    assert compare(toy.case(), reference(math.nan), solution(), MID)[0] == "unverified"


def test_a_reference_by_another_way_is_verified_and_the_row_says_which_and_why() -> None:
    told = replace(reference(), note="by the stored optimum (dual, cvxpy 1), as primal by CLARABEL says solver_error")
    verdict, note = compare(toy.case(), told, solution(), MID)
    assert verdict == "verified"
    assert note.endswith("; reference by the stored optimum (dual, cvxpy 1), as primal by CLARABEL says solver_error")
    wrong = replace(told, value=toy.OPTIMUM + 1e-3)
    assert compare(toy.case(), wrong, solution(), MID)[0] == "failed"


def test_the_run_is_verified_where_every_general_solver_fails_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(problem: cp.Problem, solver: str, settings: Mapping[str, Any]) -> None:
        raise cp.error.SolverError("insufficient progress")

    monkeypatch.setattr("convexstruct.models.formulation.run", broken)
    outcome = cs.verify(on="hmm-ties")
    assert outcome.ok, outcome
    assert "reference by the stored optimum (dual, cvxpy" in outcome.rows[0].note
    assert "dual by CLARABEL says solver_error" in outcome.rows[0].note
    assert math.isnan(outcome.rows[0].ratio)


def test_without_a_certificate_nothing_is_verified_but_a_contradiction_still_fails() -> None:
    case = toy.case(certified=False)
    bare = solution(witness=False)
    assert compare(case, reference(), bare, MID)[0] == "unverified"
    assert compare(case, reference(toy.OPTIMUM + 1), bare, MID)[0] == "failed"


def test_a_reference_that_raises_leaves_the_case_unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "solve", lambda *arguments, **options: solution())
    row = built_in(toy.case(), MID)
    assert row.verdict == "unverified"
    assert "formulation 'generative_margin.none' is unknown" in row.note


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


def test_another_seed_is_another_instance() -> None:
    first, second = (cs.verify(on="hmm-planted", seed=seed).rows[0] for seed in (0, 5))
    assert first.reference.value != second.reference.value
    assert second.verdict == "verified"


# -- anyone's solver ---------------------------------------------------------------------------------------------------


def test_a_solver_is_checked_from_python_on_every_open_case() -> None:
    outcome = cs.verify(lambda problem: problem.uniform(), on="generative_margin")
    assert [row.case for row in outcome] == [c.name for c in cases_for("generative_margin", open_only=True)]
    assert not outcome.ok, told(outcome)
    assert all("above the optimum" in row.note or "above their cap" in row.note for row in outcome)
    assert any("too large" in sentence for sentence in outcome.left_out)


def test_without_a_stored_reference_nothing_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "stored", lambda case, problem: None)
    row = cs.verify(lambda problem: problem.uniform(), on="hmm-ties").rows[0]
    assert row.verdict == "unverified"
    assert "--refresh" in row.note


@pytest.mark.parametrize("case", cases_for("generative_margin", quick=True, open_only=True)[:3], ids=repr)
def test_cases_serve_as_parametrised_tests(case: Case) -> None:
    row = cs.check(lambda problem: cs.solve(problem, tol=HIGH), case, tol=HIGH)
    assert row.verdict == "verified"
    with pytest.raises(AssertionError, match=f"on {case.name}: returns NaN"):
        cs.check(lambda problem: np.full(problem.dimension, np.nan), case)


def test_a_case_that_is_not_stored_computes_its_reference_on_the_way() -> None:
    ties = next(case for case in cases_for("generative_margin") if case.name == "hmm-ties")
    large = replace(ties, name="hmm-too-large", open=False)
    row = cs.check(lambda problem: cs.solve(problem), large)
    assert row.reference.version == ""
    assert row.reference.upper_bound - row.reference.lower_bound <= HIGH.gap * abs(row.reference.value)


def test_a_point_that_cannot_be_evaluated_fails_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise FloatingPointError("overflow")

    monkeypatch.setattr(runner, "judge", broken)
    row = cs.verify(lambda problem: problem.uniform(), on="hmm-ties").rows[0]
    assert row.verdict == "failed"
    assert "cannot be evaluated: FloatingPointError: overflow" in row.note


def test_progress_is_told_each_case_and_the_end() -> None:
    seen: list[tuple[int, int, str]] = []
    cs.verify(on="hmm-ties", progress=lambda done, total, name: seen.append((done, total, name)))
    assert seen == [(0, 1, "hmm-ties"), (1, 1, "")]


def decide(case: Case, *arguments: Any, **options: Any) -> Row:
    return Row("f", "s", case.name, "p", "e", reference(), Fast("x"), "verified", "")


def test_each_row_is_told_as_soon_as_it_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    known: list[int] = []

    def counting(case: Case, *arguments: Any, **options: Any) -> Row:
        known.append(len(told))
        return decide(case)

    monkeypatch.setattr(runner, "built_in", counting)
    outcome = cs.verify(on="generative_margin", decided=lambda row: told.append(row.case))
    assert told == [row.case for row in outcome]
    assert known == list(range(len(told)))


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


def test_an_interruption_that_the_fast_path_caught_ends_the_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any, **options: Any) -> Solution:
        return replace(solution(), status=Status.INTERRUPTED)

    monkeypatch.setattr(runner, "solve", stopped)
    outcome = cs.verify(on="hmm-ties")
    assert outcome.interrupted
    assert not outcome.rows


def test_missing_data_are_one_line_and_only_where_a_family_would_have_used_them(
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
    assert not [line for line in cs.verify(on="hmm-ties").left_out if "data" in line]


def test_quick_leaves_out_the_large_cases_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "built_in", decide)
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


def test_numpy_numbers_and_arrays_become_json() -> None:
    value = {"a": np.float64("nan"), "b": np.arange(2), "c": [np.int64(3), -math.inf], "d": (True, None, "x")}
    assert json.loads(strict_json(value)) == {"a": None, "b": [0, 1], "c": [3, None], "d": [True, None, "x"]}


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
