"""Allowances of both bounds of a regularised risk, against rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.exact import exactly
from benchmarks.rounding_regularized_risk import Exact
from convexstruct.arrays import Vector
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk import bounds as regularized_risk_bounds
from convexstruct.families.regularized_risk import products
from convexstruct.families.regularized_risk.problem import RegularizedRisk

#: What an allowance may be on ordinary data, relative.
WANTED = 1e-12


def exact_primal(problem: RegularizedRisk, w: Vector, b: Vector | None = None) -> Fraction:
    x = np.concatenate((w.ravel(), np.zeros(0) if b is None else b))
    return Exact.of(problem).value(exactly(x))


def exact_dual(problem: RegularizedRisk, alpha: Vector) -> Fraction:
    """D(alpha) in fractions, alpha in Q or not."""
    exact, given = Exact.of(problem), exactly(alpha)
    total = given @ exact.rows[:-1, : problem.dimension]
    found: Fraction = exact.offsets[:-1] @ given - total @ total / (2 * exact.lam)
    return found


@pytest.mark.parametrize("column", [(1e12, 1.0), (1e8, 1.0), (1.7e18, 1.7e18), (1e100, 1e-100)])
@pytest.mark.parametrize("labels", [(1, -1), (-1, 1)])
@pytest.mark.parametrize("bias", [False, True])
def test_one_column_of_very_different_features_is_enclosed(
    column: tuple[float, float], labels: tuple[int, int], bias: bool
) -> None:
    problem = RegularizedRisk.binary(np.array(column)[:, None], labels, 1 / (2 * 1e4), bias=bias)
    optimum = Exact.of(problem).optimum()[0]
    rng = np.random.default_rng(0)
    certificate = solve(problem, max_iterations=50).certificate
    assert Fraction(certificate.lower_bound) <= optimum <= Fraction(certificate.primal)
    for _ in range(30):
        lower = problem.dual({"alpha": rng.random(2) * rng.choice([1e-12, 0.5, 1.0])}).lower
        assert lower == -math.inf or Fraction(lower) <= optimum


def test_a_large_constant_feature_beside_a_small_one_is_enclosed_and_named() -> None:
    rng = np.random.default_rng(1)
    y = np.array([1, -1, 1, -1])
    problem = RegularizedRisk.binary(np.column_stack((np.full(4, 1.7e18), rng.normal(size=4))), y, 1e-2)
    optimum = Exact.of(problem).optimum()[0]
    solution = solve(problem)
    assert Fraction(solution.lower_bound) <= optimum <= Fraction(solution.primal)
    assert solution.status is Status.ROUNDING
    assert "feature 0 reaches 1.7e+18" in solution.message
    assert "take a larger lam" in RegularizedRisk.binary(np.ones((4, 1)), y, 1e-12).rounding_reason({}, None)


def large(sparse: bool, seed: int = 0, n: int = 300, d: int = 150) -> tuple[object, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2 if sparse else 1.0)
    return (sp.csr_array(X) if sparse else X), rng


@pytest.mark.parametrize("cheap", [0.0, math.inf])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["binary", "bias", "multiclass"])
def test_sums_in_blocks_are_those_of_rational_arithmetic(
    sparse: bool, kind: str, cheap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With allowances by sums of magnitudes (cheap = 0), and by norms."""
    monkeypatch.setattr(regularized_risk_bounds, "NORMS_SERVE", cheap)
    monkeypatch.setattr(products, "DENSE_BLOCK", 7)
    monkeypatch.setattr(products, "SPARSE_BLOCK", 7)
    monkeypatch.setattr(products, "CACHED_NUMBERS", 1000 if cheap else 1)  # 1: less than one row
    X, rng = large(sparse, n=60, d=40)
    if kind == "multiclass":
        problem = RegularizedRisk.multiclass(X, rng.integers(3, size=60), 0.01)
    else:
        problem = RegularizedRisk.binary(X, rng.integers(2, size=60), 0.01, bias=kind == "bias")
    w, b = rng.normal(size=problem.shape), (rng.normal(size=1) if kind == "bias" else None)
    bound = problem.primal({"w": w} | ({} if b is None else {"b": b}))
    truth = exact_primal(problem, w, b)
    assert Fraction(bound.lower) <= truth <= Fraction(bound.upper)
    assert bound.allowance <= WANTED * abs(bound)
    assert abs(Fraction(float(bound)) - truth) > 0
    alpha = problem.feasible(rng.random(problem.n_pieces))
    shown = problem.dual({"alpha": alpha})
    assert abs(Fraction(float(shown)) - exact_dual(problem, alpha)) <= Fraction(shown.allowance)
    assert shown.allowance <= WANTED * abs(shown)


def test_scores_of_many_features_need_no_sums_of_magnitudes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of 20,000 terms at once is too deep for its norms to serve; in blocks it is not."""
    rng = np.random.default_rng(0)
    problem = RegularizedRisk.binary(rng.normal(size=(6, 20_000)), np.arange(6) % 2, 1.0)
    w = 1e-3 * rng.normal(size=20_000)
    monkeypatch.setattr(regularized_risk_bounds, "piece_errors", None)
    bound = problem.primal({"w": w})
    assert bound.allowance <= WANTED * abs(bound)
    assert abs(Fraction(float(bound)) - exact_primal(problem, w)) <= Fraction(bound.allowance)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("lam", [1e-2, 1e-4])
@pytest.mark.parametrize("bias", [False, True])
def test_the_allowance_is_small_on_ordinary_data(sparse: bool, lam: float, bias: bool) -> None:
    X, rng = large(sparse, n=3000, d=100)
    y = np.sign(np.asarray(X @ rng.normal(size=100)) + 3 * rng.normal(size=3000))  # type: ignore[operator]  # X is dense or sparse
    solution = solve(RegularizedRisk.binary(X, y, lam, bias=bias))
    assert solution.status is Status.OPTIMAL
    certificate = solution.certificate
    assert max(certificate.primal_allowance, certificate.dual_allowance) <= WANTED * certificate.primal


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-160, 1.0, 1e150, 1e200])
def test_no_row_is_longer_than_its_norm(size: float, sparse: bool) -> None:
    X = size * np.random.default_rng(3).normal(size=(4, 5))
    X[1] = 0.0
    norms = RegularizedRisk.binary(sp.csr_array(X) if sparse else X, [1, -1, 1, -1], 1.0).row_norms
    for row, found in zip(X.tolist(), norms.tolist(), strict=True):
        square = sum(Fraction(x) ** 2 for x in row)
        assert found == math.inf or Fraction(found) ** 2 >= square
        assert size != 1.0 or found <= 1.001 * math.sqrt(square) + 1e-100


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_without_a_share_add_nothing_to_the_depth_of_a_sum(sparse: bool) -> None:
    X, rng = large(sparse, n=300, d=20)
    problem = RegularizedRisk.binary(X, rng.integers(2, size=300), 0.01)
    alpha = np.where(np.arange(300) % 10 == 0, problem.shares, 0.0)
    few, many = (products.transposed(problem, each) for each in (alpha, problem.shares))
    assert few[1] < 30 < 100 < many[1]
    np.testing.assert_allclose(few[0].ravel(), np.asarray(problem.adjoint(alpha)), atol=1e-12)


def test_a_sparse_problem_is_cut_into_blocks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(X: sp.csr_array) -> tuple[sp.csc_array, int, int]:
        made.append(columns_in_blocks(X))
        return made[-1]

    columns_in_blocks = products.columns_in_blocks
    monkeypatch.setattr(products, "columns_in_blocks", counted)
    X, rng = large(sparse=True)
    problem = RegularizedRisk.binary(X, rng.integers(2, size=300), 0.1)
    for _ in range(3):
        problem.dual({"alpha": rng.random(300)})
    assert len(made) == 1


def test_a_sum_that_cancels_says_so() -> None:
    problem = RegularizedRisk.binary(np.array([[1e16, 1.0, -1e16]]), [1], 1.0)
    bound = problem.primal({"w": np.ones(3)})
    assert bound.allowance > 1
    assert Fraction(bound.lower) <= exact_primal(problem, np.ones(3)) <= Fraction(bound.upper)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("lam", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("w", [1e-300, 1e-160, 0.0, 1e160, 1e300])
def test_overflow_and_underflow_end_in_infinite_or_valid_bounds_without_a_warning(
    size: float, lam: float, w: float
) -> None:
    problem = RegularizedRisk.binary(size * np.array([[1.0], [-2.0], [0.5]]), [1, -1, -1], lam, bias=True)
    optimum, _, _ = Exact.of(problem).optimum()
    certificate = certify(problem, np.array([w]), {"alpha": np.array([0.2, 0.1, 0.3])})
    assert certificate.primal == math.inf or Fraction(certificate.primal) >= optimum
    assert certificate.lower_bound == -math.inf or Fraction(certificate.lower_bound) <= optimum


def test_shares_of_weights_at_the_ends_of_what_floats_can_say_are_right_to_their_error() -> None:
    for omega in ([1e308, 1e308, 1e308], [1e-320, 1.0, 1e300], [5e-324, 1e-323, 1e-322], [1.0, 2.0, 3.0]):
        found = regularized_risk_bounds.shares(np.array(omega))
        weights = [Fraction(number) for number in omega]
        for share, weight in zip(found.tolist(), weights):
            off = abs(Fraction(share) - weight / sum(weights))
            units = Fraction(regularized_risk_bounds.SHARE_UNITS)
            assert off <= units * (Fraction(2) ** -53 * Fraction(share) + Fraction(5e-324))


def test_a_witness_of_any_finite_size_is_brought_into_q() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4, 2))
    for problem in (
        RegularizedRisk.pieces(X, rng.normal(size=4), 0.1),
        RegularizedRisk.pieces(X, rng.normal(size=4), 0.1, floor=True),
        RegularizedRisk.multiclass(X, [0, 1, 2, 0], 0.1),
    ):
        optimum = Fraction(solve(problem).primal)
        for size in (0.0, 5e-324, 1e-310, 1e-100, 1e100, 1.7e308):
            shown = problem.dual({"alpha": np.full(problem.n_pieces, size)})
            assert math.isfinite(shown.lower)
            assert Fraction(shown.lower) <= optimum
