"""The covariance of the counts, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.families.generative_margin.solvers.entropic_proximal import covariance
from convexstruct.families.generative_margin.solvers.entropic_proximal.covariance import CountCovariance
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.oracles.chain.chain import sum_product
from convexstruct.tolerances import SINGLE


def chain() -> HMMCounts:
    rng = np.random.default_rng(0)
    lengths = [3, 1, 2]
    symbols, states = ([rng.integers(n, size=t) for t in lengths] for n in (3, 2))
    return HMMCounts.read(symbols, states, 2, 3, weights=[1.0, 2.0, 0.5])


def partly_known() -> HMMCounts:
    """Some states are observed, so other labels are forbidden there."""
    rng = np.random.default_rng(1)
    lengths = [5, 3, 1, 5]
    symbols, states = ([rng.integers(n, size=t) for t in lengths] for n in (3, 4))
    hidden = [np.array([True, True, False, True, False])[:t] for t in lengths]
    return HMMCounts.read(symbols, states, 4, 3, hidden=hidden, weights=[1.0, 2.0, 0.5, 0.7])


def one_channel() -> HMMCounts:
    """The symbols of `chain` as tables of one column."""
    features = chain()
    return replace(features, symbols=features.symbols[:, None])


def longest(features: Counts) -> int:
    """The most variables of an example; the rounding of second moments grows with it."""
    return int(np.bincount(features.examples.example).max())


def brute_force(features: Counts, theta: Vector, loss_weight: float) -> Vector:
    table = enumerate_counts(features)
    counts = table.counts.toarray()
    total = np.zeros((len(theta), len(theta)))
    for k, weight in enumerate(features.examples.weights):
        rows = table.example == k
        scores = counts[rows] @ theta + loss_weight * table.loss[rows]
        q = np.exp(scores - scores.max())
        q /= q.sum()
        away = counts[rows] - q @ counts[rows]
        total += weight * (away.T * q) @ away
    return total


@pytest.mark.parametrize("features", [chain(), one_channel(), partly_known()])
def test_it_is_that_of_all_labellings(features: HMMCounts) -> None:
    found = CountCovariance(features)
    rng = np.random.default_rng(2)
    for loss_weight in (0.0, 1.5):
        theta = 2.0 * rng.normal(size=features.tables.dimension)
        truth = brute_force(features, theta, loss_weight)
        size = SINGLE * longest(features) * np.abs(truth).max()
        np.testing.assert_allclose(found(theta, loss_weight)[0], truth, rtol=0, atol=size)


@pytest.mark.parametrize("features", [chain(), one_channel(), partly_known()])
@pytest.mark.parametrize("scale", [40.0, 1e3])
def test_at_low_temperature_few_labels_are_kept_and_what_is_left_out_does_not_count(
    features: HMMCounts, scale: float
) -> None:
    found = CountCovariance(features)
    for seed in range(5):
        theta = scale * np.random.default_rng(seed).normal(size=features.tables.dimension)
        posterior = sum_product(features.chains, *features.scores(theta)).node
        assert (posterior < covariance.NEGLIGIBLE).any()
        truth, size = brute_force(features, theta, 1.0), features.chains.n_positions
        np.testing.assert_allclose(found(theta, 1.0)[0], truth, rtol=0, atol=SINGLE * size)
        assert found.cost(theta, 1.0) < found.cost(0.0 * theta, 0.0)


@pytest.mark.parametrize("numbers", [1, 24, 48])
def test_summed_over_blocks_of_chains_it_is_the_same(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariance, "LARGEST_BLOCK", numbers)  # one chain takes 2 * 12 numbers
    features = chain()
    theta = np.random.default_rng(4).normal(size=features.tables.dimension)
    truth = brute_force(features, theta, 0.5)
    np.testing.assert_allclose(
        CountCovariance(features)(theta, 0.5)[0], truth, rtol=0, atol=SINGLE * np.abs(truth).max()
    )


@pytest.mark.parametrize("size", [1e-200, 1e-20, 1e20])
def test_it_is_as_large_as_the_weights_of_the_examples(size: float) -> None:
    features = chain()
    theta = np.random.default_rng(3).normal(size=features.tables.dimension)
    found = CountCovariance(replace(features, weights=size * features.weights))(theta, 1.0)[0] / size
    assert found == pytest.approx(CountCovariance(features)(theta, 1.0)[0], abs=SINGLE)
