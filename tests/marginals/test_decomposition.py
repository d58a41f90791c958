"""The marginals of a mixture of labellings give a mixture with the same marginals, on chains and on junction trees."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.arrays import Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.marginals.decomposition import greedy_mixture
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.marginals.polytope import local_polytope
from convexstruct.tolerances import DUAL_ROUNDING, HIGH, ROUNDING
from tests.features.counts.labellings import random_labels
from tests.features.counts.test_counts import every_map


def marginals(features: Counts, labels: NDArray[np.int64], share: Vector) -> Vector:
    """z of the mixture, by the definition of each column."""
    of = local_polytope(features).columns
    z = np.zeros(len(of.example))
    for row, weight in zip(labels, share):
        z += weight[of.example] * (row[of.position] == of.label).all(axis=1)
    return z


@every_map
@pytest.mark.parametrize("seed", range(2))
def test_what_a_column_stands_for_agrees_with_the_polytope(make: Callable[[int], Counts], seed: int) -> None:
    """z of a single labelling satisfies the equalities and gives its counts and loss."""
    features = make(seed)
    polytope = local_polytope(features)
    for k in range(5):
        labels = random_labels(features.examples, np.random.default_rng(k))
        z = marginals(features, labels[None, :], np.ones((1, len(features.examples))))
        np.testing.assert_allclose(polytope.equality @ z, polytope.rhs, atol=ROUNDING)
        np.testing.assert_allclose(polytope.counts @ z, features.counts(labels), atol=ROUNDING)
        assert polytope.loss @ z == pytest.approx(features.examples.weights @ features.loss(labels), abs=ROUNDING)


@every_map
@pytest.mark.parametrize("seed", range(2))
def test_a_mixture_is_taken_apart_into_one_with_the_same_marginals(make: Callable[[int], Counts], seed: int) -> None:
    features = make(seed)
    rng = np.random.default_rng(2)
    rows = enumerate_counts(features)
    beta = rng.exponential(size=rows.n_rows) * (rng.random(rows.n_rows) < 0.5)
    beta[rows.truth] += 0.1
    beta /= np.bincount(rows.example, weights=beta)[rows.example]
    polytope = local_polytope(features)
    of = polytope.columns
    first = np.searchsorted(features.examples.example, np.arange(len(features.examples)))
    z = np.zeros(polytope.n_variables)
    for r in range(rows.n_rows):
        mine = of.example == rows.example[r]
        z[mine] += beta[r] * (rows.labels[r][of.position[mine] - first[rows.example[r]]] == of.label[mine]).all(axis=1)
    labels, shares = greedy_mixture(of, z, features.examples.truth)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=DUAL_ROUNDING)
    np.testing.assert_allclose(marginals(features, labels, shares), z, atol=DUAL_ROUNDING)
    assert ((labels == features.examples.truth) | features.examples.free).all()
    counts = sum(features.counts(row, share) for row, share in zip(labels, shares))
    expected = np.asarray((rows.counts * (features.examples.weights[rows.example] * beta)[:, None]).sum(axis=0)).ravel()
    np.testing.assert_allclose(counts, expected, atol=100 * DUAL_ROUNDING)


@every_map
def test_rounding_in_the_marginals_is_left_out_not_made_up(make: Callable[[int], Counts]) -> None:
    features = make(0)
    rng = np.random.default_rng(3)
    truth = marginals(features, features.examples.truth[None, :], np.ones((1, len(features.examples))))
    noisy = truth + 0.1 * HIGH.feasibility * rng.normal(size=len(truth))
    _, shares = greedy_mixture(local_polytope(features).columns, noisy, features.examples.truth)
    assert (shares >= 0).all()
    assert (shares.sum(axis=0) <= 1 + DUAL_ROUNDING).all()
    assert (shares.sum(axis=0) >= 1 - HIGH.feasibility).all()
