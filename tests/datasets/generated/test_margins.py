from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.datasets.generated.margins import dense_margins, sparse_margins
from convexstruct.tolerances import ROUNDING


def test_a_dense_set_is_what_was_asked_for() -> None:
    made = dense_margins(4000, 20, flips=0.1, positives=0.3, seed=0)
    assert made.features.shape == (4000, 20)
    assert set(made.labels) == {-1, 1}
    right = np.sign(made.features @ made.w + made.bias)
    assert (right > 0).mean() == pytest.approx(0.3, abs=1e-3)
    assert (right != made.labels).mean() == pytest.approx(0.1)
    lengths = np.square(made.features).sum(axis=1)
    assert lengths.mean() == pytest.approx(1.0, abs=5 * lengths.std() / np.sqrt(4000))
    spread = np.square(made.features).mean(axis=0)
    assert spread[0] / spread[9] == pytest.approx(10.0, rel=0.2)


def test_a_sparse_set_has_rows_of_length_one_and_popular_columns() -> None:
    made = sparse_margins(2000, 500, words=20, flips=0.0, positives=0.5, seed=0)
    assert isinstance(made.features, sp.csr_array)
    assert made.features.shape == (2000, 500)
    np.testing.assert_allclose(made.features.power(2).sum(axis=1), 1.0, rtol=ROUNDING)
    assert np.diff(made.features.indptr).max() <= 20
    assert made.features.has_canonical_format
    used = np.bincount(made.features.indices, minlength=500)
    assert used[:10].mean() > 5 * used[-100:].mean()
    np.testing.assert_array_equal(np.sign(made.features @ made.w + made.bias), made.labels)


def test_one_row_and_one_word_are_enough() -> None:
    assert dense_margins(1, 1).features.shape == (1, 1)
    made = sparse_margins(1, 1, words=1)
    assert sp.csr_array(made.features).toarray() == [[1.0]]
