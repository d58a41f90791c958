"""The cases of log-linear models fail every mutant, and pass the solver unchanged."""

from __future__ import annotations

import pytest

from tests.families.log_linear.mutants import MUTANTS
from tests.mutants import Mutant, assert_fails, assert_passes, honest


def test_the_honest_solver_passes_every_case() -> None:
    assert_passes(honest, "log_linear", least=15)


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 6


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    assert_fails(mutant)
