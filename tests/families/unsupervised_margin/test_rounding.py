"""Allowances of the reduced SDP against rational arithmetic: sums that cancel, points that are just outside."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.rounding import objective
from convexstruct.rounding import exact


def reads(kernel: np.ndarray, n_labels: int = 3, **options: float) -> UnsupervisedMargin:
    balances = {"label_balance": 0.5, "beta": 1.0} | options
    return UnsupervisedMargin.read(None, n_labels, kernel=kernel, lengths=[len(kernel)], **balances)  # type: ignore[arg-type]  # numbers by name


def test_the_reason_for_large_allowances_names_the_row_or_the_balance() -> None:
    kernel = np.eye(5)
    assert reads(kernel).rounding_reason({}, None) == ""
    assert "label_balance is 1.0e-10" in reads(kernel, label_balance=1e-10).rounding_reason({}, None)
    kernel[2, 2] = 1e16
    assert "row 2 has size 1.0e+08" in reads(kernel).rounding_reason({}, None)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_the_inner_products_err_and_by_no_more_than_is_said(size: float) -> None:
    features = size * np.random.default_rng(0).normal(size=(6, 4))
    gram = UnsupervisedMargin.read([features], 2, beta=1.0, label_balance=0.4).rounded_gram
    truth = [sum(Fraction(a) * Fraction(b) for a, b in zip(x, y)) for x in features for y in features]
    errors = [abs(Fraction(k) - e) for k, e in zip(gram.value.ravel(), truth)]
    assert sum(errors) > 0
    assert all(error <= Fraction(said) for error, said in zip(errors, gram.errors.ravel()))
    assert (gram.errors <= 1e-14 * np.abs(features) @ np.abs(features).T).all()


def test_what_inner_products_are_wrong_by_is_in_the_objective() -> None:
    """Rows at right angles but for rounding; M counts the pairs whose inner product came out too large."""
    n = 20
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
    problem = UnsupervisedMargin.multiclass(rows, 2, 1e-6, 0.5)
    truth = [[sum(Fraction(a) * Fraction(b) for a, b in zip(x, y)) for y in rows.tolist()] for x in rows.tolist()]
    above = np.array([[k > t for k, t in zip(*each)] for each in zip(problem.gram.tolist(), truth)])
    M = np.where(np.eye(n, dtype=bool), 0.5, above * 1.0)
    exactly = Fraction(n, 2) - sum(
        t * (Fraction(m) - Fraction(1, 2)) for each in zip(truth, M.tolist()) for t, m in zip(*each)
    ) / (2 * Fraction(problem.beta))
    point = {"M": M, "N": np.zeros((0, 0))}
    found, blind = (objective(gram, 2, problem.beta, point) for gram in (problem.rounded_gram, exact(problem.gram)))
    assert Fraction(found.lower) <= exactly <= Fraction(found.upper)
    assert not Fraction(blind.lower) <= exactly <= Fraction(blind.upper)
