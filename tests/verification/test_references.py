from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from convexstruct.certificates import certify
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import HIGH
from convexstruct.verification import Case, cases_for, references
from convexstruct.verification.generative_margin import ties
from convexstruct.verification.references import PACKAGED, compute, refresh, stale, stored

OPEN = cases_for("generative_margin", open_only=True)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_CACHE", str(tmp_path / "cache"))


def test_every_case_given_to_solvers_has_a_reference_for_its_present_data() -> None:
    assert stale(OPEN) == []


@pytest.mark.parametrize("case", OPEN, ids=repr)
def test_a_stored_reference_lies_in_its_bracket_and_the_bracket_is_tight(case: Case) -> None:
    reference = stored(case, case.build())
    assert reference is not None
    scale = max(1.0, abs(reference.value))
    assert reference.accurate
    assert "cvxpy" in reference.version
    assert reference.formulation == case.formulation
    assert reference.lower_bound - HIGH.gap * scale <= reference.value <= reference.upper_bound + HIGH.gap * scale
    assert -1e-12 <= reference.upper_bound - reference.lower_bound <= HIGH.gap * scale


@pytest.mark.parametrize("name", ["primal", "entropy_dual"])
def test_two_formulations_agree_with_what_is_stored(name: str) -> None:
    case = next(case for case in OPEN if case.name == "hmm-ties")
    problem = case.build()
    reference = stored(case, problem)
    assert reference is not None
    solution = FORMULATIONS[f"generative_margin.{name}"].builder(problem).solve()
    assert solution.lower_bound <= reference.upper_bound
    assert solution.primal >= reference.lower_bound
    again = certify(problem, solution.point, solution.dual_point)
    assert (again.primal, again.lower_bound) == (solution.primal, solution.lower_bound)


def test_other_data_have_no_stored_reference() -> None:
    case = next(case for case in OPEN if case.name == "hmm-enumerated")
    assert stored(case, case.build(seed=1)) is None
    assert stored(case, ties(0).problem) is None


def test_an_instance_built_backwards_brings_its_own_bracket() -> None:
    case = next(case for case in OPEN if case.name == "network-planted")
    reference = compute(case)
    optimum = case.make(0).optimum
    assert optimum is not None
    assert reference.lower_bound < optimum < reference.upper_bound
    assert reference.upper_bound - reference.lower_bound < HIGH.gap * 1e-2 * abs(optimum)


def small(monkeypatch: pytest.MonkeyPatch, *cases: Case) -> None:
    monkeypatch.setattr(references, "cases_for", lambda family, open_only: cases)


def test_refresh_writes_the_whole_file_and_it_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = next(case for case in OPEN if case.name == "hmm-ties")
    small(monkeypatch, case)
    seen: list[str] = []
    path = refresh("generative_margin", lambda one: seen.append(one.name), into=tmp_path / "new")
    assert seen == ["hmm-ties"]
    assert [p.name for p in path.parent.iterdir()] == ["generative_margin.json"]
    monkeypatch.setattr(references, "PACKAGED", path.parent)
    reference = stored(case, case.build())
    assert reference is not None
    assert reference.value == pytest.approx(compute(case).value)


def test_refresh_falls_back_to_the_cache_and_the_cache_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = next(case for case in OPEN if case.name == "hmm-ties")
    small(monkeypatch, case)
    blocked = tmp_path / "file"
    blocked.write_text("a file, not a folder")
    monkeypatch.setattr(references, "PACKAGED", blocked)
    path = refresh("generative_margin")
    assert path.parent == tmp_path / "cache" / "references"
    entries = json.loads(path.read_text())
    entries["hmm-ties"]["value"] = 1.0
    path.write_text(json.dumps(entries))
    monkeypatch.setattr(references, "PACKAGED", PACKAGED)
    found = stored(case, case.build())
    assert found is not None
    assert found.value == 1.0


def test_nothing_is_written_if_one_reference_is_not_accurate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = next(case for case in OPEN if case.name == "hmm-ties")
    small(monkeypatch, case)
    true = references.bracketed(case)
    for wrong, words in (
        (replace(true, status="optimal_inaccurate"), "optimal_inaccurate"),
        (replace(true, value=true.value + 1), "outside its bracket"),
    ):
        monkeypatch.setattr(references, "bracketed", lambda case, wrong=wrong: wrong)
        with pytest.raises(ValueError, match=words):
            refresh("generative_margin", into=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_damaged_file_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "generative_margin.json").write_text("{ half")
    monkeypatch.setattr(references, "PACKAGED", tmp_path)
    assert len(stale(OPEN)) == len(OPEN)


def test_a_missing_bound_is_infinite_never_zero(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entries = json.loads((PACKAGED / "generative_margin.json").read_text())
    entries["hmm-ties"] |= {"lower_bound": None, "upper_bound": None}
    (tmp_path / "generative_margin.json").write_text(json.dumps(entries))
    monkeypatch.setattr(references, "PACKAGED", tmp_path)
    case = next(case for case in OPEN if case.name == "hmm-ties")
    found = stored(case, case.build())
    assert found is not None
    assert (found.lower_bound, found.upper_bound) == (-math.inf, math.inf)
