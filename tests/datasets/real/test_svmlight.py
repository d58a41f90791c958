"""The svmlight parser on small texts, against tables written out by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from convexstruct.datasets.real.svmlight import parse


def test_indices_count_from_one_and_what_is_not_named_is_zero() -> None:
    features, labels = parse("+1 1:2 3:-0.5 \n# nothing\n\n-1\n2.5 2:1e-3 4:.25 # a comment 9:9\n", 4)
    np.testing.assert_array_equal(features.toarray(), [[2, 0, -0.5, 0], [0, 0, 0, 0], [0, 1e-3, 0, 0.25]])
    np.testing.assert_array_equal(labels, [1, -1, 2.5])
    assert features.has_canonical_format
    LinearSVC().fit(features[[0, 2]], labels[[0, 2]] > 2)  # a peer that refuses indices of 64 bits


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_a_written_table_is_read_back(seed: int, n: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, width)) * (rng.random((n, width)) < 0.5)
    labels = rng.normal(size=n)
    text = "\n".join(
        " ".join([repr(float(y)), *(f"{j + 1}:{float(row[j])!r}" for j in np.flatnonzero(row))])
        for y, row in zip(labels, table)
    )
    features, read = parse(text, width)
    np.testing.assert_array_equal(features.toarray(), table)
    np.testing.assert_array_equal(read, labels)
