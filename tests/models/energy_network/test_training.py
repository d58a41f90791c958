"""The semidefinite programs of convex energy networks: against each other and hand-made optima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.families.energy_network.planted import plant_inference, plant_ones, plant_zeros
from convexstruct.models.energy_network import dual, least_energy, primal
from convexstruct.tolerances import HIGH
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
