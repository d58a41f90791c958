"""The feature map of some of the examples has their data, in their order."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest

from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.features.counts.part import part


def chains_of_unequal_lengths() -> HMMCounts:
    rng = np.random.default_rng(3)
    lengths = [1, 7, 3, 3, 12, 1, 5]
    hidden = [rng.random(n) < 0.7 for n in lengths]
    for mask in hidden:
        mask[0] = True
    return HMMCounts.read(
        [rng.integers(0, 4, n) for n in lengths], [rng.integers(0, 3, n) for n in lengths], 3, 4, "ring", hidden,
        rng.uniform(0.5, 2, len(lengths)),
    )  # fmt: skip


def network_with_many_hidden_sets() -> NetworkCounts:
    graph = nx.DiGraph([("a", "b"), ("b", "c"), ("a", "d")])
    for node, states in zip("abcd", (2, 3, 2, 3)):
        graph.nodes[node]["states"] = states
    rng = np.random.default_rng(5)
    assignments = np.stack([rng.integers(0, graph.nodes[v]["states"], 9) for v in graph.nodes], axis=1)
    hidden = [["a"], ["b", "c"], ["a"], ["d"], ["b", "c"], ["a", "b", "c", "d"], ["d"], ["a"], ["b", "c"]]
    return NetworkCounts.read(graph, assignments, hidden, weights=rng.uniform(0.5, 2, 9))


@pytest.mark.parametrize("features", [chains_of_unequal_lengths, network_with_many_hidden_sets])
def test_a_part_knows_its_own_examples(features: Callable[[], Counts]) -> None:
    whole = features()
    for low, high in ((0, 2), (2, 7), (6, 7)):
        some = part(whole, low, high)
        inside = (whole.examples.example >= low) & (whole.examples.example < high)
        assert np.array_equal(some.examples.truth, whole.examples.truth[inside])
        assert np.array_equal(some.examples.example, whole.examples.example[inside] - low)
        assert np.array_equal(some.examples.free, whole.examples.free[inside])
        assert np.array_equal(some.examples.cards, whole.examples.cards[inside])
        assert np.array_equal(some.examples.weights, whole.examples.weights[low:high])
        assert np.array_equal(some.examples.max_loss, whole.examples.max_loss[low:high])
        each = whole.counts_each(whole.examples.truth).toarray()[low:high]
        assert np.array_equal(some.counts_each(some.examples.truth).toarray(), each)
