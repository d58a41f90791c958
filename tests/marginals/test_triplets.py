"""Sparse matrices from triplets, and those that sum or pick entries, against loops."""

from __future__ import annotations

import numpy as np

from convexstruct.marginals.triplets import Triplets, picks, sums_by


def test_entries_of_one_place_add_up() -> None:
    entries = Triplets()
    entries.add(np.array([0, 1]), np.array([2, 2]), 1.5)
    entries.add(np.array([[0], [1]]), np.array([0, 2]), np.array([1.0, 2.0]))
    assert entries.matrix((2, 3)).toarray().tolist() == [[1.0, 0.0, 3.5], [1.0, 0.0, 3.5]]
    assert Triplets().matrix((2, 3)).toarray().tolist() == [[0.0] * 3] * 2


def test_sums_are_those_of_groups_also_of_empty_ones() -> None:
    values, group = np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 0])
    assert (sums_by(group, 4) @ values).tolist() == [10.0, 0.0, 5.0, 0.0]


def test_picked_entries_are_those_of_the_index() -> None:
    values, entries = np.array([1.0, 2.0, 4.0]), np.array([2, 2, 0])
    assert (picks(entries, 3) @ values).tolist() == values[entries].tolist()
