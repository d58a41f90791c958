"""What problem (P) accepts as a dual witness, and what it does not."""

from __future__ import annotations

import math
from typing import Any

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


def test_labels_that_an_observed_position_rules_out_are_no_witness() -> None:
    problem = small_hmm(0, partly=True)
    truth = problem.examples.truth
    labels = truth.copy()
    observed = np.flatnonzero(~problem.examples.free)
    labels[observed[0]] = 1 - truth[observed[0]]
    with pytest.raises(ValueError, match="differs from the truth where that is observed"):
        problem.dual({"labels": labels[None], "label_shares": np.ones((1, problem.n_examples))})
    problem.dual({"labels": truth[None], "label_shares": np.ones((1, problem.n_examples))})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.eye(1, 10, 4, dtype=int) * 2}, r"dual_point\['labels'\] holds a label out of range"),
        ({"labels": np.eye(1, 10, 9, dtype=int) * -1}, r"dual_point\['labels'\] holds a label out of range"),
        ({"labels": np.zeros((1, 10))}, r"dual_point\['labels'\] holds float64, wanted whole numbers"),
        ({"labels": np.zeros((1, 9), dtype=int)}, r"dual_point\['labels'\] has shape \(1, 9\), wanted \(1, 10\)"),
        ({"label_shares": np.ones(4)}, r"dual_point\['label_shares'\] has shape \(4,\), wanted \(1, 4\)"),
        ({"gibbs": np.zeros((1, 3))}, r"dual_point\['gibbs'\] has shape \(1, 3\), wanted \(1, 12\)"),
        ({"gibbs": np.zeros((1, 12))}, r"dual_point\['gibbs_loss'\] has shape \(0,\), wanted \(1,\)"),
        ({"beta": np.ones(4)}, r"dual_point has the keys \['beta', 'label_shares', 'labels'\], wanted among gibbs,"),
    ],
)
def test_a_witness_of_the_wrong_form_is_refused(change: dict[str, Any], message: str) -> None:
    problem = small_hmm(0)
    good = {"labels": np.zeros((1, 10), dtype=int), "label_shares": np.ones((1, 4))}
    problem.dual(good)
    with pytest.raises(ValueError, match=message):
        problem.dual({**good, **change})


def test_a_gibbs_distribution_has_one_share_in_all_examples() -> None:
    problem = small_hmm(0)
    witness = random_witness(problem, np.random.default_rng(0), 0.01)
    witness["gibbs_shares"] = witness["gibbs_shares"] * np.linspace(0.5, 1.0, 4)
    with pytest.raises(ValueError, match="the same share in every example"):
        problem.dual(witness)
