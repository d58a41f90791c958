"""The semidefinite programs of convex energy networks: against each other, hand-made optima, and without each part."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import convexstruct as cs
from convexstruct.families.energy_network.planted import plant_inference, plant_ones, plant_zeros
from convexstruct.models.energy_network import dual, least_energy, primal
from convexstruct.tolerances import HIGH, MID
from tests.families.energy_network.networks import small
from tests.reference import agrees, optimum


@pytest.mark.parametrize("n_units", [0, 2])
@pytest.mark.parametrize("lam", [0.1, 1.0, 30.0])
def test_primal_and_dual_have_one_optimum(n_units: int, lam: float) -> None:
    problem = small(0, n_units=n_units, lam=lam)
    assert optimum(dual(problem)).value == pytest.approx(optimum(primal(problem)).value, rel=HIGH.gap)


@pytest.mark.parametrize("plant", [plant_zeros, plant_ones])
def test_the_primal_has_the_planted_optimum(plant: Any) -> None:
    instance = plant(np.random.default_rng(3), 3, 2)
    agrees(primal(instance.problem), instance.optimum)


@pytest.mark.parametrize("n_units", [0, 3])
def test_inference_has_the_planted_optimum_and_newton_meets_it(n_units: int) -> None:
    instance: Any = plant_inference(np.random.default_rng(4), 4, 4, n_units, 2)
    assert instance.optimum is not None
    agrees(least_energy(instance.problem), instance.optimum)
    assert cs.solve(instance.problem).primal == pytest.approx(instance.optimum, rel=HIGH.gap)


@pytest.mark.parametrize("part", ["faces", "r"])
def test_the_primal_without_a_part_lies_lower(part: str) -> None:
    problem = small(1)
    assert not primal(problem).without(part).reference().value >= optimum(primal(problem)).value * (1.0 - MID.gap)


@pytest.mark.parametrize("part", ["U", "Q", "v"])
def test_the_dual_without_a_part_lies_higher(part: str) -> None:
    instance: Any = plant_zeros(np.random.default_rng(5), 3, 2)
    problem = small(2, n_units=2) if part == "v" else instance.problem
    assert dual(problem).without(part).reference().value > optimum(dual(problem)).value * (1.0 + MID.gap)


def test_q_that_need_not_be_semidefinite_is_another_problem() -> None:
    """A concave y'Qy is a better fit here: the sign of the semidefinite cone matters."""
    problem = small(3)
    formulation = primal(problem)
    q = formulation.variables["Q"]
    assert formulation.adding("flat", cp.trace(q) == 0).reference().value >= optimum(primal(problem)).value
