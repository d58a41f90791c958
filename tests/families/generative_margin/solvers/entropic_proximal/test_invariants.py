"""Invariants and local variances of the counts, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin.solvers.entropic_proximal.invariants import invariants, local_variance
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.tolerances import ROUNDING
from tests.families.generative_margin.solvers.entropic_proximal.test_covariance import brute_force

LENGTHS = [3, 1, 2, 4]
WEIGHTS = [1.0, 2.0, 0.5, 1.5]


def hmm(seed: int = 0, n_states: int = 2, hidden: bool = False) -> HMMCounts:
    rng = np.random.default_rng(seed)
    symbols, states = ([rng.integers(n, size=t) for t in LENGTHS] for n in (3, n_states))
    mask = [np.append(rng.random(t - 1) < 0.6, True) for t in LENGTHS] if hidden else None
    return HMMCounts.read(symbols, states, n_states, 3, weights=WEIGHTS, hidden=mask)


def channels(seed: int = 0) -> HMMCounts:
    rng = np.random.default_rng(seed)
    symbols, states = [rng.integers(3, size=(t, 2)) for t in LENGTHS], [rng.integers(2, size=t) for t in LENGTHS]
    return HMMCounts.read(symbols, states, 2, 3, weights=WEIGHTS)


MAPS = [hmm(), hmm(1, n_states=1), hmm(2, n_states=3), hmm(3, hidden=True), channels()]


def by_step(features: Counts, theta: Vector, loss_weight: float) -> list[tuple[float, Vector]]:
    """(weight, posterior of using each entry (d,)) for each example, step and table, by enumeration."""
    rows = enumerate_counts(features)
    assert isinstance(features, HMMCounts)
    seen = np.split(features.channels[features.chains.flat], np.cumsum(features.chains.lengths)[:-1])
    tables = list(features.tables.tables(np.arange(len(theta))).values())
    found = []
    for k, weight in enumerate(features.examples.weights):
        own = np.flatnonzero(rows.example == k)
        score = rows.counts[own] @ theta + loss_weight * rows.loss[own]
        q = np.exp(score - score.max())
        q /= q.sum()
        labels = rows.labels[own]
        for t in range(len(seen[k])):
            entries = [tables[0][labels[:, 0]] if t == 0 else tables[1][labels[:, t - 1], labels[:, t]]]
            entries += [tables[2 + o][labels[:, t], symbol] for o, symbol in enumerate(seen[k][t])]
            found += [(float(weight), np.bincount(used, q, len(theta)).astype(float)) for used in entries]
    return found


@pytest.mark.parametrize("features", MAPS)
def test_a_combination_varies_by_what_the_local_variance_of_the_last_state_says(features: Counts) -> None:
    theta = np.random.default_rng(5).normal(size=features.tables.dimension)
    columns = invariants(features).toarray()
    local = local_variance(features, theta, 0.7)
    assert local is not None
    truth = np.diag(columns.T @ brute_force(features, theta, 0.7) @ columns)
    np.testing.assert_allclose(local.invariants, truth, atol=ROUNDING)
    assert (truth < ROUNDING).sum() >= columns.shape[1] - features.examples.cards.max()


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("scale", [1.0, 30.0, 3000.0])
def test_the_local_variance_is_the_sum_over_steps_of_p_times_1_minus_p(features: Counts, scale: float) -> None:
    theta = scale * np.random.default_rng(5).normal(size=features.tables.dimension)
    local = local_variance(features, theta, 0.7)
    assert local is not None
    blocks = features.tables.block_of
    counts, sums = np.zeros_like(theta), np.zeros(len(features.tables.block_sizes))
    for weight, p in by_step(features, theta, 0.7):
        counts += weight * p * (1.0 - p)
        sums += weight * (total := np.bincount(blocks, p, len(sums))) * (1.0 - total)
    np.testing.assert_allclose(local.counts, counts, atol=1e-9)
    np.testing.assert_allclose(local.blocks, sums, atol=1e-9)


def test_other_feature_maps_have_none_that_are_known() -> None:
    net = random_network(4, 3, seed=1)
    features = NetworkCounts.read(net.graph, net.assignments, list(net.graph.nodes)[:2])
    assert invariants(features).shape == (features.tables.dimension, 0)
    assert local_variance(features, np.zeros(features.tables.dimension), 1.0) is None
