"""Counts that a loss rescales, against all labellings written out: the best value, its bounds, and a batch's parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from convexstruct.features.counts.bounds import excess
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.tolerances import ROUNDING
from tests.features.counts.labellings import random_labels
from tests.features.counts.test_counts import MAPS, hmm

KINDS = ("hmm", "ring", "partly", "tables", "channels", "many sets")
every = pytest.mark.parametrize("make", [MAPS[kind] for kind in KINDS], ids=KINDS)


def written_out(features: Counts, theta: np.ndarray, loss_weight: float = 1.0) -> np.ndarray:
    """max_s b(s) (A(s)'theta + loss_weight) of each example."""
    table = enumerate_counts(features)
    truth = table.counts[table.truth] @ theta
    each = table.loss * (table.counts @ theta - truth[table.example] + loss_weight)
    best = np.full(len(features.examples), -np.inf)
    np.maximum.at(best, table.example, each)
    return best


@every
def test_the_best_labelling_and_its_bounds_are_those_of_enumeration(make: Callable[[int], Counts]) -> None:
    plain, rng = make(0), np.random.default_rng(0)
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
        unused = (plain.counts(plain.examples.truth) == 0) & (np.arange(len(theta)) % 2 == 0)
        theta[unused] = -1e9
        truth = written_out(plain, theta)
        theta[unused] = -np.inf  # entries that count for nothing, as far as the truth goes
        np.testing.assert_allclose(excess(features, theta).value, truth, rtol=ROUNDING, atol=1e-9 * (1.0 + scale))


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


def test_sums_over_labellings_are_refused_and_a_nan_is_no_error() -> None:
    features = LossRescaled(hmm(0))
    with pytest.raises(ValueError, match="rescaled by the loss, wanted others: no sums"):
        features.expected(np.zeros(features.tables.dimension))
    assert np.isnan(features.best(np.full(features.tables.dimension, np.nan))[0]).all()
