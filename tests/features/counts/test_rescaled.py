"""Counts that a loss rescales, against all labellings written out: the best value, its bounds, and a batch's parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from convexstruct.features.counts.bounds import excess
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.part import part
from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.tolerances import ROUNDING
from tests.features.counts.labellings import random_labels
from tests.features.counts.test_counts import channels, hmm, hmm_with_tables, many_sets

MAKERS: list[Callable[[int], Counts]] = [
    hmm,
    lambda seed: hmm(seed, "ring"),
    lambda seed: hmm(seed, "ring", True),
    hmm_with_tables,
    channels,
    many_sets,
]
every = pytest.mark.parametrize("make", MAKERS, ids=["hamming", "ring", "partly", "tables", "channels", "network"])


def written_out(features: Counts, theta: np.ndarray, loss_weight: float = 1.0) -> np.ndarray:
    """max_s b(s) (A(s)'theta + loss_weight) of each example."""
    table = enumerate_counts(features)
    truth = table.counts[table.truth] @ theta
    each = table.loss * (table.counts @ theta - truth[table.example] + loss_weight)
    best = np.full(len(features.examples), -np.inf)
    np.maximum.at(best, table.example, each)
    return best


@every
@pytest.mark.parametrize("seed", range(3))
def test_the_best_labelling_and_its_bounds_are_those_of_enumeration(make: Callable[[int], Counts], seed: int) -> None:
    plain, rng = make(seed), np.random.default_rng(seed)
    features = LossRescaled(plain)
    for scale in (0.0, 0.3, 3.0, 1e6):
        theta = scale * rng.normal(size=plain.tables.dimension)
        truth = written_out(plain, theta)
        value, labels = features.best(theta)
        np.testing.assert_allclose(value, truth, rtol=ROUNDING, atol=ROUNDING * scale)
        attained = features.counts_each(labels) @ theta + features.loss(labels)
        np.testing.assert_allclose(attained, truth, rtol=ROUNDING, atol=ROUNDING * scale)
        bound = excess(features, theta)
        assert (np.abs(bound.value - truth) <= bound.errors + 1e-13 * (scale + 1.0) * 20).all()
        assert (bound.errors <= 1e-11 * (1.0 + scale)).all()


@every
def test_without_a_part_that_counts_for_nothing_the_bound_is_still_one(make: Callable[[int], Counts]) -> None:
    plain = make(1)
    theta = np.random.default_rng(1).normal(size=plain.tables.dimension)
    unused = plain.counts(plain.examples.truth) == 0
    theta[unused & (np.arange(len(theta)) % 2 == 0)] = -np.inf
    finite = np.where(theta == -np.inf, -1e9, theta)
    np.testing.assert_allclose(excess(LossRescaled(plain), theta).value, written_out(plain, finite), atol=1e-9)


@every
def test_counts_are_the_losses_times_the_differences(make: Callable[[int], Counts]) -> None:
    plain, rng = make(0), np.random.default_rng(0)
    features = LossRescaled(plain)
    labels, share = random_labels(plain.examples, rng), rng.uniform(size=len(plain.examples))
    each = features.counts_each(labels).toarray()
    away = (plain.counts_each(labels) - plain.counts_each(plain.examples.truth)).toarray()
    np.testing.assert_allclose(each, plain.loss(labels)[:, None] * away, rtol=ROUNDING)
    np.testing.assert_allclose(features.counts(labels, share), each.T @ (share * plain.examples.weights), atol=1e-12)
    assert not features.counts(plain.examples.truth).any()


@every
def test_a_part_of_a_batch_has_the_best_labellings_of_its_examples(make: Callable[[int], Counts]) -> None:
    features = LossRescaled(make(2))
    theta = np.random.default_rng(2).normal(size=features.tables.dimension)
    whole = features.best(theta)[0]
    found = np.concatenate([part(features, low, high).best(theta)[0] for low, high in ((0, 2), (2, 5))])
    np.testing.assert_allclose(found, whole, rtol=ROUNDING, atol=ROUNDING)


def test_sums_over_labellings_are_refused_and_a_nan_is_no_error() -> None:
    features = LossRescaled(hmm(0))
    with pytest.raises(ValueError, match="rescaled by the loss, wanted others: no sums"):
        features.expected(np.zeros(features.tables.dimension))
    assert np.isnan(features.best(np.full(features.tables.dimension, np.nan))[0]).all()
