"""Convex energy networks: J by enumeration of faces, D in closed form, bounds at every point, scales and edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct.arrays import Matrix
from convexstruct.core.certificates import certify
from convexstruct.families.energy_network import ConvexEnergyNetwork
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.energy_network.networks import least_energy, small, weights, written_out


def softplus(z: Matrix) -> Matrix:
    return np.asarray(np.logaddexp(0.0, z))


@pytest.mark.parametrize("seed", range(5))
def test_j_is_the_hinge_with_the_maximum_over_every_face_of_the_cube(seed: int) -> None:
    problem, rng = small(seed), np.random.default_rng(seed)
    for size in (0.1, 1.0, 5.0):
        point = weights(problem, rng, size, rank=3)
        point["Q"] = point["Q"] + 0.01 * np.eye(3)  # with an inverse, as enumeration needs it
        value = problem.primal(point)
        assert float(value) == pytest.approx(written_out(problem, point), rel=ROUNDING)
        assert value.allowance <= ROUNDING * abs(value)


@pytest.mark.parametrize("n_units", [0, 3])
def test_d_is_the_closed_form(n_units: int) -> None:
    problem, rng = small(1, n_units=n_units), np.random.default_rng(1)
    for _ in range(5):
        r = rng.uniform(size=problem.T.shape)
        y, t, lam = np.abs(problem.T - r), problem.T, problem.lam
        size = float((((y - t).T @ np.asarray(problem.X)) ** 2).sum())
        size += float((np.maximum(np.linalg.eigvalsh(0.5 * (y.T @ y - t.T @ t)), 0.0) ** 2).sum())
        if problem.hidden is not None:
            a, b = problem.hidden[:, :-1], problem.hidden[:, -1]
            rise = (softplus(y @ a.T + b) - softplus(t @ a.T + b)).sum(axis=0)
            size += float((np.maximum(rise, 0.0) ** 2).sum())
        found = problem.dual({"r": r})
        assert float(found) == pytest.approx(r.sum() - size / (2.0 * lam), rel=ROUNDING, abs=ROUNDING)
        assert found.allowance <= ROUNDING * problem.trivial_value / lam


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 4), n_labels=st.integers(1, 4), n_units=st.sampled_from([0, 2]),
    lam=st.sampled_from([0.01, 1.0, 100.0]), seed=st.integers(0, 99),
)  # fmt: skip
def test_every_r_bounds_every_w(n: int, n_labels: int, n_units: int, lam: float, seed: int) -> None:
    problem, rng = small(seed, n, 2, n_labels, n_units, lam), np.random.default_rng(seed)
    for size in (0.0, 0.3, 3.0):
        point, r = weights(problem, rng, size), np.round(rng.uniform(size=problem.T.shape), rng.integers(3))
        above = [problem.primal(each).upper for each in (point, problem.weights(r))]
        assert problem.dual({"r": r}).lower <= min(above)


@pytest.mark.parametrize("n_units", [0, 2])
@pytest.mark.parametrize("size", [1e-8, 1e6])
def test_the_optimum_is_certified_at_other_scales(size: float, n_units: int) -> None:
    base = small(3, n_units=n_units)
    scaled = ConvexEnergyNetwork(size * np.asarray(base.X), base.labels, base.lam, base.hidden)
    solution = cs.solve(scaled)
    assert solution.status is cs.Status.OPTIMAL, solution.message


@pytest.mark.parametrize("lam", [1e-8, 1e8])
def test_extreme_penalties_end_with_bounds_that_hold(lam: float) -> None:
    problem = small(4, n=6, n_labels=3, n_units=2, lam=lam)
    solution = cs.solve(problem)
    assert solution.lower_bound + ROUNDING >= 0.0
    assert solution.lower_bound <= solution.primal <= problem.trivial_value * (1.0 + ROUNDING)
    assert solution.status is cs.Status.OPTIMAL or lam < 1.0


def test_q_that_is_semidefinite_up_to_rounding_is_a_point_and_another_is_repaired() -> None:
    problem, rng = small(5), np.random.default_rng(5)
    point = weights(problem, rng, rank=1)
    assert certify(problem, {**point, "Q": point["Q"] - 1e-13 * np.eye(3)}).infeasibility == 0.0
    far = certify(problem, {**point, "Q": point["Q"] - np.eye(3)})
    assert far.residuals["Q not semidefinite"] > 0.1
    assert np.isfinite(far.primal)


def test_only_the_symmetric_part_of_q_counts() -> None:
    problem = small(6)
    q = np.array([[2.0, 1.0, 0.0], [-1.0, 1.0, 0.5], [0.0, -0.5, 1.0]])
    assert np.array_equal(problem.as_point({"U": np.zeros((3, 3)), "Q": q})["Q"], np.diag([2.0, 1.0, 1.0]))


def test_sparse_inputs_are_the_same_problem() -> None:
    dense = small(7)
    sparse = ConvexEnergyNetwork(sp.csr_array(dense.X), dense.labels, dense.lam)
    assert cs.solve(sparse).primal == pytest.approx(cs.solve(dense).primal, rel=HIGH.gap)


def test_predictions_are_the_labels_of_the_least_energy_for_new_inputs_too() -> None:
    problem, rng = small(8, n=20), np.random.default_rng(8)
    point = dict(cs.solve(problem).point)
    point["Q"] = point["Q"] + 0.1 * np.eye(3)
    new = rng.normal(size=(6, 3))
    for found, examples in ((problem.predict(point), np.asarray(problem.X)), (problem.predict(point, new), new)):
        for labels, x in zip(found, examples, strict=True):
            scores = point["U"] @ x
            y = cs.solve(problem.inference(point, x[None])).point["Y"][0]
            assert 0.5 * y @ point["Q"] @ y - scores @ y == pytest.approx(
                least_energy(point["Q"], scores), abs=ROUNDING
            )
            assert labels.tolist() == (y >= 0.5).astype(int).tolist()
