"""Several channels against the plain hidden Markov model, and against the same model as a Bayesian network."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.arrays import Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.hmm_channels import ChannelCounts, window
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.features.counts.part import part
from convexstruct.tolerances import ROUNDING
from tests.features.counts.labellings import random_labels


def draw(lengths: list[int], n_channels: int, seed: int = 0) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 4, (n, n_channels)) for n in lengths], [rng.integers(0, 3, n) for n in lengths]


def agree(ours: Counts, other: Counts, theta: Vector, loss_weight: float) -> None:
    """Both maps have the same best labellings, with the same counts, and the same sums."""
    (values, labels), (expected, found) = ours.best(theta, loss_weight), other.best(theta, loss_weight)
    assert np.allclose(values, expected, rtol=ROUNDING)
    assert np.array_equal(labels, found)
    assert np.array_equal(ours.counts_each(labels).toarray(), other.counts_each(labels).toarray())
    assert np.allclose(ours.counts(labels), other.counts(labels))
    here, there = ours.expected(theta, loss_weight), other.expected(theta, loss_weight)
    assert np.allclose(here.log_partition, there.log_partition, rtol=ROUNDING)
    assert np.allclose(here.counts, there.counts, rtol=ROUNDING, atol=ROUNDING)
    assert here.loss == pytest.approx(there.loss, rel=ROUNDING)


def test_one_channel_is_the_plain_model() -> None:
    symbols, states = draw([4, 1, 6], 1)
    weights = np.array([1.0, 2.5, 0.5])
    hidden = [np.array([True, False, True, True]), np.array([True]), np.ones(6, dtype=bool)]
    ours = ChannelCounts.read(symbols, states, 3, 4, "ring", hidden, weights)
    plain = HMMCounts.read([s[:, 0] for s in symbols], states, 3, 4, "ring", hidden, weights)
    assert ours.tables.dimension == plain.tables.dimension
    rng = np.random.default_rng(1)
    theta = rng.normal(size=plain.tables.dimension) * 2
    for loss_weight in (0.0, 1.0):
        agree(ours, plain, theta, loss_weight)
    labels = random_labels(plain.examples, rng)
    share = rng.uniform(size=3)
    assert np.allclose(ours.counts(labels, share), plain.counts(labels, share))
    assert np.array_equal(ours.loss(labels), plain.loss(labels))
    assert np.array_equal(ours.examples.free, plain.examples.free)
    assert np.array_equal(ours.examples.max_loss, plain.examples.max_loss)


def test_several_channels_are_leaves_of_a_bayesian_network() -> None:
    length, n_channels = 4, 3
    symbols, states = draw([length] * 5, n_channels, seed=4)
    graph = nx.DiGraph()
    for t in range(length):
        graph.add_node(("state", t), states=3, table="initial" if t == 0 else "transition")
        if t:
            graph.add_edge(("state", t - 1), ("state", t))
    for t in range(length):
        for o in range(n_channels):
            graph.add_node(("symbol", t, o), states=4, table=f"emission {o}")
            graph.add_edge(("state", t), ("symbol", t, o))
    rows = np.array([np.concatenate((s, x.ravel())) for s, x in zip(states, symbols)])
    network = NetworkCounts.read(graph, rows, [("state", t) for t in range(length)])
    ours = ChannelCounts.read(symbols, states, 3, 4)
    assert ours.tables == network.tables
    agree(ours, network, np.random.default_rng(5).normal(size=ours.tables.dimension), 1.0)


def test_a_part_is_what_reading_those_chains_gives() -> None:
    symbols, states = draw([4, 1, 6, 3], 2, seed=6)
    whole = ChannelCounts.read(symbols, states, 3, 4)
    some = part(whole, 1, 3)
    alone = ChannelCounts.read(symbols[1:3], states[1:3], 3, 4)
    agree(some, alone, np.random.default_rng(7).normal(size=whole.tables.dimension), 1.0)


def test_a_window_holds_the_neighbours_and_a_symbol_of_its_own_beyond_the_ends() -> None:
    seen = window([np.array([3, 1, 2]), np.array([0])], 4, 1)
    assert [view.tolist() for view in seen] == [[[4, 3, 1], [3, 1, 2], [1, 2, 4]], [[4, 0, 4]]]
    assert window([np.array([3, 1])], 4, 0)[0].tolist() == [[3], [1]]


@pytest.mark.parametrize(
    ("symbols", "sentence"),
    [
        ([], "symbols is empty"),
        ([np.zeros(3, dtype=int)], r"symbols\[0\] has shape \(3,\), wanted \(length, channels\)"),
        ([np.zeros((3, 2), dtype=int), np.zeros((2, 1), dtype=int)], r"symbols\[1\] has shape \(2, 1\)"),
        ([np.full((3, 2), 4)], r"symbols\[0\]\[0, 0\] is 4, wanted a whole number from 0 to 3"),
        ([np.full((3, 2), 0.5)], r"symbols\[0\]\[0, 0\] is 0.5, wanted a whole number from 0 to 3"),
    ],
)
def test_symbols_that_make_no_sense_are_named(symbols: list[NDArray[np.int64]], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ChannelCounts.read(symbols, [np.zeros(len(s), dtype=int) for s in symbols], 3, 4)


def test_a_negative_radius_is_refused() -> None:
    with pytest.raises(ValueError, match="radius is -1"):
        window([np.array([0])], 4, -1)
