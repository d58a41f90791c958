"""Dual coordinate descent: each update maximises over its coordinate for every block size; known optima are reached."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.dual_coordinate_descent import DualCoordinateDescent
from convexstruct.families.regularized_risk.solvers.semismooth_newton import SemismoothNewton
from convexstruct.tolerances import HIGH, ROUNDING
from tests.models.regularized_risk.risks import INSTANCES, KNOWN


def boxes() -> dict[str, RegularizedRisk]:
    made = {name: make() for name, make in INSTANCES.items()} | {name: make().problem for name, make in KNOWN.items()}
    taken = {name: p for name, p in made.items() if p.is_box and not p.n_biases}
    return {name: problem for name, problem in taken.items() if problem.single is not None}


def some(n: int = 40, d: int = 3, seed: int = 0) -> RegularizedRisk:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[0] = 0.0  # a row of zeros has no curvature
    return RegularizedRisk.binary(X, np.where(rng.random(n) < 0.5, 1, -1), 0.02, weights=rng.random(n) + 0.5)


@pytest.mark.parametrize("name", boxes())
def test_optima_are_certified(name: str) -> None:
    problem = boxes()[name]
    exact = solve(problem, SemismoothNewton(), HIGH)
    for options in (DualCoordinateDescent(), DualCoordinateDescent(block=2, shrinking=False, seed=3)):
        found = solve(problem, options, HIGH, max_iterations=20_000)
        assert found.status is Status.OPTIMAL, found
        assert found.primal == pytest.approx(exact.primal, abs=2 * HIGH.gap)


def test_an_epoch_is_the_sequence_of_best_coordinates() -> None:
    """Blocks of one coordinate leave nothing out: alpha is that of a plain loop in the same order."""
    problem = some()
    order = np.random.default_rng(5).permutation(problem.n_pieces)
    alpha = np.zeros(problem.n_pieces)
    matrix = problem.matrix()
    for i in order:
        slope = problem.loss.offset[i] + matrix[i] @ problem.primal_of(alpha)
        bend = matrix[i] @ matrix[i] / problem.lam
        best = alpha[i] + slope / bend if bend else np.inf
        alpha[i] = min(max(best, 0.0), problem.shares[i])
    solver = DualCoordinateDescent(block=1, shrinking=False, seed=5)
    second = list(islice(solver.iterate(problem), 2))[1]
    assert not callable(second.dual_point)
    assert second.dual_point is not None
    np.testing.assert_allclose(second.dual_point["alpha"], alpha, atol=ROUNDING)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("block", [1, 7, 128])
def test_the_dual_value_rises_every_epoch_and_is_what_the_problem_certifies(sparse: bool, block: int) -> None:
    problem = some()
    if sparse:
        problem = RegularizedRisk.binary(sp.csr_array(problem.X), problem.loss.labels, problem.lam)
    lower = -np.inf
    for iterate in islice(DualCoordinateDescent(block=block).iterate(problem), 30):
        assert not callable(iterate.dual_point)
        shown = certify(problem, iterate.point, iterate.dual_point)
        assert shown.lower_bound == pytest.approx(iterate.lower_bound, rel=ROUNDING, abs=ROUNDING)
        assert shown.primal == pytest.approx(iterate.primal, rel=ROUNDING)
        assert max(shown.dual_residuals.values()) <= ROUNDING
        assert iterate.lower_bound >= lower - ROUNDING
        lower = iterate.lower_bound


def test_shrinking_does_not_change_the_optimum() -> None:
    problem = some(200, 4)
    found = [solve(problem, DualCoordinateDescent(shrinking=kind), HIGH, max_iterations=5000) for kind in (True, False)]
    assert all(solution.status is Status.OPTIMAL for solution in found)
    assert found[0].primal == pytest.approx(found[1].primal, abs=2 * HIGH.gap)


def test_a_start_is_taken_up() -> None:
    problem = some()
    exact = solve(problem, SemismoothNewton(), HIGH)
    warm = solve(problem, DualCoordinateDescent(), HIGH, start=exact)
    assert warm.trace.lower_bound[0] >= exact.lower_bound - HIGH.gap
    assert warm.iterations < solve(problem, DualCoordinateDescent(), HIGH).iterations


@pytest.mark.parametrize("name", ["ordinal", "multilabel", "pieces", "binary, ties", "two classes"])
def test_risks_it_is_not_for_are_told(name: str) -> None:
    with pytest.raises(ValueError, match="groups of one piece and no free offsets; give a bias as a column of ones"):
        solve(INSTANCES[name](), DualCoordinateDescent())
