"""What problem (P) accepts as a dual witness, and what it does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.graphs import chain_graph
from convexstruct.tolerances import ROUNDING
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


def test_counts_that_cancel_leave_the_bound_alone_where_c_is_zero() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, size=50)
    graph = chain_graph(2, 2)  # the first node is observed; its value 1 is used by the data though c says never
    c = np.array([1.0, 0.0, 0.4, 0.6, 0.5, 0.5])
    problem = GenerativeMargin.network(graph, [[1, 0]] * 50, [1], eta=0.005, c=c, weights=weights)
    witness = {"labels": np.arange(2)[:, None] * np.ones(50, dtype=int), "label_shares": rng.dirichlet([1, 1], 50).T}
    mu, omega = problem.aggregate(witness)
    v = np.array([0.5 - mu[4], 0.5 - mu[5]])
    by_hand = omega - 0.4 * math.log(0.4) - 0.6 * math.log(0.6) - v @ np.log(v)  # t = 1: the whole witness counts
    assert problem.dual(witness) == pytest.approx(by_hand, rel=ROUNDING)
