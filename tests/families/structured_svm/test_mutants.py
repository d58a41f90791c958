"""A check that lets a wrong solver pass is no check: the mutants of this family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.verification import verify
from tests.families.generative_margin.mutants import Mutant
from tests.families.structured_svm.mutants import MUTANTS, honest
from tests.verification.rows import told


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_CACHE", str(tmp_path))


@pytest.mark.slow
def test_the_honest_solver_passes_every_case() -> None:
    outcome = verify(honest, on="structured_svm")
    assert outcome.ok, told(outcome)
    assert len(outcome) >= 30


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    outcome = verify(mutant.solver, on=mutant.case)
    assert [row.verdict for row in outcome] == ["failed"], told(outcome)
    assert mutant.named in outcome.rows[0].note
    assert not outcome.ok, told(outcome)


def test_weights_of_the_wrong_sign_are_named_where_cuts_cannot_even_value_them() -> None:
    def negative(problem: StructuredSVM) -> Any:
        return np.where(problem.features.nonnegative, -0.5, honest(problem).point["w"])

    (row,) = verify(negative, on="amn-planted-grid")
    assert row.verdict == "failed"
    assert "infeasible: w_edge below 0 by 0.5" in row.note


@pytest.mark.parametrize("case", ["svm-slack", "hm-svm", "m3n-planted", "svm-kernel", "svm-length-one"])
def test_the_wrong_sign_is_no_subtle_slip_and_fails_elsewhere_too(case: str) -> None:
    wrong_sign = next(mutant for mutant in MUTANTS if mutant.name == "wrong_sign")
    assert [row.verdict for row in verify(wrong_sign.solver, on=case)] == ["failed"]
