from __future__ import annotations

import pytest

from convexstruct.core.cases import Make
from convexstruct.families.gaussian_process import cases
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.tolerances import ROUNDING
from tests.families.gaussian_process.kernel_chains import spread, written_out

PLANTED = [cases.planted_two, cases.planted_three, cases.flat]


@pytest.mark.parametrize("make", PLANTED)
def test_the_point_built_in_satisfies_the_optimality_conditions(make: Make) -> None:
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
