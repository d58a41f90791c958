"""Pseudolikelihood in CVXPY against the definition, sample by sample and variable by variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from convexstruct.arrays import Vector
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.models import FORMULATIONS, Formulation
from convexstruct.tolerances import HIGH, MID
from tests.families.log_linear.fields import drawn
from tests.reference import optimum


def built(problem: PseudoLikelihood) -> Formulation:
    formulation: Formulation = FORMULATIONS["log_linear.pseudolikelihood"].builder(problem)
    return formulation


def stated(graph: str = "grid", seed: int = 0, **options: Any) -> PseudoLikelihood:
    field = drawn(graph, seed, 100)
    assert field.samples is not None
    return PseudoLikelihood.read(field.factors, field.samples, **options)


def by_definition(problem: PseudoLikelihood, theta: Vector) -> float:
    """P(theta), without the L1 part's kink: one softmax a sample and variable."""
    factors, samples, total = problem.factors, problem.samples, 0.0
    for v, card in enumerate(factors.cards):
        changed = [np.where(np.arange(samples.shape[1]) == v, label, samples) for label in range(card)]
        scores = np.column_stack([factors.scores(theta, each) for each in changed])
        logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        total -= float(problem.weights @ logs[np.arange(len(samples)), samples[:, v]])
    scale = problem.scale
    return scale.C * total + 0.5 * scale.lam * float(theta @ theta) + problem.l1 * float(np.abs(theta).sum())


@pytest.mark.parametrize("penalty", [{"beta": 0.5}, {"C": 0.2, "l1": 0.3}, {"l1": 1.0}], ids=["L2", "elastic", "L1"])
@pytest.mark.parametrize("graph", ["grid", "cycle"])
def test_its_optimum_is_certified_and_the_value_is_that_of_the_definition(penalty: dict[str, Any], graph: str) -> None:
    problem = stated(graph, **penalty)
    formulation = built(problem)
    said = optimum(formulation)
    theta = np.asarray(formulation.variables["theta"].value)
    assert by_definition(problem, theta) == pytest.approx(said.value, rel=HIGH.gap)


def test_without_a_penalty_it_is_what_a_general_solver_finds() -> None:
    problem = stated("tree", 1)
    start = np.zeros(problem.dimension)
    found = minimize(problem.value_and_gradient, start, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9})
    assert built(problem).reference().value == pytest.approx(found.fun, rel=MID.gap)


def test_20_31_vanishes_at_its_optimum() -> None:
    problem = stated("grid", beta=0.5)
    formulation = built(problem)
    formulation.reference()
    theta = np.asarray(formulation.variables["theta"].value)
    gradient = problem.value_and_gradient(theta)[1] + 0.5 * theta
    assert np.abs(gradient).max() <= MID.gap * problem.trivial_value
