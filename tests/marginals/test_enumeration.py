"""All labellings written out: their order, counts and losses by loops over positions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.marginals.enumeration import enumerate_counts, n_assignments


@pytest.mark.parametrize("hidden", [False, True])
def test_rows_are_all_allowed_labellings_with_their_counts_and_losses(hidden: bool) -> None:
    symbols, states = [[0, 1, 1], [2], [1, 0]], [[1, 0, 1], [0], [1, 1]]
    masks = [[True, False, True], [True], [False, True]]
    features = HMMCounts.read(symbols, states, 2, 3, hidden=masks if hidden else None, weights=[1.0, 2.0, 0.5])
    table, row = enumerate_counts(features), 0
    for k, (seen, true, mask) in enumerate(zip(symbols, states, masks)):
        allowed = [range(2) if free or not hidden else [label] for label, free in zip(true, mask)]
        for labels in sorted(itertools.product(*allowed), key=lambda labels: labels[::-1]):
            initial, transition, emission = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3))
            initial[labels[0]] += 1
            for t, label in enumerate(labels):
                emission[label, seen[t]] += 1
                if t:
                    transition[labels[t - 1], label] += 1
            naive = np.concatenate((initial, transition.ravel(), emission.ravel()))
            assert (int(table.example[row]), tuple(table.labels[row][: len(labels)])) == (k, labels)
            np.testing.assert_array_equal(table.counts[[row]].toarray()[0], naive)
            assert table.loss[row] == sum(a != b for a, b in zip(labels, true))
            row += 1
        assert table.labels[table.truth[k]][: len(true)].tolist() == true
    assert table.n_rows == n_assignments(features) == row


def test_too_many_assignments_say_how_many_and_what_serves_instead() -> None:
    features = HMMCounts.read([[0] * 6], [[0] * 6], 3, 1)
    assert enumerate_counts(features, limit=729).n_rows == 729
    with pytest.raises(ValueError, match=r"729 assignments .* at most 728: use the compact dual"):
        enumerate_counts(features, limit=728)
    features = HMMCounts.read([[0] * 200, [0]], [[0] * 200, [0]], 10, 1)
    assert n_assignments(features) == 10**200 + 10
    with pytest.raises(ValueError, match="about 1e200 assignments"):
        enumerate_counts(features)
