"""The cases of this family fail every mutant, and pass the solver unchanged."""

from __future__ import annotations

import pytest

from tests.families.generative_margin.mutants import MUTANTS
from tests.mutants import Mutant, assert_fails, assert_passes, honest, judged


@pytest.mark.slow
def test_the_honest_solver_passes_every_case() -> None:
    assert_passes(honest, "generative_margin", least=12)


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 8


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    assert_fails(mutant)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["hmm-planted", "hmm-zeros-in-c", "network-shared"])
def test_the_wrong_sign_is_no_subtle_slip_and_fails_elsewhere_too(case: str) -> None:
    wrong_sign = next(mutant for mutant in MUTANTS if mutant.name == "wrong_sign")
    assert [row.verdict for row in judged(wrong_sign.solver, on=case)] == ["failed"]
