"""Semismooth Newton against conic solvers, optima known by construction and sets whose number of rounds is known."""

from __future__ import annotations

import tracemalloc
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.semismooth_newton import proximal_point
from convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_point import SemismoothNewton
from convexstruct.models.regularized_risk.risk import primal
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.regularized_risk.solvers.semismooth_newton.instances import KINDS, random_problem
from tests.models.regularized_risk.risks import INSTANCES
from tests.reference import optimum

TINY = 1e-10


@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("name", INSTANCES)
def test_every_loss_agrees_with_the_conic_solver(name: str) -> None:
    problem = INSTANCES[name]()
    found = solve(problem, SemismoothNewton(), TINY)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(optimum(primal(problem)).value, abs=HIGH.gap)


@pytest.mark.parametrize("kind", ["sparse", "multiclass"])
def test_certificates_made_during_a_run_do_not_change_what_the_solver_computes_with(kind: str) -> None:
    """SciPy sorts the rows of a sparse matrix in place, also of one that the solver shares."""
    problem = random_problem(kind, 30, 4, 0.01, 1.0, 2)
    for iterate in islice(SemismoothNewton().iterate(problem), 20):
        assert callable(iterate.dual_point)
        certify(problem, iterate.point, iterate.dual_point())
        assert iterate.primal == pytest.approx(problem.primal(problem.as_point(iterate.point)), rel=ROUNDING)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(3, 25),
    st.integers(1, 6),
    st.sampled_from([1e-6, 1e-3, 0.1, 10.0]),
    st.sampled_from([1e-3, 1.0, 100.0]),
    st.integers(0, 10_000),
)
@example("pieces", 12, 3, 1e-6, 100.0, 3895)  # 150 rounds: losses of 100 cancel to an optimum of 6e-4
def test_any_small_problem_is_certified(kind: str, n: int, d: int, lam: float, scale: float, seed: int) -> None:
    problem = random_problem(kind, n, d, lam, scale, seed)
    found = solve(problem, SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL, found


@pytest.mark.parametrize(("C", "bias"), [(0.01, False), (1.0, True), (100.0, False)])
def test_more_features_than_examples_take_few_rounds(C: float, bias: bool) -> None:
    """All examples end on their kink: a narrow tau from the start would need hundreds of rounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1000))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=100) > 0, 1, -1)
    found = solve(RegularizedRisk.binary(X, y, 1 / (100 * C), bias=bias), SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL
    assert found.iterations <= 60


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_sparse_features_are_never_made_dense(kind: str) -> None:
    rng = np.random.default_rng(0)
    n, d = 1000, 20_000
    X = sp.csr_array((np.ones(10 * n), rng.integers(d, size=10 * n), np.arange(0, 10 * n + 1, 10)), shape=(n, d))
    codes = np.arange(n) % 2
    problem = (
        RegularizedRisk.binary(X, codes, 1e-3)
        if kind == "binary"
        else RegularizedRisk.multiclass(X, codes, 1e-3, n_classes=3)
    )
    tracemalloc.start()
    found = solve(problem, SemismoothNewton(), HIGH, max_iterations=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.status is Status.OPTIMAL
    assert peak < 0.3 * 8 * n * d


@pytest.mark.parametrize(("C", "bias"), [(1e4, False), (1e8, True), (1e10, False)])
def test_a_separable_set_is_optimal_to_its_own_size_however_small_that_is(C: float, bias: bool) -> None:
    """The optimum is lam/2 |w|^2, w of the largest margin: down to 1e-11 of J(0), and a few roundings of one loss."""
    rng = np.random.default_rng(0)
    X, direction = rng.normal(size=(200, 20)), rng.normal(size=20)
    y = np.where(X @ direction > 0, 1, -1)
    X += 0.1 * y[:, None] * direction / np.linalg.norm(direction)
    found, looser = (solve(RegularizedRisk.binary(X, y, 1 / (200 * c), bias=bias)) for c in (C, 1e3))
    assert found.status is Status.OPTIMAL
    assert 0 <= found.primal - found.lower_bound <= HIGH.gap * max(found.primal, HIGH.floor)
    assert C * found.lower_bound <= 1e3 * looser.primal
    assert 1e3 * looser.lower_bound <= C * found.primal
    assert RegularizedRisk.binary(X, y, 1 / (200 * C), bias=bias).predict(found.point) == y.tolist()


@pytest.mark.parametrize(("seed", "C"), [(0, 1e6), (1, 1e8), (3, 1e8)])
def test_two_separable_classes_take_few_rounds_as_a_multiclass_problem_too(seed: int, C: float) -> None:
    """It is the binary problem at w_1 = -w_0 = w/2, so that its optimum is half as large."""
    rng = np.random.default_rng(seed)
    n, d = [(40, 3), (200, 10), (100, 5), (60, 2)][seed]
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) > 0
    found = solve(RegularizedRisk.multiclass(X, y, 1 / (C * n)), SemismoothNewton(), HIGH)
    binary = solve(RegularizedRisk.binary(X, y, 1 / (C * n)), SemismoothNewton(), HIGH)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(0.5 * binary.primal, rel=2 * HIGH.gap)
    assert found.iterations <= 60


@pytest.mark.parametrize("sparse", [False, True])
def test_a_bias_that_cancels_against_w_in_every_free_row_does_not_hold_up_a_separable_set(sparse: bool) -> None:
    """More features than examples, labels mostly noise: with a residual of b in the stopping rule of conjugate
    gradients, 2000 rounds were left at a gap of 3e-4."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1000))
    y = np.sign(X @ rng.normal(size=1000) + 30 * rng.normal(size=200))
    problem = RegularizedRisk.binary(sp.csr_array(X) if sparse else X, y, 1 / 200, bias=True)
    assert solve(problem, SemismoothNewton(), HIGH, max_iterations=60).status is Status.OPTIMAL


def test_a_part_whose_gap_cannot_fall_is_left_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the gap of the groups not held is rounding: without HELD_STEPS the steps on them have no end."""
    monkeypatch.setattr(proximal_point, "HELD_FALL", -1.0)
    problem = random_problem("binary", 300, 4, 1e-3, 1.0, 43)
    assert solve(problem, SemismoothNewton(), HIGH, time_limit=60.0).status is Status.OPTIMAL


@pytest.mark.parametrize("offset", [0.0, 1e-310])
def test_losses_of_no_size_have_a_width_of_smoothing_above_zero(offset: float) -> None:
    """The first point is optimal, and the steps from there divide by tau."""
    X, groups = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) // 3
    problem = RegularizedRisk.pieces(X, np.full(30, offset), 0.1, groups)
    assert all(np.isfinite(found.primal) for found in islice(SemismoothNewton().iterate(problem), 4))


def test_an_offset_without_free_pieces_costs_the_values_no_digits() -> None:
    """Its step by the matrix is as long as 1 / RIDGE; b is minimised over along the line instead."""
    assert solve(INSTANCES["ordinal"](), SemismoothNewton(), 1e-11).status is Status.OPTIMAL
