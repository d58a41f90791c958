"""Allowances of both bounds of a risk on data of every scale; `benchmarks/exact.py` has exact trials of any size."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.exact import exactly
from benchmarks.exact_models import exact_risk
from convexstruct.families.regularized_risk import bounds
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.rounding import exact

#: What an allowance may be on ordinary data, relative.
WANTED = 1e-12


def test_scores_of_many_features_are_summed_in_blocks() -> None:
    """A sum of 20,000 terms at once is too deep for its norms to serve; in blocks it is not."""
    rng = np.random.default_rng(0)
    bound = RegularizedRisk.binary(rng.normal(size=(2, 20_000)), [0, 1], 1.0).primal(
        {"w": 1e-3 * rng.normal(size=20_000)}
    )
    assert bound.allowance <= WANTED * abs(bound)


def test_shares_of_weights_at_the_ends_of_what_floats_can_say_are_right_to_their_error() -> None:
    for omega in ([1e308, 1e308, 1e308], [1e-320, 1.0, 1e300], [5e-324, 1e-323, 1e-322], [1.0, 2.0, 3.0]):
        found = bounds.shares(np.array(omega))
        weights = [Fraction(number) for number in omega]
        for share, weight in zip(found.tolist(), weights):
            off = abs(Fraction(share) - weight / sum(weights))
            assert off <= bounds.SHARE_UNITS * (Fraction(2) ** -53 * Fraction(share) + Fraction(5e-324))


@pytest.mark.parametrize("seed", range(4))
def test_a_member_of_q_is_as_near_as_said(seed: int) -> None:
    """With eta and the errors that `enclosed` states, exact scaling reaches Q."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 30))
    X, weights = np.ones((n, 1)), rng.choice([1.0, 0.7, 3.1, 3e-323, 1e-322, 2e-322], size=n) if seed % 2 else None
    for problem in (
        RegularizedRisk.binary(X, np.arange(n) % 2, 1.0, bias=True, weights=weights),
        RegularizedRisk.multilabel(X, rng.integers(2, size=(n, 3)) | [[1, 0, 0]], 1.0, weights=weights),
        RegularizedRisk.pieces(X, np.zeros(n), 1.0, np.arange(n) // 3, weights=None),
    ):
        loss, truth = problem.loss, exact_risk(problem)[1]
        shares = bounds.true_shares(problem)
        assert (abs(exactly(shares.value) - truth) <= exactly(shares.errors)).all()
        near, eta = bounds.enclosed(problem, bounds.member(problem, rng.random(problem.n_pieces)))
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
            less, more = sorted((up, down), key=lambda side: sum(side))
            assert less.sum() == more.sum() or ((1 - less.sum() / more.sum()) * more <= error).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_errors_by_norms_cover_the_sums_of_features_that_cancel(n_classes: int, sparse: bool) -> None:
    """Both maps, A and A', against exact sums; some of the computed ones are wrong."""
    rng = np.random.default_rng(n_classes)
    X, y = rng.normal(size=(9, 5)) + 1e8, rng.permutation(np.arange(9) % n_classes)
    X = sp.csr_array(X) if sparse else X
    read = RegularizedRisk.binary(X, y, 1.0) if n_classes == 2 else RegularizedRisk.multiclass(X, y, 1.0)
    w, alpha = rng.normal(size=read.dimension), rng.normal(size=read.n_pieces)
    columns = np.array([exact_risk(read)[0].values(exactly(e)) for e in np.eye(read.dimension)])
    columns = columns - exact_risk(read)[0].values(exactly(np.zeros(read.dimension)))
    for found, truth in (
        (read.forward(exact(w), read.row_norms), exactly(w) @ columns),
        (read.adjoint(exact(alpha), read.column_norms).reshape(-1), columns @ exactly(alpha)),
    ):
        off = abs(exactly(found.value) - truth.reshape(found.shape))
        assert (off <= exactly(found.errors)).all()
        assert off.max() > 0


@pytest.mark.parametrize("floor", [False, True])
def test_the_allowance_of_one_long_group_does_not_grow_with_its_pieces(floor: bool) -> None:
    """`LONG_GROUP`: sums of 20,000 multipliers, in whatever order, would be known to 2e-12."""
    rng, n = np.random.default_rng(0), 20_000
    problem = RegularizedRisk.pieces(rng.normal(size=(n, 1)), 1.0 + rng.normal(size=n), 1.0, floor=floor)
    found = problem.dual({"alpha": np.full(n, 1.0 / n)})
    assert 0 < found.allowance <= WANTED * abs(found)


@pytest.mark.parametrize("floor", [False, True])
@pytest.mark.parametrize("weights", [[1, 1e-20, 1e-40, 1e-60, 1e-80], [1, 1e-80, 1e-160, 1e-200, 1e-240]])
def test_the_sums_of_groups_are_known_relative_to_their_own_size(weights: list[float], floor: bool) -> None:
    """Relative to the largest of all, those of the lightest are not known, and the bound is lost."""
    rng = np.random.default_rng(0)
    A, b, example = rng.normal(size=(10, 2)), rng.normal(size=10), np.repeat(np.arange(5), 2)
    problem = RegularizedRisk.pieces(A, b, 1.0, example=example, floor=floor, weights=weights)
    found = problem.dual({"alpha": rng.random(10) * problem.shares[problem.group]})
    assert 0 < found.allowance <= 10 * WANTED * abs(found)


def test_offsets_whose_multipliers_are_too_small_to_balance_cost_the_others_nothing() -> None:
    """`SURE`: of multipliers from 1 to 1e-100 the sums of some sides are not known; they are nothing beside others."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        levels = int(rng.integers(3, 7))
        X, y = rng.normal(size=(4 * levels, 1)), np.arange(4 * levels) % levels
        problem = RegularizedRisk.ordinal(X, y, 1.0)
        sizes = 10.0 ** -rng.uniform(0, 100, size=problem.n_biases)
        alpha = problem.shares[problem.group] * sizes[problem.loss.bias_of] * rng.uniform(size=problem.n_pieces)
        found = problem.dual({"alpha": alpha})
        assert found.allowance <= 10 * WANTED * abs(found)
