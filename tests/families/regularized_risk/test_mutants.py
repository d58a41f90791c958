"""The mutants of this family, wrong solvers: verification has to refuse each of them."""

from __future__ import annotations

import pytest

from tests.families.regularized_risk.mutants import MUTANTS
from tests.mutants import Mutant, assert_fails, assert_passes, honest, judged


@pytest.mark.slow
def test_the_honest_solver_passes_every_case() -> None:
    assert_passes(honest, "regularized_risk", least=20)


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 16


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    assert_fails(mutant)


@pytest.mark.parametrize("case", ["risk-planted-pieces", "risk-labels", "risk-ties"])
def test_the_wrong_sign_is_no_subtle_slip_and_fails_elsewhere_too(case: str) -> None:
    wrong_sign = next(mutant for mutant in MUTANTS if mutant.name == "wrong_sign")
    assert [row.verdict for row in judged(wrong_sign.solver, on=case)] == ["failed"]
