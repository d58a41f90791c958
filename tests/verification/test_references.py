from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import pytest

from convexstruct.core.certificates import certify, relative_gap
from convexstruct.families.generative_margin.cases import ties
from convexstruct.models.general_solvers import run
from convexstruct.tolerances import HIGH
from convexstruct.verification import Case, cases_for, references, verify
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.references import compute, others, packaged, refresh, stored

#: The function by which a formulation calls a general solver.
RUN = "convexstruct.models.formulation.run"
OPEN = cases_for("generative_margin", open_only=True)


def test_other_data_have_no_stored_reference() -> None:
    case = next(case for case in OPEN if case.name == "hmm-enumerated")
    assert stored(case, case.build(seed=1)) is None
    assert stored(case, ties(0).problem) is None


def small(monkeypatch: pytest.MonkeyPatch, *cases: Case) -> None:
    monkeypatch.setattr(references, "cases_for", lambda family: cases)


def test_refresh_falls_back_to_the_cache_which_never_outranks_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = next(case for case in OPEN if case.name == "hmm-ties")
    small(monkeypatch, case)
    whole = refresh("generative_margin", into=tmp_path / "new")
    assert [path.name for path in whole.parent.iterdir()] == ["generative_margin.json"]
    blocked = tmp_path / "file"
    blocked.write_text("a file, not a folder")
    monkeypatch.setattr(references, "packaged", lambda family: blocked / "optima.json")
    path = refresh("generative_margin")
    assert path.parent == tmp_path / "cache" / "references"
    entries = json.loads(path.read_text())
    entries["hmm-ties"]["value"] = 1.0
    path.write_text(json.dumps(entries))
    for which, wanted in ((references.packaged, 1.0), (packaged, compute(case).value)):
        monkeypatch.setattr(references, "packaged", which)
        found = stored(case, case.build())
        assert found is not None
        assert found.value == pytest.approx(wanted)


def test_nothing_is_written_if_one_case_has_no_reference_but_the_stored_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = next(case for case in OPEN if case.name == "hmm-ties")
    small(monkeypatch, case)
    lie(monkeypatch, lambda solver, count: True)
    with pytest.raises(ValueError, match=r"hmm-ties has no reference: by the stored optimum .* nothing was written"):
        refresh("generative_margin", into=tmp_path / "new")
    assert not (tmp_path / "new").exists()


# -- where a reference fails -------------------------------------------------------------------------------------------


def lie(monkeypatch: pytest.MonkeyPatch, about: Callable[[str, int], bool]) -> list[str]:
    """CVXPY's solvers claim another value, "optimal", where ``about`` (solver, solves before) says so; the solvers
    asked are kept in the list returned."""
    asked: list[str] = []

    def lying(problem: cp.Problem, solver: str, settings: Mapping[str, Any]) -> None:
        run(problem, solver, settings)
        if about(solver, len(asked)):
            problem.solution.opt_val += 1.0
        asked.append(solver)

    monkeypatch.setattr(RUN, lying)
    return asked


def named(name: str) -> Case:
    return next(case for case in OPEN if case.name == name)


@pytest.mark.parametrize(
    ("lies", "asked", "by"),
    [
        (lambda solver, count: count == 0, ["CLARABEL"] * 2, "entropy_dual, CLARABEL"),
        (lambda solver, count: solver == "CLARABEL", ["CLARABEL", "CLARABEL", "SCS"], "dual, SCS"),
        (lambda solver, count: True, ["CLARABEL", "CLARABEL", "SCS"], "the stored optimum (dual, cvxpy "),
    ],
    ids=["another formulation", "another solver", "the stored optimum"],
)
def test_where_an_answer_fails_the_next_one_is_asked_and_the_note_says_so(
    lies: Callable[[str, int], bool], asked: list[str], by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = named("hmm-ties")
    calls = lie(monkeypatch, lies)
    reference, kept = compute(case), stored(case, case.build())
    assert calls == asked
    assert reference.accurate
    assert reference.note.startswith(f"by {by}")
    assert ", as dual by CLARABEL says optimal at 4.7" in reference.note
    assert kept is not None
    assert reference.value == pytest.approx(kept.value, rel=HIGH.gap)


def test_without_a_stored_optimum_of_this_data_in_its_bracket_there_is_no_reference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lie(monkeypatch, lambda solver, count: True)
    reference = compute(named("hmm-enumerated"), seed=1)
    assert not reference.accurate
    assert reference.trouble.endswith("no optimum of this data is stored")
    assert reference.trouble.count("outside the bracket") == 3
    entries = json.loads(packaged("generative_margin").read_text())
    entries["hmm-ties"]["value"] += 1.0
    entries["hmm-enumerated"] |= {"lower_bound": None, "upper_bound": None}
    (tmp_path / "generative_margin.json").write_text(json.dumps(entries))
    monkeypatch.setattr(references, "packaged", lambda family: tmp_path / f"{family}.json")
    assert compute(named("hmm-ties")).trouble.endswith("the stored optimum lies outside its bracket")
    found = stored(named("hmm-enumerated"), named("hmm-enumerated").build())
    assert found is not None
    assert (found.lower_bound, found.upper_bound) == (-math.inf, math.inf)  # what is missing is never 0


def test_an_optimum_known_by_construction_is_part_of_the_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The formulation states another problem, and certifies that one rightly: only the known optimum shows it."""
    case = named("network-planted")
    wrong = compute(replace(case, unit=lambda problem: 1.01), seed=1)
    assert wrong.trouble.startswith("primal by CLARABEL misses the optimum known by construction, ")
    assert compute(case, seed=1).accurate


def test_an_answer_may_miss_a_known_optimum_by_its_accuracy_relative_to_the_value_however_small_that_is() -> None:
    case = next(case for case in cases_for("projection") if case.name == "box-single")
    small = replace(case, unit=lambda problem: 1.0 + 1.4 * case.accuracy)  # the optimum is 0.6: absolute, too little
    assert "misses the optimum known by construction" in compute(small).note


def test_an_answer_that_its_solver_doubts_but_that_certifies_is_a_reference_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def doubting(problem: cp.Problem, solver: str, settings: Mapping[str, Any]) -> None:
        run(problem, solver, settings)
        problem._status = "optimal_inaccurate"

    monkeypatch.setattr(RUN, doubting)
    reference = compute(named("hmm-ties"))
    assert reference.accurate
    assert reference.note == "dual by CLARABEL says optimal_inaccurate, but its answer certifies the optimum"


def test_the_next_formulations_have_the_same_optimum_and_begin_after_the_cases_own() -> None:
    assert others(named("hmm-ties"))[:2] == ["entropy_dual", "compact_dual"]
    assert "dual" not in others(named("hmm-ties"))
    assert others(named("network-proximal")) == ["proximal_dual"]
    assert others(replace(named("hmm-ties"), second="primal")) == ["primal"]


ENTRY = {"fingerprint": "a", "formulation": "a", "solver": "a", "status": "a", "value": 1, "seconds": 1}
DAMAGED: list[dict[str, object]] = [{"fingerprint": 1}, {"value": True}, {"unknown": 1}]


@pytest.mark.parametrize(
    "text",
    [
        "{ half", "[1]", '{"hmm-ties": 1}', '{"hmm-ties": {"fingerprint": "a"}}',
        *(json.dumps({"hmm-ties": ENTRY | each}) for each in DAMAGED),
    ],
)  # fmt: skip
def test_a_damaged_cache_is_refused_in_one_sentence_before_the_solver_starts(text: str) -> None:
    file = references.cache() / "generative_margin.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(
        ValueError, match=r"generative_margin\.json is no file of references, wanted one that --refresh"
    ):
        verify(lambda problem: 1 / 0, on="hmm-ties")
    file.write_text("{}")
    references._read.cache_clear()
    (row,) = verify(lambda problem: 1 / 0, on="hmm-ties")
    assert row.note.startswith("raises ZeroDivisionError: division by zero; ")


@pytest.mark.parametrize("where", ["package", "cache"])
def test_a_solver_that_stores_the_values_of_the_trivial_points_is_refuted(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In its first case, where the references lie: it is judged by those before it, and so is the next solver, in a
    process that has not read them yet."""
    shipped = tmp_path / "optima.json"
    shipped.write_text(packaged("generative_margin").read_text())
    monkeypatch.setattr(references, "packaged", lambda family: shipped)
    place = shipped if where == "package" else references.cache() / "generative_margin.json"
    cases = [named(name) for name in ("hmm-planted", "hmm-enumerated", "hmm-weights")]
    before = place.read_text() if place.exists() else None

    def liar(problem: Any) -> Any:
        lies = {}
        for case in cases:
            data = case.build()
            value = float(data.primal(data.trivial()[0]))
            lies[case.name] = {"fingerprint": fingerprint(data), "formulation": "dual", "solver": "CLARABEL",
                               "status": "optimal", "value": value, "seconds": 1.0, "lower_bound": value,
                               "upper_bound": value, "version": "cvxpy", "note": ""}  # fmt: skip
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(lies))
        return problem.trivial()[0]

    for case in cases:
        outcome = verify(liar, on=case.name)
        assert [row.verdict for row in outcome] == ["failed"]
        assert any("changed while the solver ran" in sentence for sentence in outcome.left_out)
        assert (place.read_text() if place.exists() else None) == before
        references._read.cache_clear()


@pytest.mark.parametrize("what", ["folder", "pipe", "link"])
def test_what_a_solver_puts_in_place_of_another_familys_references_is_put_back(what: str, tmp_path: Path) -> None:
    """By absolute path: the next verification, of that family, does not read it."""
    place = references.cache() / "structured_svm.json"

    def liar(problem: Any) -> Any:
        place.parent.mkdir(parents=True, exist_ok=True)
        if what == "folder":
            (place / "inside").mkdir(parents=True)
        elif what == "pipe":
            os.mkfifo(place)
        else:
            place.symlink_to(tmp_path / "nowhere")
        return problem.trivial()[0]

    outcome = verify(liar, on="hmm-planted")
    assert [row.verdict for row in outcome] == ["failed"]
    assert any(f"{place} was changed while the solver ran" in sentence for sentence in outcome.left_out)
    assert not os.path.lexists(place)
    assert os.path.lexists(place.with_name("structured_svm.json.changed"))


def test_the_bracket_of_an_optimum_known_to_be_0_certifies_it_without_a_dual_point() -> None:
    """It was once 1e-9 wide, a tenth of the gap's divisor."""
    case = next(case for case in cases_for("structured_svm") if case.name == "svm-one-label")
    problem, reference = case.build(), stored(case, case.build())
    assert reference is not None
    best = certify(problem, problem.trivial()[0])
    assert abs(relative_gap(best.primal, reference.lower_bound, best.least)) <= HIGH.gap


def test_a_formulation_that_raises_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(problem: cp.Problem, solver: str, settings: Mapping[str, Any]) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(RUN, broken)
    reference = compute(named("hmm-ties"))
    assert "dual by CLARABEL raises RuntimeError: out of luck" in reference.note
