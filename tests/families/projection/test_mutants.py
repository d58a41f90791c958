"""The mutants of this family, wrong solvers: verification has to refuse each of them."""

from __future__ import annotations

import pytest

from tests.families.projection.mutants import MUTANTS, honest
from tests.mutants import Mutant, assert_fails, assert_passes


def test_the_honest_solver_passes_every_case() -> None:
    assert_passes(honest, "projection", least=18)


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 16


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    assert_fails(mutant)
