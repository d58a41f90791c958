"""The energy on the cube: finite differences, `minimise` against every face, what carries its rounding."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.energy_network import EnergyInference
from convexstruct.families.energy_network import energy as module
from convexstruct.families.energy_network.energy import Energy, factor, minimise, semidefinite, sigmoid, softplus
from convexstruct.rounding import exact
from convexstruct.tolerances import DERIVATIVE, ROUNDING
from tests.families.energy_network.networks import least_energy


def drawn(seed: int, n_labels: int, rank: int, n_units: int, size: float = 1.0) -> Energy:
    rng = np.random.default_rng([8, seed])
    b = rng.normal(size=(n_labels, rank))
    v, a, offsets = rng.uniform(size=n_units), rng.normal(size=(n_units, n_labels)), rng.normal(size=n_units)
    return Energy(size * b @ b.T, size * v, a, offsets)


def test_softplus_and_sigmoid_carry_errors_that_hold() -> None:
    z = np.array([-800.0, -30.0, -1e-9, 0.0, 1e-3, 2.5, 40.0, 800.0])
    rows: tuple[tuple[Any, Any], ...] = (
        (softplus, lambda x: mpmath.log1p(mpmath.exp(x))),
        (sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    )
    for of, truth in rows:
        found = of(exact(z))
        assert np.allclose(found.value, of(z), rtol=0, atol=0)
        with mpmath.workdps(50):
            off = [abs(mpmath.mpf(y) - truth(mpmath.mpf(x))) for x, y in zip(z.tolist(), found.value.tolist())]
        assert all(o <= e for o, e in zip(off, found.errors.tolist()))
        assert found.errors.max() <= 1e-12


def test_slope_and_curvature_are_those_of_finite_differences() -> None:
    energy, rng = drawn(0, 4, 2, 3), np.random.default_rng(0)
    scores, y, way = rng.normal(size=(5, 4)), rng.uniform(size=(5, 4)), rng.normal(size=(5, 4))
    step = 1e-5
    ahead, behind = y + step * way, y - step * way
    slope = (energy.values(scores, ahead) - energy.values(scores, behind)) / (2.0 * step)
    assert (energy.gradient(scores, y) * way).sum(axis=1) == pytest.approx(slope, rel=DERIVATIVE)
    bend = (energy.gradient(scores, ahead) - energy.gradient(scores, behind)) / (2.0 * step)
    assert np.einsum("nij,nj->ni", energy.hessians(y), way) == pytest.approx(bend, rel=DERIVATIVE, abs=DERIVATIVE)


@pytest.mark.parametrize("seed", range(4))
def test_minimise_finds_the_least_energy_of_every_face(seed: int) -> None:
    energy, rng = drawn(seed, 4, 4, 0), np.random.default_rng(seed)
    scores = 2.0 * rng.normal(size=(30, 4))
    y = minimise(energy, scores)
    assert energy.values(scores, y) == pytest.approx([least_energy(energy.Q, s) for s in scores], abs=ROUNDING)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(
    ("n_labels", "rank", "n_units"), [(1, 1, 0), (6, 2, 0), (6, 0, 0), (30, 5, 0), (20, 1, 5), (20, 20, 9)]
)
def test_minimise_closes_its_gap_whatever_the_rank_of_q(n_labels: int, rank: int, n_units: int, size: float) -> None:
    energy = drawn(1, n_labels, rank, n_units, size)
    scores = size * np.random.default_rng(1).normal(size=(50, n_labels))
    y = minimise(energy, scores)
    assert ((y >= 0.0) & (y <= 1.0)).all()
    assert energy.gaps(scores, y).max() <= 1e-12 * size * n_labels


def test_minimise_closes_its_gap_where_newtons_step_leads_out_of_the_face_that_it_starts_on() -> None:
    """Q of rank 1, whose other directions rise by 1e-9; each step was projected away, and 200 left a gap of 4e-9."""
    q = np.array([0.22, 0.35, 0.02])
    energy = Energy(np.outer(q, q), np.zeros(0), np.zeros((0, 3)), np.zeros(0))
    scores = 0.0628 * q + [[2.1e-9, 2.7e-9, 0.0]]
    assert (energy.gaps(scores, minimise(energy, scores)) <= 1e-15).all()


@pytest.mark.parametrize("swept", [module.SWEPT, 1])
def test_minimise_closes_its_gap_where_many_faces_are_met_if_few_steps_begin_with_a_sweep(
    swept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q of half the rank, scores near its range. A sweep before each step moves coordinates off the faces again."""
    monkeypatch.setattr(module, "SWEPT", swept)
    rng, worst = np.random.default_rng(5), 0.0
    for b in rng.normal(size=(20, 8, 4)):
        energy = Energy(b @ b.T, np.zeros(0), np.zeros((0, 8)), np.zeros(0))
        scores = rng.uniform(size=(20, 8)) @ b @ b.T + 10.0 ** rng.uniform(-6, 0) * rng.normal(size=(20, 8))
        worst = max(worst, float(energy.gaps(scores, minimise(energy, scores)).max()))
    assert (worst <= 1e-12) is (swept > 1)


def test_minimise_closes_its_gap_where_q_hardly_resists_a_direction_out_of_the_cube() -> None:
    """Slopes of 1e-10 along the null space of Q: Newton's step is long, and leaves the cube almost at once."""
    rng = np.random.default_rng(0)
    for b in rng.normal(size=(60, 2)):
        energy = Energy(np.outer(b, b), np.zeros(0), np.zeros((0, 2)), np.zeros(0))
        scores = rng.normal(size=(20, 1)) * b * rng.uniform() + 10.0 ** rng.uniform(-12, -8, size=(20, 2))
        size = np.abs(scores).sum(axis=1) + np.abs(energy.Q).sum()
        assert (energy.gaps(scores, minimise(energy, scores)) <= module.ENOUGH * size).all()


def test_the_semidefinite_part_is_one_and_its_error_holds() -> None:
    """BB' is semidefinite exactly, and the sums that are computed in its place are off, by no more than is said."""
    found = semidefinite(np.diag([3.0, -2.0, 0.0, 1e-20]))
    assert np.abs(found.value - np.diag([3.0, 0.0, 0.0, 1e-20])).max() <= found.errors.max() <= 1e-14
    matrix = np.random.default_rng(0).normal(size=(6, 6))
    matrix = matrix + matrix.T
    found, rows = semidefinite(matrix), [list(map(Fraction, row)) for row in factor(matrix).tolist()]
    truth = [sum(a * b for a, b in zip(x, y)) for x in rows for y in rows]
    off = [abs(Fraction(value) - each) for value, each in zip(found.value.ravel().tolist(), truth)]
    assert all(o <= Fraction(e) for o, e in zip(off, found.errors.ravel().tolist()))
    assert max(off) > 0
    assert found.errors.max() <= 1e-14 * np.abs(matrix).max()


def test_the_bounds_of_inference_hold_where_q_is_semidefinite_only_up_to_rounding() -> None:
    q = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-10]])  # an eigenvalue of -5e-11
    problem = EnergyInference(np.array([[0.5, 0.5], [1.0, 1.0]]), q)
    grid = np.linspace(0.0, 1.0, 101)
    y = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    least = sum((0.5 * (y @ q * y).sum(axis=1) - y @ s).min() for s in problem.scores)
    assert problem.dual({"Y": np.full((2, 2), 0.5)}).lower <= least
    assert problem.dual({"Y": minimise(problem.energy, problem.scores)}).lower <= least


def test_a_gap_below_the_rounding_of_q_ends_as_such_and_names_q() -> None:
    """Of 100 energies that are all 0 at their minimum, Q has rank 1, and its square root is rounded."""
    problem = EnergyInference(np.zeros((100, 8)), np.ones((8, 8)))
    found = solve(problem, tol=1e-12)
    assert found.status is Status.ROUNDING
    assert "Q is positive semidefinite only up to rounding" in found.message
    assert found.lower_bound <= 0.0 <= found.primal
    assert solve(problem).status is Status.OPTIMAL
    large = EnergyInference(np.full((100, 8), 1e9), np.eye(8))  # its sums make the allowance, and not Q
    assert problem.rounding_reason({}, {"Y": np.zeros((100, 8))}) != ""
    assert large.rounding_reason({}, {"Y": np.ones((100, 8))}) == ""
    assert large.rounding_reason({}, None) == ""
