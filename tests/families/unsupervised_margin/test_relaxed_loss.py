"""Theorem 1's maximum at any matrices: both bounds against every labelling, and in fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.relaxed_loss import RelaxedLoss


def instance(seed: int) -> tuple[RelaxedLoss, np.random.Generator]:
    """Four rows in quarters, matrices in eighths: all sums are exact in fractions."""
    rng, kappa = np.random.default_rng(seed), 2 + seed % 2
    rows = rng.integers(-6, 7, size=(4, 2)) / 4.0
    problem = UnsupervisedMargin.read([rows], kappa, beta=0.125, label_balance=0.3, pair_balance=0.9)
    shapes = {"M": (4, 4), "N": (3, 3), "C": (4, kappa), "D": (3, kappa**2)}
    return RelaxedLoss(problem, {name: rng.integers(0, 9, size=shape) / 8.0 for name, shape in shapes.items()}), rng


def value(of: RelaxedLoss, mu: Any, nu: Any) -> Fraction:
    """(8) at mu and nu, exactly, from its definition."""
    problem, given = of.problem, {name: each.tolist() for name, each in of.given.items()}
    k = [[Fraction(e) for e in row] for row in problem.gram.tolist()]
    mu, nu = ([[Fraction(e) for e in row] for row in np.asarray(each).tolist()] for each in (mu, nu))
    found = Fraction(0)
    for kernel, relation, indicator, marginal in ((k, "M", "C", mu), ([[Fraction(1)] * 3] * 3, "N", "D", nu)):
        for i, j in itertools.product(range(len(kernel)), repeat=2):
            pairs = sum((a * Fraction(b) for a, b in zip(marginal[i], given[indicator][j])), Fraction(0))
            squares = sum((a * b for a, b in zip(marginal[i], marginal[j])), Fraction(0))
            found += kernel[i][j] * (pairs - (Fraction(given[relation][i][j]) + squares) / 2)
    taken = sum((a * Fraction(c) for row, other in zip(mu, given["C"]) for a, c in zip(row, other)), Fraction(0))
    return problem.n_rows - taken + found / Fraction(problem.beta)


def mixture(of: RelaxedLoss, rng: np.random.Generator) -> tuple[Any, Any]:
    """Marginals of a mixture of labellings, with shares in sixteenths."""
    problem, kappa = of.problem, of.problem.n_labels
    labels = rng.integers(0, kappa, size=(16, problem.n_rows))
    both = labels[:, problem.previous] * kappa + labels[:, problem.current]
    return np.eye(kappa)[labels].mean(axis=0), np.eye(kappa**2)[both].mean(axis=0)


@pytest.mark.parametrize("seed", range(6))
def test_any_point_is_above_and_any_witness_below_what_mixtures_of_labellings_attain(seed: int) -> None:
    of, rng = instance(seed)
    shapes = {name: array.shape for name, array in of.trivial()[0].items()}
    upper = of.primal({name: rng.normal(size=shape) for name, shape in shapes.items()}).upper
    for _ in range(20):
        mu, nu = mixture(of, rng)
        attained = value(of, mu, nu)
        assert attained <= Fraction(upper)
        found = of.dual({"mu": mu, "nu": nu})  # agrees already, and is read as it is
        assert found.lower <= attained <= found.upper
        assert found.allowance <= 1e-12 * of.problem.n_rows / of.problem.beta


@pytest.mark.parametrize("seed", range(6))
def test_what_a_witness_is_read_as_agrees_at_both_rows_of_every_pair(seed: int) -> None:
    of, rng = instance(seed)
    kappa, pairs = of.problem.n_labels, of.problem.pairs
    mu, nu, _ = of.distribution(rng.normal(size=(4, kappa)), rng.normal(size=(3, kappa**2)))
    tables = nu.reshape(-1, kappa, kappa)
    assert (mu >= 0).all()
    np.testing.assert_allclose(mu.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(tables.sum(axis=2), mu[pairs[:, 0]], rtol=1e-12)
    np.testing.assert_allclose(tables.sum(axis=1), mu[pairs[:, 1]], rtol=1e-12)
