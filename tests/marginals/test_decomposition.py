"""The marginals of a mixture of labellings give a mixture with the same marginals, on chains and on junction trees."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.networks import random_network
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.marginals.decomposition import columns, mixture
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.marginals.polytope import local_polytope
from convexstruct.tolerances import DUAL_ROUNDING, HIGH, ROUNDING

Features = HMMCounts | NetworkCounts


def chains(seed: int, masked: bool) -> HMMCounts:
    rng = np.random.default_rng(seed)
    lengths = (1, 4, 2, 3, 1)
    hidden = None
    if masked:
        hidden = [rng.random(n) < 0.6 for n in lengths]
        for mask in hidden:
            mask[rng.integers(len(mask))] = True
    return HMMCounts.read(
        [rng.integers(3, size=n) for n in lengths],
        [rng.integers(3, size=n) for n in lengths],
        3, 3, "ring", hidden, rng.uniform(0.5, 2.0, size=5),
    )  # fmt: skip


def network(seed: int, masked: bool) -> NetworkCounts:
    sampled = random_network(7, 4, seed=seed)
    rng = np.random.default_rng(seed)
    hidden = [sorted(rng.choice(7, size=rng.integers(1, 6), replace=False).tolist()) for _ in range(4)]
    return NetworkCounts.read(sampled.graph, sampled.assignments, hidden if masked else [0, 2, 3, 5, 6])


KINDS = {
    f"{kind.__name__}, {'some' if masked else 'all'} hidden, seed {seed}": (kind, seed, masked)
    for kind in (chains, network)
    for masked in (False, True)
    for seed in range(3)
}


def features_of(name: str) -> Features:
    kind, seed, masked = KINDS[name]
    return kind(seed, masked)


def marginals(features: Features, labels: NDArray[np.int64], share: Vector) -> Vector:
    """z of the mixture, by the definition of each column."""
    of = columns(features)
    z = np.zeros(len(of.example))
    for row, weight in zip(labels, share):
        z += weight[of.example] * (row[of.position] == of.label).all(axis=1)
    return z


@pytest.mark.parametrize("name", KINDS)
def test_what_a_column_stands_for_agrees_with_the_polytope(name: str) -> None:
    """z of a single labelling satisfies the equalities and gives its counts and loss."""
    features = features_of(name)
    polytope = local_polytope(features)
    rng = np.random.default_rng(1)
    for _ in range(5):
        labels = np.where(features.examples.free, rng.integers(features.examples.cards), features.examples.truth)
        z = marginals(features, labels[None, :], np.ones((1, len(features.examples))))
        np.testing.assert_allclose(polytope.equality @ z, polytope.rhs, atol=ROUNDING)
        np.testing.assert_allclose(polytope.counts @ z, features.counts(labels), atol=ROUNDING)
        assert polytope.loss @ z == pytest.approx(features.examples.weights @ features.loss(labels), abs=ROUNDING)


@pytest.mark.parametrize("name", KINDS)
def test_a_mixture_is_taken_apart_into_one_with_the_same_marginals(name: str) -> None:
    features = features_of(name)
    rng = np.random.default_rng(2)
    rows = enumerate_counts(features)
    beta = rng.exponential(size=rows.n_rows) * (rng.random(rows.n_rows) < 0.5)
    beta[rows.truth] += 0.1
    beta /= np.bincount(rows.example, weights=beta)[rows.example]
    polytope = local_polytope(features)
    of = columns(features)
    first = np.searchsorted(features.examples.example, np.arange(len(features.examples)))
    z = np.zeros(polytope.n_variables)
    for r in range(rows.n_rows):
        mine = of.example == rows.example[r]
        z[mine] += beta[r] * (rows.labels[r][of.position[mine] - first[rows.example[r]]] == of.label[mine]).all(axis=1)
    labels, shares = mixture(features, z)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=DUAL_ROUNDING)
    np.testing.assert_allclose(marginals(features, labels, shares), z, atol=DUAL_ROUNDING)
    assert ((labels == features.examples.truth) | features.examples.free).all()
    counts = sum(features.counts(row, share) for row, share in zip(labels, shares))
    expected = np.asarray((rows.counts * (features.examples.weights[rows.example] * beta)[:, None]).sum(axis=0)).ravel()
    np.testing.assert_allclose(counts, expected, atol=100 * DUAL_ROUNDING)


@pytest.mark.parametrize("name", KINDS)
def test_rounding_in_the_marginals_is_left_out_not_made_up(name: str) -> None:
    features = features_of(name)
    rng = np.random.default_rng(3)
    truth = marginals(features, features.examples.truth[None, :], np.ones((1, len(features.examples))))
    noisy = truth + 0.1 * HIGH.feasibility * rng.normal(size=len(truth))
    _, shares = mixture(features, noisy)
    assert (shares >= 0).all()
    assert (shares.sum(axis=0) <= 1 + DUAL_ROUNDING).all()
    assert (shares.sum(axis=0) >= 1 - HIGH.feasibility).all()
