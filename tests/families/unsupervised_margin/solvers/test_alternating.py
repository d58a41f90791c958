"""Section 5's alternation: each half against its formulation, losses that never rise, and where it ends."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.solvers import alternating
from convexstruct.families.unsupervised_margin.solvers.alternating import (
    Alternation,
    quadratic_half,
    rounds,
    semidefinite_half,
)
from convexstruct.models.unsupervised_margin import alternating_matrix, proposition_1, two_class
from convexstruct.tolerances import HIGH, LOW, MID, ROUNDING
from tests.reference import optimum


def points(seed: int, n: int = 6, beta: float = 0.5) -> UnsupervisedMargin:
    return UnsupervisedMargin.multiclass(np.random.default_rng(seed).normal(size=(n, 2)), 2, beta, 0.3)


@pytest.mark.parametrize("seed", range(2))
def test_the_semidefinite_half_brackets_the_optimum_of_its_formulation(seed: int) -> None:
    problem, lam = points(seed), np.random.default_rng(seed).random(6)
    found = semidefinite_half(problem, lam, MID.gap, problem.trivial()[0]["M"])
    known = optimum(alternating_matrix(problem, lam))
    assert found.lower <= known.upper_bound
    assert found.value >= known.lower_bound
    assert found.value - found.lower <= MID.gap * found.value
    assert max(problem.residuals({"M": found.found, "N": np.zeros((0, 0))}).values()) <= HIGH.feasibility


@pytest.mark.slow
def test_the_semidefinite_half_ends_where_rounding_leaves_a_gap() -> None:
    """No gap below 0 is ever reached: after `BRACKETS`."""
    problem = points(0, 3)
    half = semidefinite_half(problem, np.full(3, 0.3), -1.0, problem.trivial()[0]["M"])
    assert -ROUNDING <= half.value - half.lower <= HIGH.gap * half.value


@pytest.mark.parametrize("seed", range(2))
def test_the_quadratic_half_is_proposition_1(seed: int) -> None:
    problem = points(seed, 6)
    m = semidefinite_half(problem, np.full(6, 0.3), LOW.gap, problem.trivial()[0]["M"]).found
    found = quadratic_half(problem, m)
    assert ((found.found >= 0) & (found.found <= 1)).all()
    known = proposition_1(problem, M=2 * m - 1).reference().value
    assert known == pytest.approx(found.value, rel=MID.gap)
    assert known == pytest.approx(found.lower, rel=HIGH.gap)


@pytest.mark.parametrize("seed", [0, 3])
def test_the_losses_never_rise_and_end_above_3(seed: int) -> None:
    """Also where the halves are hardly solved."""
    problem, gap = points(seed, 6, beta=(0.1, 1.0)[seed % 2]), (LOW.gap, 0.5)[seed // 2]
    every = list(rounds(problem, np.random.default_rng(seed).random(6), gap))
    losses = [value for each in every for value in each.values]
    assert every[-1].settled
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] >= two_class(problem).reference().lower_bound


@pytest.mark.parametrize("low", [0.3, 0.5])
def test_where_some_m_has_q_lambda_all_ones_the_start_decides_the_end(low: float) -> None:
    """Each row costs at least lambda_i / 2, that M attains it, and lambda is then a maximiser for it: both halves
    rest, at e'lambda / 2, far above (3)."""
    problem = points(1, 8)
    lam = np.random.default_rng(2).uniform(low, 1.0, 8)
    *_, last = rounds(problem, lam, MID.gap)
    assert last.values[1] == pytest.approx(lam.sum() / 2, rel=LOW.gap)
    assert two_class(problem).reference().upper_bound < 0.6 * last.values[1]


def test_both_halves_rest_along_a_path_on_which_the_loss_falls_so_they_end_at_no_local_minimum() -> None:
    """One point three times, the paper's beta 1: M with one value m off its diagonal and lambda with one value l have
    h = l (1 + 2 m), and h = e for m = (1/l - 1) / 2. The loss there is 3 l / 2, whichever l."""
    problem = UnsupervisedMargin.read(None, 2, beta=2.0, label_balance=0.4, kernel=np.ones((3, 3)), lengths=[1, 1, 1])
    for l in (0.9, 0.8, 0.7):
        m, lam = np.full((3, 3), (1 / l - 1) / 2), np.full(3, l)
        np.fill_diagonal(m, 1.0)
        m = (m + 1) / 2
        assert max(problem.residuals({"M": m, "N": np.zeros((0, 0))}).values()) == 0
        of_lambda = quadratic_half(problem, m)
        of_matrix = semidefinite_half(problem, lam, MID.gap, m)
        for half in (of_lambda, of_matrix):
            assert half.value == pytest.approx(1.5 * l, rel=MID.gap)
            assert half.lower == pytest.approx(1.5 * l, rel=MID.gap)


@pytest.mark.parametrize("seed", range(2))
def test_as_a_solver_it_is_stationary_between_the_bounds_of_3(seed: int) -> None:
    problem = PermutationInvariantMargin(points(seed, 6, beta=(0.5, 4.0)[seed]))
    found = solve(problem, Alternation())
    assert found.status is Status.STATIONARY
    assert found.certificate == certify(problem, found.point, found.dual_point)
    known = two_class(problem.problem).reference()
    assert 0.0 < found.lower_bound <= known.upper_bound
    assert found.primal >= known.lower_bound
    assert (np.diff([iterate.primal for iterate in Alternation().iterate(problem)]) <= 0).all()
    lam, m = found.point["x"], found.point["M"]
    for half in (semidefinite_half(problem.problem, lam, LOW.gap, m), quadratic_half(problem.problem, m)):
        assert half.value >= found.primal * (1 - LOW.gap)


def test_halves_that_are_hardly_solved_are_not_called_stationary() -> None:
    """What their bounds leave open is above what the options ask for."""
    problem = PermutationInvariantMargin(points(1, 8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alternating, "BRACKETS", 1)
        patch.setattr(alternating, "STEPS", 2)
        found = solve(problem, Alternation())
    assert found.status is Status.STALLED


@pytest.mark.parametrize(("size", "beta"), [(1e154, 1.0), (1e150, 1e-10), (1e200, 1e300)])
def test_features_whose_kernel_overflows_end_with_a_reason(size: float, beta: float) -> None:
    x = size * np.random.default_rng(0).normal(size=(6, 2))
    problem = PermutationInvariantMargin(UnsupervisedMargin.multiclass(x, 2, beta, 0.3))
    found = solve(problem, Alternation())
    assert not found.status.solved
    assert "K / beta overflows" in found.message
    assert found.lower_bound <= found.primal
