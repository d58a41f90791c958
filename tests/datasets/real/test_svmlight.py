"""The svmlight parser on small texts, against tables written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.datasets.real.svmlight import parse


def test_indices_count_from_one_and_what_is_not_named_is_zero() -> None:
    features, labels = parse("+1 1:2 3:-0.5 \n# nothing\n\n-1\n2.5 2:1e-3 4:.25 # a comment 9:9\n", 4)
    np.testing.assert_array_equal(features.toarray(), [[2, 0, -0.5, 0], [0, 0, 0, 0], [0, 1e-3, 0, 0.25]])
    np.testing.assert_array_equal(labels, [1, -1, 2.5])
    assert features.has_canonical_format


def test_the_width_is_what_was_stated_even_where_the_last_columns_are_empty() -> None:
    assert parse("1 1:1", 7)[0].shape == (1, 7)
    assert parse("1\n-1", 3)[0].nnz == 0


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


@pytest.mark.parametrize(
    "line",
    ["", "1:1", "1 2", "1 a:1", "1 1:", "1 1::1", "1 qid:3 1:1", "nan 1:1", "1 1:nan", "1 -1:1", "1 1.5:1", "x"],
)
def test_a_line_of_another_form_is_named(line: str) -> None:
    text = f"1 1:1\n{line}\n" if line else "\n# nothing\n"
    with pytest.raises(ValueError, match=r"line 2 of the svmlight text is|holds no row"):
        parse(text, 3)


@pytest.mark.parametrize("line", ["1 0:1", "1 4:1", "1 2:1 2:1", "1 2:1 1:1", "1 1:1e999", "1e999"])
def test_an_index_or_number_out_of_range_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=r"line 3 of the svmlight text must hold finite numbers"):
        parse(f"1 3:1\n\n{line}\n1 1:1", 3)


def test_a_width_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="n_features is 0, wanted a whole number of at least 1"):
        parse("1 1:1", 0)
