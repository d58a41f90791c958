"""BMRM: the exact values of the Hadamard instance, the bound on the rounds, planes below the risk, and known optima."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.bmrm import LsBMRM, QpBMRM
from convexstruct.families.regularized_risk.solvers.cutting_planes import CuttingPlanes, pack, unpack
from convexstruct.tolerances import ROUNDING
from tests.models.regularized_risk.risks import INSTANCES

BOTH = pytest.mark.parametrize("solver", [QpBMRM(), LsBMRM()], ids=["qp", "ls"])


def rounds_at_most(lam: float, longest: float, first_gap: float, eps: float) -> int:
    """The bound of `bmrm` on the rounds to a gap ``eps``; ``longest`` is G, ``first_gap`` e_1."""
    curvature = 4.0 * longest**2 / lam
    if curvature == 0:
        return 1
    return max(0, math.ceil(math.log2(max(first_gap, eps) / curvature))) + math.ceil(2.0 * curvature / eps) + 1


def rounds(problem: RegularizedRisk, solver: QpBMRM | LsBMRM, count: int) -> list[Iterate]:
    iterates = solver.iterate(problem)
    return [next(iterates) for _ in range(count)]


@BOTH
@pytest.mark.parametrize("name", INSTANCES)
def test_the_dual_value_rises_and_rounds_stay_within_the_bound(solver: QpBMRM | LsBMRM, name: str) -> None:
    problem = INSTANCES[name]()
    longest = float(np.linalg.norm(problem.shares * most_of_each(problem)))  # at least every |a|: see most_of_each
    best, first, least = np.inf, 0.0, -np.inf
    for t, iterate in enumerate(rounds(problem, solver, 60), start=1):
        assert iterate.lower_bound >= least - ROUNDING
        best, least = min(best, iterate.primal), iterate.lower_bound
        first = best - least if t == 1 else first
        for eps in (1e-1, 1e-2):
            if best - least > eps:
                assert t <= rounds_at_most(problem.lam, longest, first, eps)


def most_of_each(problem: RegularizedRisk) -> Vector:
    """The largest |a_p| of each group times sqrt(groups): the norm of the shares times this is at least every |a|."""
    matrix = problem.matrix()
    rows = np.asarray(np.sqrt((matrix.multiply(matrix) if hasattr(matrix, "multiply") else matrix**2).sum(axis=1)))
    most = np.maximum.reduceat(rows.ravel(), problem.loss.start[:-1])
    return np.asarray(most * np.sqrt(problem.loss.n_groups))


@pytest.mark.parametrize("name", INSTANCES)
def test_a_corner_comes_back_as_it_was_packed(name: str) -> None:
    problem = INSTANCES[name]()
    rng = np.random.default_rng(0)
    planes = CuttingPlanes(problem)
    alphas = []
    for _ in range(40):
        plane = problem.subgradient(rng.normal(size=problem.shape))
        np.testing.assert_array_equal(unpack(problem, pack(problem, plane.alpha)), plane.alpha)
        planes.add(plane)
        alphas.append(plane.alpha)
    inside = problem.feasible(rng.random(problem.n_pieces))
    np.testing.assert_array_equal(unpack(problem, pack(problem, inside)), inside)
    np.testing.assert_allclose(planes.gram, planes.a @ planes.a.T, atol=ROUNDING)
    beta = rng.random(40)
    np.testing.assert_allclose(planes.mixture(beta), beta @ np.array(alphas), atol=ROUNDING)
