from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.gaussian_process import cases
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import HIGH, ROUNDING
from convexstruct.verification import cases_for, verify
from convexstruct.verification.references import stored
from tests.families.gaussian_process.kernel_chains import spread, written_out
from tests.reference import optimum
from tests.verification.rows import told

PLANTED = [cases.planted_two, cases.planted_three, cases.flat]


@pytest.mark.parametrize("make", PLANTED)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_built_in_is_the_one_a_general_solver_finds(make: cases.Make, seed: int) -> None:
    instance = make(seed)
    assert instance.optimum is not None
    said = optimum(FORMULATIONS["gaussian_process.compact_dual"].builder(instance.problem))
    assert said.value == pytest.approx(instance.optimum, rel=HIGH.gap)


@pytest.mark.parametrize("make", PLANTED)
def test_the_point_built_in_satisfies_the_optimality_conditions(make: cases.Make) -> None:
    instance = make(0)
    problem = instance.problem
    assert isinstance(problem, GaussianProcessSequences)
    assert instance.point is not None
    u = instance.point["u"]
    g = problem.at(u, problem.multiply(u)).g
    assert g @ problem.multiply(g) / (2 * problem.lam) <= ROUNDING
    assert problem.primal(instance.point) == pytest.approx(instance.optimum, rel=ROUNDING)
    assert written_out(problem).value(spread(problem, u)) == pytest.approx(instance.optimum, rel=ROUNDING)


def test_the_planted_matrices_have_more_than_what_the_conditions_ask_for() -> None:
    """V does not vanish: G is not only the part that makes u optimal, and u is not the only trap."""
    problem = cases.planted_three(0).problem
    assert isinstance(problem, GaussianProcessSequences)
    assert problem.gram.factor().rows.shape[1] > problem.n_labels - 1
    assert problem.eta > 0


def test_the_singular_case_is_singular_and_windows_repeat() -> None:
    singular, windows = cases.singular(0).problem, cases.windows_rbf(0).problem
    assert isinstance(singular, GaussianProcessSequences)
    assert isinstance(windows, GaussianProcessSequences)
    assert singular.gram.factor().rows.shape == (11, 2)
    assert windows.n_inputs < len(windows.places)


def test_every_generator_is_deterministic_and_heeds_its_seed() -> None:
    for case in cases.CASES:
        first, again, other = (case.make(seed).problem for seed in (3, 3, 4))
        for problem in (first, again, other):
            assert isinstance(problem, GaussianProcessSequences)
        np.testing.assert_array_equal(first.gram.matrix, again.gram.matrix)  # type: ignore[attr-defined]  # a GaussianProcessSequences
        np.testing.assert_array_equal(first.labels, again.labels)  # type: ignore[attr-defined]  # a GaussianProcessSequences
        same = np.array_equal(first.gram.matrix, other.gram.matrix)  # type: ignore[attr-defined]  # a GaussianProcessSequences
        assert not same, case.name


def test_every_case_is_verified() -> None:
    outcome = verify(on="gaussian_process", quick=True)
    assert outcome.ok, told(outcome)
    assert len(outcome) >= 12


def test_every_open_case_has_a_stored_reference_for_this_data() -> None:
    assert [case.name for case in cases_for("gaussian_process", open_only=True) if not stored(case, case.build())] == []
