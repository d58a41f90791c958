"""Terms of theta and centres: derivatives, minimisers, and the three readings of the reverse divergence."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.generative_margin.objectives import (
    Objective,
    QuadraticPenalty,
    ReverseKL,
    frequencies,
    uniform,
)
from convexstruct.graphs import hmm_tables
from convexstruct.rounding import exact
from tests.families.generative_margin.instances import small_hmm, small_network

LAYOUT = hmm_tables(2, 3)
D = LAYOUT.dimension
Q = np.random.default_rng(0).uniform(0.1, 0.9, D)
TERMS: list[Objective] = [
    QuadraticPenalty(0.5, -1.0).of(LAYOUT),
    QuadraticPenalty(np.linspace(0.01, 9.0, D), np.log(Q)).of(LAYOUT),
    ReverseKL(Q, 0.7).of(LAYOUT),
    ReverseKL(Q, 3.0, printed=True).of(LAYOUT),
]
every = pytest.mark.parametrize("f", TERMS, ids=lambda f: f"{type(f).__name__}{getattr(f, 'printed', '')}")


def inside(f: Objective, n: int) -> np.ndarray:
    low = np.maximum(f.convex_from, -6.0)
    return low + np.random.default_rng(n).uniform(size=D) * (0.0 - low)


@every
def test_slope_and_curvature_are_those_of_finite_differences(f: Objective) -> None:
    theta, step = inside(f, 1), 1e-4
    up, at, down = f.value(theta + step), f.value(theta), f.value(theta - step)
    np.testing.assert_allclose(f.slope(theta), (up - down) / (2 * step), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(f.curvature(theta), (up - 2 * at + down) / step**2, rtol=1e-3, atol=1e-5)
    assert (f.curvature(theta) >= f.modulus - 1e-12).all()
    found = f.value(exact(theta))
    assert (np.abs(f.value(theta.astype(np.longdouble)) - found.value) <= found.errors).all()


@every
@pytest.mark.parametrize("log_lam", [-460.0, -3.0, 0.0, 2.0, 9.0, 400.0])
def test_the_minimiser_is_stationary_or_at_the_floor(f: Objective, log_lam: float) -> None:
    rng = np.random.default_rng(2)
    for scale in (1e-3, 1.0, 100.0):
        u, lam = scale * rng.normal(size=D), np.full(D, np.exp(log_lam))
        theta = f.least(u, lam)
        slope = f.slope(theta) - u + lam * np.exp(theta)
        unit = np.abs(u) + lam * np.exp(theta) + np.abs(f.slope(theta)) + 1e-9
        at_floor = theta <= f.convex_from
        with np.errstate(over="ignore", invalid="ignore"):
            fine = (np.abs(slope) <= 1e-8 * unit) | (at_floor & (slope >= -1e-8 * unit)) | (theta > 50.0)
        assert fine.all()


def test_reverse_kl_is_convex_from_its_floor_on_and_with_a_proximal_term_where_gamma_makes_up_for_the_least() -> None:
    for f, power in zip(TERMS[2:], (2, 3)):
        assert (f.curvature(f.convex_from - 1e-3) < 0).all()
        assert (f.curvature(f.convex_from + 1e-3) > 0).all()
        least = f.curvature(f.convex_from - 1.0)
        np.testing.assert_allclose(least, -np.asarray(f.weight) * Q * np.exp(-power))
        assert (f.curvature(f.convex_from - np.linspace(0.0, 9.0, 40)[:, None]) >= least).all()


def test_reverse_kl_as_printed_is_least_at_a_mass_of_q_over_e_and_no_divergence() -> None:
    grid = np.linspace(-8.0, 0.0, 80_001)
    for q in (0.1, 0.5, 0.9):
        printed = np.exp(grid) * (grid - np.log(q))
        assert np.exp(grid[np.argmin(printed)]) == pytest.approx(q / np.e, rel=1e-3)
        assert printed.min() == pytest.approx(-q / np.e, rel=1e-6)  # a divergence is at least 0
        right = printed - np.exp(grid) + q
        assert right.min() == pytest.approx(0.0, abs=1e-8)
        assert np.exp(grid[np.argmin(right)]) == pytest.approx(q, rel=1e-3)


def test_centres_are_distributions_and_the_smaller_model_forgets_the_parents() -> None:
    for problem in (small_hmm(0), small_network(0)):
        for centre in (uniform(problem.layout), frequencies(problem.features, 0.5)):
            np.testing.assert_allclose(problem.layout.block_sum(centre), 1.0)
    problem = small_hmm(0)
    rows = problem.layout.tables(frequencies(problem.features, kept={"transition": ()}))["transition"]
    np.testing.assert_array_equal(rows[0], rows[1])
    full = problem.layout.tables(frequencies(problem.features))["transition"]
    assert np.abs(full[0] - full[1]).max() > 1e-3
    same = frequencies(problem.features, kept={"transition": (0,)})
    np.testing.assert_array_equal(same, frequencies(problem.features))
