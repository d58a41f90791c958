"""Allowances of both bounds of a regularised risk, against rational arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.exact import exactly
from benchmarks.exact_models import enumerated_risk
from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk import bounds as regularized_risk_bounds
from convexstruct.families.regularized_risk.problem import RegularizedRisk

#: What an allowance may be on ordinary data, relative.
WANTED = 1e-12


def exact_primal(problem: RegularizedRisk, w: Vector, b: Vector | None = None) -> Fraction:
    x = np.concatenate((w.ravel(), np.zeros(0) if b is None else b))
    found: Fraction = enumerated_risk(problem).value(x)
    return found


def exact_dual(problem: RegularizedRisk, alpha: Vector) -> Fraction:
    """D(alpha) in fractions, alpha in Q or not."""
    exact, zero = enumerated_risk(problem), exactly(np.zeros(int(problem.loss.floor)))
    parts = zip(np.split(exactly(alpha), problem.loss.start[1:-1]), exact.groups)
    g, gain = exact.sums([np.append(part, zero) / share for part, (share, _, _) in parts])
    found: Fraction = gain - (g * g)[: problem.dimension].sum() / (2 * exactly(problem.lam).item())
    return found


def test_a_large_constant_feature_beside_a_small_one_is_enclosed_and_named() -> None:
    rng = np.random.default_rng(1)
    y = np.array([1, -1, 1, -1])
    problem = RegularizedRisk.binary(np.column_stack((np.full(4, 1.7e18), rng.normal(size=4))), y, 1e-2)
    optimum = enumerated_risk(problem).optimum()[0]
    solution = solve(problem)
    assert Fraction(solution.lower_bound) <= optimum <= Fraction(solution.primal)
    assert solution.status is Status.ROUNDING
    assert "feature 0 reaches 1.7e+18" in solution.message
    assert "take a larger lam" in RegularizedRisk.binary(np.ones((4, 1)), y, 1e-12).rounding_reason({}, None)


def large(sparse: bool, seed: int = 0, n: int = 300, d: int = 150) -> tuple[object, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2 if sparse else 1.0)
    return (sp.csr_array(X) if sparse else X), rng


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["binary", "bias", "multiclass"])
def test_bounds_are_those_of_rational_arithmetic(sparse: bool, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With allowances by sums of magnitudes (norms never serve), and by norms."""
    X, rng = large(sparse, n=30, d=25)
    if kind == "multiclass":
        problem = RegularizedRisk.multiclass(X, rng.integers(3, size=30), 0.01)
    else:
        problem = RegularizedRisk.binary(X, rng.integers(2, size=30), 0.01, bias=kind == "bias")
    w, b = rng.normal(size=problem.shape), (rng.normal(size=1) if kind == "bias" else None)
    alpha = problem.feasible(rng.random(problem.n_pieces))
    primal, dual = exact_primal(problem, w, b), exact_dual(problem, alpha)
    for norms_serve in (0.0, math.inf):
        monkeypatch.setattr(regularized_risk_bounds, "NORMS_SERVE", norms_serve)
        bound = problem.primal({"w": w} | ({} if b is None else {"b": b}))
        assert Fraction(bound.lower) <= primal <= Fraction(bound.upper)
        assert bound.allowance <= WANTED * abs(bound)
        assert abs(Fraction(float(bound)) - primal) > 0
        shown = problem.dual({"alpha": alpha})
        assert abs(Fraction(float(shown)) - dual) <= Fraction(shown.allowance)
        assert shown.allowance <= WANTED * abs(shown)


def test_scores_of_many_features_are_summed_in_blocks() -> None:
    """A sum of 20,000 terms at once is too deep for its norms to serve; in blocks it is not."""
    rng = np.random.default_rng(0)
    problem = RegularizedRisk.binary(rng.normal(size=(2, 20_000)), [0, 1], 1.0)
    w = 1e-3 * rng.normal(size=20_000)
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


def test_shares_of_weights_at_the_ends_of_what_floats_can_say_are_right_to_their_error() -> None:
    for omega in ([1e308, 1e308, 1e308], [1e-320, 1.0, 1e300], [5e-324, 1e-323, 1e-322], [1.0, 2.0, 3.0]):
        found = regularized_risk_bounds.shares(np.array(omega))
        weights = [Fraction(number) for number in omega]
        for share, weight in zip(found.tolist(), weights):
            off = abs(Fraction(share) - weight / sum(weights))
            units = Fraction(regularized_risk_bounds.SHARE_UNITS)
            assert off <= units * (Fraction(2) ** -53 * Fraction(share) + Fraction(5e-324))


@pytest.mark.parametrize("seed", range(12))
def test_a_member_of_q_is_as_near_as_said(seed: int) -> None:
    """With eta and the errors that `enclosed` states, exact scaling reaches Q."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 50))
    X, weights = np.ones((n, 1)), rng.choice([1.0, 0.7, 3.1, 3e-323, 1e-322, 2e-322], size=n) if seed % 2 else None
    for problem in (
        RegularizedRisk.binary(X, np.arange(n) % 2, 1.0, weights=weights),
        RegularizedRisk.binary(X, np.arange(n) % 2, 1.0, bias=True, weights=weights),
        RegularizedRisk.multilabel(X, rng.integers(2, size=(n, 3)) | [[1, 0, 0]], 1.0, weights=weights),
        RegularizedRisk.pieces(X, np.zeros(n), 1.0, np.arange(n) // 3, weights=None),
    ):
        loss, truth = problem.loss, [part[0] for part in enumerated_risk(problem).groups]
        shares = regularized_risk_bounds.true_shares(problem)
        assert (abs(exactly(shares.value) - truth) <= exactly(shares.errors)).all()
        given = regularized_risk_bounds.member(problem, rng.random(problem.n_pieces))
        near, eta = regularized_risk_bounds.enclosed(problem, given)
        alpha, error = exactly(near.value), exactly(near.errors)
        assert (error <= Fraction(1e-12) * alpha + Fraction(5e-324)).all()
        groups = np.array([alpha[i:j].sum() for i, j in itertools.pairwise(loss.start)])
        if loss.floor:
            assert (groups * (1 - Fraction(eta)) <= truth).all()
        else:  # every entry is scaled alike
            moved = np.repeat([abs(share / total - 1) for share, total in zip(truth, groups)], np.diff(loss.start))
            assert (moved * alpha <= error).all()
        if problem.n_biases:
            up, down = (side := alpha * (loss.bias_sign > 0)), alpha - side
            less, more = sorted((up, down), key=lambda side: Fraction(side.sum()))
            assert less.sum() == more.sum() or ((1 - less.sum() / more.sum()) * more <= error).all()


def test_shares_that_are_hardly_known_make_the_lower_bound_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = RegularizedRisk.binary(np.zeros((4, 1)), [1, -1, 1, -1], 1.0)  # J = 1, whatever w
    monkeypatch.setattr(regularized_risk_bounds, "SHARE_UNITS", 2.0**43)
    assert 0.998 < problem.dual({"alpha": problem.shares}).lower < 1 - 2.0**-10


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
