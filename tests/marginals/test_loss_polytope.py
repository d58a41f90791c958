"""Flows over (state, loss so far) against all labellings written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.marginals.loss_polytope import loss_polytope
from convexstruct.tolerances import ROUNDING
from tests.features.counts.test_counts import MAPS, many_sets

KINDS = ("ring", "partly", "tables", "channels")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", KINDS)
def test_the_best_flow_of_mass_one_is_worth_the_largest_violation(name: str, seed: int) -> None:
    plain = MAPS[name](seed)
    features, rng = LossRescaled(plain), np.random.default_rng(seed)
    theta = rng.normal(size=plain.tables.dimension)
    flow, k = loss_polytope(features), len(plain.examples)
    polytope = flow.polytope
    truth = plain.counts_each(plain.examples.truth) @ theta * plain.examples.weights
    worth = polytope.counts.T @ theta + polytope.loss - polytope.equality[:k].T @ truth
    found = linprog(
        -worth, A_ub=flow.ends, b_ub=np.ones(k), A_eq=polytope.equality[k:], b_eq=polytope.rhs[k:], bounds=(0, None)
    )
    table = enumerate_counts(features)
    best = np.zeros(k)
    np.maximum.at(best, table.example, table.counts @ theta + table.loss)
    assert -found.fun == pytest.approx(plain.examples.weights @ best, rel=1e-7, abs=1e-7)
    labels, beta = flow.mixture(features, found.x)
    assert (beta.sum(axis=0) <= 1.0 + 1e-7).all()
    value = sum(
        plain.examples.weights @ (b * (features.counts_each(y) @ theta + features.loss(y)))
        for y, b in zip(labels, beta)
    )
    assert value == pytest.approx(-found.fun, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_it_holds_every_labelling_that_has_a_loss(name: str) -> None:
    """As many paths from the first step to the end as there are labellings with a loss above 0."""
    features = LossRescaled(MAPS[name](0))
    flow, table = loss_polytope(features), enumerate_counts(features)
    of = flow.polytope.columns
    paths = np.zeros(len(of.step))
    for t in range(int(of.step.max()) + 1):
        here = np.flatnonzero(of.step == t)
        if t == 0:
            paths[here] = 1.0
            continue
        before = np.flatnonzero(of.step == t - 1)
        for column in here:
            joins = (of.example[before] == of.example[column]) & (of.label[before, 1] == of.label[column, 0])
            paths[column] = paths[before[joins]].sum()
    ending = np.asarray((flow.ends != 0).sum(axis=0)).ravel() > 0
    counted = np.bincount(of.example[ending], weights=paths[ending], minlength=len(features.examples))
    assert counted.tolist() == np.bincount(table.example[table.loss > ROUNDING]).tolist()


def test_networks_are_refused_with_what_takes_them() -> None:
    with pytest.raises(ValueError, match="wanted HMMCounts: the flow over the loss is stated for chains"):
        loss_polytope(LossRescaled(many_sets(0)))
