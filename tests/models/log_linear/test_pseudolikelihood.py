"""Pseudolikelihood in CVXPY against the definition, sample by sample and variable by variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.tolerances import HIGH, MID
from tests.families.log_linear.fields import drawn
from tests.families.log_linear.test_pseudolikelihood import written_out
from tests.reference import optimum, stated


def drawn_from(graph: str = "grid", seed: int = 0, **options: Any) -> PseudoLikelihood:
    field = drawn(graph, seed, 100)
    assert field.samples is not None
    return PseudoLikelihood.read(field.factors, field.samples, **options)


@pytest.mark.parametrize("penalty", [{"beta": 0.5}, {"C": 0.2, "l1": 0.3}, {"l1": 1.0}], ids=["L2", "elastic", "L1"])
@pytest.mark.parametrize("graph", ["grid", "cycle"])
def test_its_optimum_is_certified_and_the_value_is_that_of_the_definition(penalty: dict[str, Any], graph: str) -> None:
    problem = drawn_from(graph, **penalty)
    formulation = stated("log_linear.pseudolikelihood", problem)
    said = optimum(formulation)
    theta = np.asarray(formulation.variables["theta"].value)
    assert written_out(problem, theta) == pytest.approx(said.value, rel=HIGH.gap)


def test_without_a_penalty_it_is_what_a_general_solver_finds() -> None:
    problem = drawn_from("tree", 1)
    start = np.zeros(problem.dimension)
    found = minimize(problem.value_and_gradient, start, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9})
    assert stated("log_linear.pseudolikelihood", problem).reference().value == pytest.approx(found.fun, rel=MID.gap)
