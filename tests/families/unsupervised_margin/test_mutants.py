"""A check that lets a wrong solver pass is no check: the mutants of this family."""

from __future__ import annotations

from pathlib import Path

import pytest

from convexstruct.verification import verify
from tests.families.generative_margin.mutants import Mutant
from tests.families.unsupervised_margin.mutants import MUTANTS, honest
from tests.verification.rows import told


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_CACHE", str(tmp_path))


@pytest.mark.slow
def test_the_honest_solver_passes_every_case() -> None:
    outcome = verify(honest, on="unsupervised_margin")
    assert outcome.ok, told(outcome)
    assert len(outcome) >= 14


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    outcome = verify(mutant.solver, on=mutant.case)
    assert [row.verdict for row in outcome] == ["failed"], told(outcome)
    assert mutant.named in outcome.rows[0].note
    assert not outcome.ok, told(outcome)
