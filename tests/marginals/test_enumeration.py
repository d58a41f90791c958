from __future__ import annotations

import itertools

import numpy as np
import pytest

from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.marginals.enumeration import enumerate_counts, n_assignments


def small(hidden: bool = False) -> HMMCounts:
    symbols = [[0, 1, 1], [2], [1, 0]]
    states = [[1, 0, 1], [0], [1, 1]]
    masks = [[True, False, True], [True], [False, True]] if hidden else None
    return HMMCounts.read(symbols, states, 2, 3, hidden=masks, weights=[1.0, 2.0, 0.5])


@pytest.mark.parametrize("hidden", [False, True])
def test_rows_are_all_allowed_labellings_in_colexicographic_order(hidden: bool) -> None:
    features = small(hidden)
    table = enumerate_counts(features)
    lengths = features.chains.lengths
    first = features.chains.first
    expected = []
    for k, length in enumerate(lengths):
        places = range(first[k], first[k] + length)
        allowed = [range(2) if features.examples.free[p] else [int(features.examples.truth[p])] for p in places]
        every = sorted(itertools.product(*allowed), key=lambda labels: labels[::-1])
        expected += [(k, labels) for labels in every]
    got = [(int(k), tuple(int(v) for v in row if v >= 0)) for k, row in zip(table.example, table.labels)]
    assert got == expected
    assert table.n_rows == n_assignments(features) == len(expected)


@pytest.mark.parametrize("hidden", [False, True])
def test_counts_and_losses_are_those_of_a_naive_loop(hidden: bool) -> None:
    features = small(hidden)
    symbols = features.chains.split(features.symbols[features.chains.flat])
    states = features.chains.split(features.examples.truth)
    table = enumerate_counts(features)
    for row in range(table.n_rows):
        k = int(table.example[row])
        labels = [int(v) for v in table.labels[row] if v >= 0]
        initial, transition, emission = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3))
        initial[labels[0]] += 1
        for t, label in enumerate(labels):
            emission[label, symbols[k][t]] += 1
            if t:
                transition[labels[t - 1], label] += 1
        naive = np.concatenate((initial, transition.ravel(), emission.ravel()))
        np.testing.assert_array_equal(table.counts[[row]].toarray()[0], naive)
        assert table.loss[row] == sum(a != b for a, b in zip(labels, states[k]))


@pytest.mark.parametrize("hidden", [False, True])
def test_the_truth_rows_hold_the_true_labellings(hidden: bool) -> None:
    features = small(hidden)
    table = enumerate_counts(features)
    assert (table.loss[table.truth] == 0).all()
    true = [v for row in table.labels[table.truth] for v in row if v >= 0]
    np.testing.assert_array_equal(true, features.examples.truth)


def test_too_many_assignments_say_how_many_and_what_serves_instead() -> None:
    features = HMMCounts.read([[0] * 6], [[0] * 6], 3, 1)
    assert enumerate_counts(features, limit=729).n_rows == 729
    with pytest.raises(ValueError, match=r"729 assignments .* at most 728: use the compact dual"):
        enumerate_counts(features, limit=728)


def test_astronomically_many_assignments_are_counted_exactly() -> None:
    features = HMMCounts.read([[0] * 200, [0]], [[0] * 200, [0]], 10, 1)
    assert n_assignments(features) == 10**200 + 10
    with pytest.raises(ValueError, match="about 1e200 assignments"):
        enumerate_counts(features)
