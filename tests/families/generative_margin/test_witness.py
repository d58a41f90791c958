"""What problem (P) accepts as a dual witness, and what it does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from tests.families.generative_margin.instances import one_variable, random_witness, small_hmm


def test_shares_that_are_no_distribution_certify_nothing() -> None:
    problem = small_hmm(0)
    rng = np.random.default_rng(0)
    good = random_witness(problem, rng, 0.01)
    assert math.isfinite(problem.dual(good))
    for key, change in (
        ("label_shares", -0.1), ("label_shares", 1.0), ("label_shares", math.nan),
        ("gibbs_shares", -1.0), ("gibbs_shares", 1.0), ("gibbs", math.nan), ("gibbs_loss", math.inf),
    ):  # fmt: skip
        bad = {**good, key: good[key].copy()}
        bad[key][0] += change
        assert problem.dual(bad) == -math.inf, (key, change)
        assert problem.dual_residuals(bad)["shares outside the simplex"] > 0
        assert certify(problem, problem.uniform(), bad).lower_bound == -math.inf


def test_rounding_in_the_shares_is_cleared_away() -> None:
    problem = one_variable([0.4, 0.6], 0.1)
    exact = problem.dual({"labels": np.array([[1]]), "label_shares": np.array([[1.0]])})
    witness = {"labels": np.array([[1], [0]]), "label_shares": np.array([[1.0 + 1e-10], [-1e-10]])}
    assert problem.dual_residuals(witness)["shares outside the simplex"] == pytest.approx(1e-10, rel=1e-3)
    assert problem.dual(witness) == pytest.approx(exact, rel=1e-8)
    assert problem.dual(witness) <= exact + 1e-12
