"""L-BFGS through the steps: where it ends and what it says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.core.solution import Status
from convexstruct.families.energy_network import UnrolledEnergyNetwork, UnrolledLBFGS
from convexstruct.models.energy_network import local_energy
from convexstruct.tolerances import HIGH


def drawn(lam: float, kind: str = "projected", **options: Any) -> UnrolledEnergyNetwork:
    rng = np.random.default_rng(10)
    return UnrolledEnergyNetwork(rng.normal(size=(20, 3)), rng.integers(2, size=(20, 3)), lam, 3, kind=kind, **options)


@pytest.mark.parametrize("products", ["exact", "central"])
def test_it_ends_at_a_stationary_point_and_says_how_long_the_gradient_is(products: str) -> None:
    problem = drawn(100.0)
    solution = cs.solve(problem, UnrolledLBFGS(products=products))
    assert solution.status is Status.STATIONARY
    assert "the gradient of the whole unrolled loss has the length" in solution.message
    gradient = problem.value_and_gradient(solution.point)[1]
    length = np.sqrt(sum(float((each**2).sum()) for each in gradient.values()))
    assert length <= 2.0 * UnrolledLBFGS().slope * problem.trivial_value
    assert solution.lower_bound == 0.0
    assert not solution.status.solved


def test_it_ends_at_a_kink_where_there_is_one_and_says_so() -> None:
    solution = cs.solve(drawn(0.5))
    assert solution.status in (Status.STALLED, Status.ROUNDING)
    assert "no step lowers the loss, whose gradient has the length" in solution.message


@pytest.mark.parametrize("kind", ["projected", "entropic"])
def test_it_is_no_worse_than_the_local_energy_by_itself(kind: str) -> None:
    problem = drawn(2.0, kind)
    assert cs.solve(problem).primal <= local_energy(problem).reference().value * (1.0 + HIGH.gap)
