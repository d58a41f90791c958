"""Allowances of the reduced SDP against rational arithmetic: sums that cancel, points that are just outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.rounding import Trial
from benchmarks.rounding_unsupervised_margin import _alike_trials, _exchange_trials, _loss_trials, exact
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.rounding import gram_error, objective
from convexstruct.rounding import Rounded


def reads(kernel: np.ndarray, n_labels: int = 3, **options: float) -> UnsupervisedMargin:
    balances = {"label_balance": 0.5, "beta": 1.0} | options
    return UnsupervisedMargin.read(None, n_labels, kernel=kernel, lengths=[len(kernel)], **balances)  # type: ignore[arg-type]  # numbers by name


@pytest.mark.parametrize("sum_over", ["M", "N"])
def test_either_sum_of_the_objective_is_right_to_its_allowance_where_it_cancels(sum_over: str) -> None:
    """Without the allowance of that sum one bound in ten is wrong here."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, kappa = 6, 3
        kernel = np.eye(n) + (1.0 / 3.0 if sum_over == "M" else 0.0)
        sizes = {"M": n, "N": n - 1}
        noise = rng.normal(size=(sizes[sum_over],) * 2) * 10.0 ** rng.uniform(0, 6)
        point = {"M": np.full((n, n), 1.0 / kappa), "N": np.full((n - 1, n - 1), 1.0 / kappa**2)}
        point[sum_over] = point[sum_over] + (noise - noise.T)
        beta = 10.0 ** rng.uniform(-9, -6)
        found = objective(kernel, n - 1, kappa, beta, point)
        truth = exact(reads(kernel, kappa, beta=beta), point)
        assert Fraction(found.lower) <= truth <= Fraction(found.upper), seed


@pytest.mark.parametrize("seed", range(10))
def test_points_a_little_outside_bound_nothing_below_the_optimum(seed: int) -> None:
    """The allowance includes the rise of omega where eigenvalues below 0 and rows out of balance are corrected."""
    for trial in _alike_trials(np.random.default_rng(seed)):
        assert not trial.wrong, trial


@pytest.mark.parametrize("tried", [_exchange_trials, _loss_trials])
def test_exchanges_and_losses_are_right_to_their_allowances_and_not_without(
    tried: Callable[[np.random.Generator], Iterator[Trial]],
) -> None:
    every = [trial for seed in range(5) for trial in tried(np.random.default_rng(seed))]
    assert not [trial for trial in every if trial.wrong]
    assert any(Trial(trial.side, Rounded(float(trial.bound)), trial.truth).wrong for trial in every)


def test_a_balance_that_leaves_no_double_inside_is_refused_in_a_sentence() -> None:
    table = np.eye(3)
    with pytest.raises(ValueError, match=r"label_balance is 1e-300, too tight for 3 rows and 3 labels"):
        UnsupervisedMargin.multiclass(table, 3, 1.0, 1e-300)
    problem = UnsupervisedMargin.multiclass(table, 3, 1.0, 1e-12)
    assert np.isfinite(problem.primal(problem.trivial()[0]))


def test_the_reason_for_large_allowances_names_the_row_or_the_balance() -> None:
    kernel = np.eye(5)
    assert reads(kernel).rounding_reason({}, None) == ""
    assert "label_balance is 1.0e-10" in reads(kernel, label_balance=1e-10).rounding_reason({}, None)
    kernel[2, 2] = 1e16
    assert "row 2 has size 1.0e+08" in reads(kernel).rounding_reason({}, None)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_the_inner_products_err_and_by_no_more_than_is_said(size: float) -> None:
    features = size * np.random.default_rng(0).normal(size=(6, 4))
    gram = UnsupervisedMargin.read([features], 2, beta=1.0, label_balance=0.4).gram
    truth = [[sum(Fraction(a) * Fraction(b) for a, b in zip(x, y)) for y in features] for x in features]
    error = sum(abs(Fraction(k) - e) for found, row in zip(gram, truth) for k, e in zip(found, row))
    assert 0 < error <= Fraction(gram_error(features))
    assert gram_error(np.round(features / size)) == 0.0
