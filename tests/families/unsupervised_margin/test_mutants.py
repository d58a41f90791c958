"""The cases of this family fail every mutant, and pass the solver unchanged."""

from __future__ import annotations

import pytest

from tests.families.unsupervised_margin.mutants import MUTANTS
from tests.mutants import Mutant, assert_fails, assert_passes, honest


@pytest.mark.slow
def test_the_honest_solver_passes_every_case() -> None:
    assert_passes(honest, "unsupervised_margin", least=14)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    assert_fails(mutant)
