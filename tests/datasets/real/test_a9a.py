"""The income set: small texts, and the real rows where they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from convexstruct.datasets import a9a
from convexstruct.datasets.real.a9a import N_FEATURES, parse


def test_labels_and_entries_other_than_those_of_the_set_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\+1 or -1, got 0"):
        parse("0 1:1\n")
    with pytest.raises(ValueError, match=r"must be 1, got 0\.5"):
        parse("1 1:0.5\n")
    with pytest.raises(ValueError, match="at most 123"):
        parse("1 124:1\n")


def test_the_real_rows_have_the_published_counts(present: Callable[[str], None]) -> None:
    present("a9a")
    for part, n_negative, n_positive, n_entries, last in (
        ("train", 24_720, 7_841, 451_592, 1),
        ("test", 12_435, 3_846, 225_731, 0),
    ):
        incomes = a9a(part)
        assert incomes.features.shape == (n_negative + n_positive, N_FEATURES)
        assert (incomes.labels == 1).sum() == n_positive
        assert incomes.features.nnz == n_entries
        assert incomes.features[:, [122]].nnz == last
    assert a9a("train").features[[0]].nonzero()[1].tolist() == [2, 10, 13, 18, 38, 41, 54, 63, 66, 72, 74, 75, 79, 82]
