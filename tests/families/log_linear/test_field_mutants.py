"""Verification names every wrong solver of Markov random fields."""

from __future__ import annotations

import pytest

from tests.families.log_linear.field_mutants import FIELD_MUTANTS
from tests.mutants import Mutant, assert_fails


@pytest.mark.parametrize("mutant", FIELD_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_solver_is_found_out_by_its_case(mutant: Mutant) -> None:
    assert_fails(mutant)
