"""The errata of paper 2, each shown by numbers."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.hadamard import hadamard
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.bmrm import theorem_5
from convexstruct.tolerances import ROUNDING


def binary(x: Vector, lam: float) -> RegularizedRisk:
    return RegularizedRisk.binary(x, np.where(np.arange(len(x)) % 2, 1, -1), lam)


def test_4_over_all_iterates_counts_the_start_which_is_better_than_any_of_them() -> None:
    """(4) takes the least J over all t' <= t; at w_0 = 0 it is 0, below J(w_t) = 1/(2 lam t) of every round t < d.

    With it the gap is 1/(2 lam t), and the true error of the best point 1/(2 lam d) from the start. The proofs of
    theorems 6 and 7 use J(w_t) alone: 1/(lam t) and (1/t + 1/d)/(2 lam) are the values over 1 <= t' <= t.
    """
    d, lam = 16, 0.01
    problem = RegularizedRisk.pieces(hadamard(d), np.zeros(d), lam)
    optimum = -1 / (2 * lam * d)
    for t in range(1, d):
        w = -hadamard(d)[:t].sum(axis=0) / (lam * t)
        model = -1 / (2 * lam * t)
        iterate, start = problem.value(w), problem.value(np.zeros(d))
        assert iterate - model == pytest.approx(1 / (lam * t), rel=ROUNDING)
        assert iterate - optimum == pytest.approx((1 / t + 1 / d) / (2 * lam), rel=ROUNDING)
        assert min(start, iterate) - model == pytest.approx(1 / (2 * lam * t), rel=ROUNDING)
        assert min(start, iterate) - optimum == pytest.approx(1 / (2 * lam * d), rel=ROUNDING)


@pytest.mark.parametrize(("first", "eps"), [(1e4, 1.0), (1e4, 0.5), (300.0, 3.0), (1.0, 0.01)])
def test_13_restored_from_its_recurrence_and_close_to_it(first: float, eps: float) -> None:
    """The recurrence with equality, which is the slowest: e falls by (e / 2) min(1, lam e / 4 G^2 H)."""
    lam, largest, curvature = 0.1, 1.5, 0.8
    gap, steps = first, 0
    while gap > eps:
        gap -= 0.5 * gap * min(1.0, lam * gap / (4.0 * largest**2 * curvature))
        steps += 1
    most = theorem_5(first, lam, eps, largest, curvature)
    assert 0.9 * most - 10.0 < steps <= most


def test_the_logarithm_of_13_is_minus_infinity_on_the_hadamard_instance_unless_its_positive_part_is_meant() -> None:
    d, lam = 16, 0.01
    problem = RegularizedRisk.pieces(hadamard(d), np.zeros(d), lam)
    assert problem.value(np.zeros(d)) == 0.0
    for t in range(1, d):
        assert t <= theorem_5(0.0, lam, 1.0 / (lam * t)) == pytest.approx(8 * t - 2)


def test_the_lipschitz_constant_is_the_squared_singular_value_over_lam() -> None:
    """Section 4.1 says it equals the square of the largest singular value of A; the gradient 1 - A A' alpha / lam
    changes by that over lam."""
    rng = np.random.default_rng(0)
    for lam in (0.01, 3.0):
        problem = binary(rng.normal(size=(8, 5)), lam)
        u, s, _ = np.linalg.svd(problem.matrix())
        alpha = rng.random(8)

        def slope(a: Vector, of: RegularizedRisk = problem) -> Vector:
            return np.asarray(of.forward(of.primal_of(a)) + 1.0)

        rise = np.linalg.norm(slope(alpha + u[:, 0]) - slope(alpha))
        assert rise == pytest.approx(s[0] ** 2 / lam, rel=ROUNDING)
        assert abs(rise - s[0] ** 2) > 0.5 * s[0] ** 2
        for other in rng.normal(size=(50, 8)):
            assert np.linalg.norm(slope(alpha + other) - slope(alpha)) <= s[0] ** 2 / lam * np.linalg.norm(other)


def test_the_line_search_step_of_ls_bmrm_is_no_coordinate_step() -> None:
    """Section 5 calls it coordinate descent in the adjoint by the Gauss-Southwell rule. The step from beta towards the
    new plane's vertex e_i shrinks all other coordinates, as it must on the simplex: it is the step of Frank and Wolfe,
    and its coordinate is the one the linear oracle finds."""
    rng = np.random.default_rng(1)
    problem = RegularizedRisk.pieces(rng.normal(size=(5, 3)), rng.normal(size=5), 0.2)
    beta = np.full(5, 0.2)
    w = problem.primal_of(beta)
    vertex = problem.subgradient(w).alpha  # the plane that is active at w: argmax over the simplex of <grad D, .>
    slope = problem.forward(w) + problem.loss.offset
    assert vertex.sum() == 1
    assert vertex.argmax() == slope.argmax()
    toward = vertex - beta
    back = problem.adjoint(toward)
    step = min(1.0, float(slope @ toward) * problem.lam / float(back @ back))
    new = beta + step * toward
    best = max(problem.dual_value(beta + t * toward) for t in np.linspace(0, 1, 10_001))
    assert problem.dual_value(new) >= best
    assert step > 0
    others = np.arange(5) != vertex.argmax()
    np.testing.assert_allclose(new[others], (1 - step) * beta[others], rtol=ROUNDING)
    moved = beta.copy()
    moved[vertex.argmax()] += 1e-3  # what a coordinate step does leaves the simplex
    assert max(problem.dual_residuals({"alpha": moved}).values()) > 0
