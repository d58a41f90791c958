"""The two-class SDP (3) by its bordered dual: against Clarabel, the d x d problem, labels, and matrices written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.core.solution import Solution, Status
from convexstruct.families.unsupervised_margin import PermutationInvariantMargin, UnsupervisedMargin
from convexstruct.families.unsupervised_margin.planted import by_kernel
from convexstruct.families.unsupervised_margin.solvers.bordered_dual import SIGNS, Bordered, BorderedDual
from convexstruct.families.unsupervised_margin.solvers.central_path import Orthant, Semidefinite
from convexstruct.models.unsupervised_margin import two_class
from convexstruct.tolerances import LOW, MID, ROUNDING


def posed(x: Any, balance: float = 0.1, beta: float = 1.0) -> PermutationInvariantMargin:
    return PermutationInvariantMargin(UnsupervisedMargin.multiclass(x, 2, beta, balance))


def gaussian(n: int, balance: float, beta: float = 0.5, seed: int = 0) -> PermutationInvariantMargin:
    """Normal points in the plane, by a kernel of full rank."""
    x = np.random.default_rng(seed).normal(size=(n, 2))
    kernel = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 2.0)
    return PermutationInvariantMargin(by_kernel(kernel, [1] * n, 2, (balance, 1.0), beta))


def active(problem: PermutationInvariantMargin, solution: Solution) -> int:
    """Rows of M that are on the border of the balance."""
    off = np.abs(solution.point["M"].mean(axis=1) - 0.5)
    return int((off > (1.0 - MID.gap) * problem.problem.label_balance).sum())


def solved(problem: PermutationInvariantMargin) -> Solution:
    """To HIGH, and feasible."""
    found = cs.solve(problem)
    assert found.status is Status.OPTIMAL
    assert found.solver.startswith("InteriorPoint")
    assert max(problem.residuals(found.point).values()) <= ROUNDING
    return found


def drawn(seed: int) -> PermutationInvariantMargin:
    """3 to 9 rows of every rank, some twice, some 0; balances from 1e-3 to none, beta over four decades."""
    rng = np.random.default_rng([30, seed])
    n = int(rng.integers(3, 10))
    x = rng.normal(size=(n, int(rng.integers(1, n + 3))))
    if seed % 3 == 0:
        x = x[rng.integers(n, size=n)]
    if seed % 4 == 0:
        x[rng.integers(n)] = 0.0
    balance, beta = rng.choice([1e-3, 0.03, 0.2, 0.6]), 10.0 ** rng.uniform(-2, 2)
    if seed % 2:
        return PermutationInvariantMargin(by_kernel(x @ x.T, [1] * n, 2, (balance, 1.0), beta))
    return posed(x, balance, beta)


@pytest.mark.parametrize("seed", range(6))
def test_it_and_clarabel_have_brackets_with_a_common_value(seed: int) -> None:
    problem = drawn(seed)
    own, other = solved(problem), two_class(problem).solve("CLARABEL", MID)
    assert max(own.lower_bound, other.lower_bound) <= min(own.primal, other.primal) + ROUNDING * problem.trivial_value
    assert other.primal - other.lower_bound <= LOW.gap * problem.trivial_value


@pytest.mark.parametrize(("balance", "wanted"), [(0.3, 1), (0.1, 3), (1e-3, 10)])
def test_many_active_rows_are_no_harder_than_few(balance: float, wanted: int) -> None:
    problem = gaussian(30, balance)
    found = solved(problem)
    assert found.iterations <= 25
    assert active(problem, found) >= wanted


@pytest.mark.parametrize("size", [1e150, 1e2, 1e-8, 1e-150, 0.0])
def test_features_of_any_size_are_solved(size: float) -> None:
    x = np.random.default_rng(1).normal(size=(10, 3))
    solved(posed(size * x))


@pytest.mark.parametrize("kernel", [False, True])
def test_rows_of_sizes_over_eight_decades_are_solved(kernel: bool) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(12, 2)) * 10.0 ** rng.integers(-4, 5, size=12)[:, None]
    x[5] = 0.0
    solved(PermutationInvariantMargin(by_kernel(x @ x.T, [1] * 12, 2, (0.1, 1.0), 1.0)) if kernel else posed(x))


@pytest.mark.parametrize("d", [1, 4])
def test_the_bordered_matrix_is_a_linear_map_with_this_adjoint_and_curvature(d: int) -> None:
    rng = np.random.default_rng(0)
    of = Bordered(rng.normal(size=(4, d)))
    w, t = (a + a.T for a in rng.normal(size=(2, 4 + d, 4 + d)))
    images = [of.image(row) for row in np.eye(16)]
    right, newton = np.zeros(16), np.zeros((16, 16))
    of.add_adjoint(right, w)
    of.add_curvature(newton, t)
    np.testing.assert_allclose(right, [np.vdot(each, w) for each in images], atol=1e-12)
    wanted = [[np.vdot(one, t @ other @ t) for other in images] for one in images]
    np.testing.assert_allclose(np.tril(newton), np.tril(wanted), atol=1e-12)


@pytest.mark.parametrize(
    "problem", [drawn(4), drawn(9), gaussian(8, 0.01), posed(1e6 * np.eye(5)), posed(np.eye(5) / 9)]
)
def test_its_first_point_and_multipliers_are_strictly_feasible_and_stationary(
    problem: PermutationInvariantMargin,
) -> None:
    dual = BorderedDual(problem)
    signs, matrix = dual.cones()
    assert isinstance(signs, Orthant)
    assert isinstance(matrix, Semidefinite)
    assert signs.known is not None
    assert matrix.known is not None
    assert min(signs.s.min(), signs.known.min()) > 0.0
    assert min(np.linalg.eigvalsh(matrix.s)[0], np.linalg.eigvalsh(matrix.known)[0]) > 0.0
    left = dual.c - dual.G.T @ signs.known
    matrix.of.add_adjoint(left, matrix.known)
    np.testing.assert_allclose(left, 0.0, atol=1e-12 * signs.known.max())
    n = problem.problem.n_rows
    np.testing.assert_array_equal(dual.G.toarray(), np.kron(SIGNS, np.eye(n)))


@pytest.mark.parametrize(("seed", "balance"), [(0, 1e-8), (1, 1e-9)])
def test_u_that_passes_through_large_values_leaves_no_rounding_in_the_bound(seed: int, balance: float) -> None:
    """Of the first u is 5e10 on the way and 0.2 at the end; S as a sum of steps is wrong by 1e-5 then."""
    solved(gaussian(20, balance, seed=seed))
    solved(posed(np.random.default_rng(seed).normal(size=(20, 3)), balance))


def test_a_balance_that_no_double_is_inside_takes_no_step_and_says_why() -> None:
    found = cs.solve(posed(np.random.default_rng(0).normal(size=(6, 3)), 1e-12))
    assert not found.status.solved
    assert "label_balance is 1.0e-12" in found.message
