"""A check that lets a wrong solver pass is no check."""

from __future__ import annotations

from pathlib import Path

import pytest

from convexstruct.verification import verify
from tests.families.generative_margin.mutants import MUTANTS, Mutant, honest
from tests.verification.rows import told


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_CACHE", str(tmp_path))


@pytest.mark.slow
def test_the_honest_solver_passes_every_case() -> None:
    outcome = verify(honest, on="generative_margin")
    assert outcome.ok, told(outcome)
    assert len(outcome) >= 12


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 8


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    outcome = verify(mutant.solver, on=mutant.case)
    assert [row.verdict for row in outcome] == ["failed"], told(outcome)
    assert mutant.named in outcome.rows[0].note
    assert not outcome.ok, told(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["hmm-planted", "hmm-zeros-in-c", "network-shared"])
def test_the_wrong_sign_is_no_subtle_slip_and_fails_elsewhere_too(case: str) -> None:
    wrong_sign = next(mutant for mutant in MUTANTS if mutant.name == "wrong_sign")
    assert [row.verdict for row in verify(wrong_sign.solver, on=case)] == ["failed"]
