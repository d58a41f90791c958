"""The cases of this family fail every mutant, and pass the solver unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.families.structured_svm.problem import StructuredSVM
from tests.families.structured_svm.mutants import MUTANTS
from tests.mutants import Mutant, assert_fails, assert_passes, honest, judged


@pytest.mark.slow
def test_the_honest_solver_passes_every_case() -> None:
    assert_passes(honest, "structured_svm", least=30)


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    assert_fails(mutant)


def test_weights_of_the_wrong_sign_are_named_where_cuts_cannot_even_value_them() -> None:
    def negative(problem: StructuredSVM) -> Any:
        return np.where(problem.features.nonnegative, -0.5, honest(problem).point["w"])

    (row,) = judged(negative, on="amn-planted-grid")
    assert row.verdict == "failed"
    assert "infeasible: w_edge below 0 by 0.5" in row.note


@pytest.mark.parametrize("case", ["svm-slack", "hm-svm", "m3n-planted", "svm-kernel", "svm-length-one"])
def test_the_wrong_sign_is_no_subtle_slip_and_fails_elsewhere_too(case: str) -> None:
    wrong_sign = next(mutant for mutant in MUTANTS if mutant.name == "wrong_sign")
    assert [row.verdict for row in judged(wrong_sign.solver, on=case)] == ["failed"]
