"""The covariance of the counts, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin import EntropicProximal, GenerativeMargin, covariance
from convexstruct.families.generative_margin.covariance import CountCovariance
from convexstruct.families.generative_margin.problem import default_c
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.tolerances import ROUNDING, SINGLE


def chain() -> HMMCounts:
    rng = np.random.default_rng(0)
    lengths = [3, 1, 2]
    symbols, states = ([rng.integers(n, size=t) for t in lengths] for n in (3, 2))
    return HMMCounts.read(symbols, states, 2, 3, weights=[1.0, 2.0, 0.5])


def network() -> NetworkCounts:
    net = random_network(5, 4, states=(2, 3), seed=1)
    return NetworkCounts.read(net.graph, net.assignments, [0, 3], weights=[1.0, 2.0, 0.5, 1.0])


def brute_force(features: Counts, theta: Vector, loss_weight: float) -> Vector:
    table = enumerate_counts(features)
    counts = table.counts.toarray()
    total = np.zeros((len(theta), len(theta)))
    for k, weight in enumerate(features.examples.weights):
        rows = table.example == k
        q = np.exp(counts[rows] @ theta + loss_weight * table.loss[rows])
        q /= q.sum()
        away = counts[rows] - q @ counts[rows]
        total += weight * (away.T * q) @ away
    return total


@pytest.mark.parametrize(("features", "kind"), [(chain(), "recursion"), (network(), "listing")])
def test_it_is_exact_on_chains_and_where_the_labellings_can_be_listed(features: Counts, kind: str) -> None:
    found = CountCovariance(features)
    assert found.kind == kind
    rng = np.random.default_rng(2)
    for loss_weight in (0.0, 1.5):
        theta = 2.0 * rng.normal(size=features.tables.dimension)
        truth = brute_force(features, theta, loss_weight)
        accuracy = SINGLE if kind == "recursion" else ROUNDING
        np.testing.assert_allclose(found(theta, loss_weight), truth, rtol=0, atol=accuracy * np.abs(truth).max())


@pytest.mark.parametrize("kernels", [1, 12, 24])
def test_summed_over_blocks_of_chains_it_is_the_same(kernels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariance, "KERNEL_BLOCK", kernels)  # one chain takes 3 steps * 2 * 2 numbers
    features = chain()
    theta = np.random.default_rng(4).normal(size=features.tables.dimension)
    truth = brute_force(features, theta, 0.5)
    np.testing.assert_allclose(CountCovariance(features)(theta, 0.5), truth, rtol=0, atol=SINGLE * np.abs(truth).max())


def test_elsewhere_there_is_none_and_the_solver_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariance, "MOST_LISTED", 1)
    problem = GenerativeMargin(network(), default_c(None, network().tables), 0.3)
    assert CountCovariance(problem.features).kind == ""
    assert solve(problem, EntropicProximal(), tol="LOW").status is Status.OPTIMAL
