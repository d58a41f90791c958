"""The cases of pseudolikelihood: optima found by hand are optimal, every case is verified, and every mutant fails."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.cases import Case
from convexstruct.families.log_linear import PseudoLikelihood, pseudo_cases
from convexstruct.tolerances import ROUNDING
from convexstruct.verification import verify
from tests.families.log_linear.pseudo_mutants import PSEUDO_MUTANTS
from tests.mutants import Mutant, assert_fails
from tests.verification.rows import told


@pytest.mark.parametrize("make", [pseudo_cases.coin, pseudo_cases.uniform])
def test_the_optimum_by_hand_is_attained_at_its_point_and_stationary(make: pseudo_cases.Make) -> None:
    instance = make(0)
    problem = instance.problem
    assert isinstance(problem, PseudoLikelihood)
    assert instance.point is not None
    theta = instance.point["theta"]
    assert problem.primal(instance.point) == pytest.approx(instance.optimum, rel=ROUNDING)
    assert np.abs(problem.penalty.gradient(theta, problem.value_and_gradient(theta)[1])).max() < 1e-12


@pytest.mark.parametrize("case", pseudo_cases.PSEUDO_CASES, ids=lambda case: case.name)
def test_every_case_is_verified(case: Case) -> None:
    outcome = verify(on=case.name)
    assert outcome.ok, told(outcome)


@pytest.mark.parametrize("mutant", PSEUDO_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_solver_is_found_out_by_its_case(mutant: Mutant) -> None:
    assert_fails(mutant)
