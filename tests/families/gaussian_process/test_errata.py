"""What appendix E.2 of paper 2 says of (32), and where it is wrong, in numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import entr, logsumexp, softmax

from convexstruct.core.driver import solve
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.tolerances import HIGH, MID
from tests.families.gaussian_process.kernel_chains import small


def test_what_is_free_in_32_are_coefficients_and_z_less_lam_u_are_consistent_marginals() -> None:
    """The text takes the variables of (32) for marginals without consistency constraints. They are no marginals: they
    have either sign and sum to 0 at each position. The marginals z - lam u at the optimum are consistent."""
    problem = small(0, lengths=(4,))
    whole = GaussianProcessSequences.from_gram(
        problem.gram.matrix[np.ix_(problem.places, problem.places)], [problem.labels], 3, eta=problem.eta,
        lam=problem.lam,
    )  # fmt: skip
    u = solve(whole, tol=1e-12).point["u"]
    truth, pairs = whole.split(whole.truth)
    label, transition = whole.split(u)
    assert label.min() < -0.01
    assert label.sum(axis=1) == pytest.approx(0.0, abs=MID.gap)
    marginals, steps = truth - whole.lam * label, pairs - whole.lam * transition
    assert marginals.min() >= -HIGH.gap
    assert marginals.sum(axis=1) == pytest.approx(1.0, abs=MID.gap)
    assert steps.sum(axis=0) == pytest.approx(marginals[1:].sum(axis=0), abs=MID.gap)  # what steps arrive at
    assert steps.sum(axis=1) == pytest.approx(marginals[:-1].sum(axis=0), abs=MID.gap)  # and what they leave


def test_the_projections_of_e_1_solve_another_problem_for_they_leave_the_entropy_out() -> None:
    """(23) with mu -> 0 must give the maximiser of <t, m> + H(m), whose value is ln sum e^t; a projection of m0 + t/mu
    gives that of <t, m> alone, a vertex, and max t."""
    t, mu = np.array([0.3, 0.0, -0.4]), 1e-3
    centre = np.full(3, 1.0 / 3.0)
    grid = np.array([[i, j, 400 - i - j] for i in range(401) for j in range(401 - i)]) / 400.0
    penalty = 0.5 * mu * ((grid - centre) ** 2).sum(axis=1)
    entropic = grid @ t + entr(grid).sum(axis=1) - penalty
    projected = grid @ t - penalty
    assert grid[entropic.argmax()] == pytest.approx(softmax(t), abs=1.0 / 400.0)
    assert entropic.max() == pytest.approx(float(logsumexp(t)), abs=mu)
    assert grid[projected.argmax()].tolist() == [1.0, 0.0, 0.0]
    assert projected.max() <= t.max() < logsumexp(t) - 0.8


def test_no_l_makes_25_a_bound_for_the_entropy_is_infinitely_steep_at_the_border() -> None:
    """(25) rests on D(b) >= D(a) + <grad D(a), b - a> - L/2 |b - a|^2 for one L. One position, two labels,
    m = (s, 1 - s): whatever L is, it fails between s and s / 2 where s is small."""
    problem = GaussianProcessSequences.from_gram([[1.0]], [[1]], 2)

    def d(s: float) -> float:
        m = np.array([s, 1.0 - s])
        rest = problem.truth - np.concatenate((m, np.zeros(4)))
        return float(entr(m).sum() - rest @ problem.multiply(rest) / (2 * problem.lam))

    def slope(s: float) -> float:
        return float(np.log((1.0 - s) / s) - 2.0 * s)  # of H, and of -(z - m)'K(z - m)/2 = -s^2

    assert (d(0.3 + 1e-6) - d(0.3 - 1e-6)) / 2e-6 == pytest.approx(slope(0.3), rel=HIGH.gap)
    for bound in (1e2, 1e4, 1e6):
        a = 0.01 / bound
        b = 0.5 * a
        assert d(b) < d(a) + slope(a) * (b - a) - 0.5 * bound * (b - a) ** 2
