"""Mixtures of labellings as arrays: what is written is read back as what it was, and what is none is seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.mixtures import label_type, of_single_labellings, outside_simplex, read_mixture


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(2, 200))
def test_what_is_written_has_each_labelling_with_its_share_and_the_truth_elsewhere(
    seed: int, n_examples: int, n_labels: int
) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, size=n_examples)
    start = np.concatenate(([0], np.cumsum(lengths)))
    truth = rng.integers(n_labels, size=start[-1]).astype(label_type(n_labels))
    example = np.repeat(np.arange(n_examples), rng.integers(0, 4, size=n_examples))
    labels = [rng.integers(n_labels, size=lengths[i]) for i in example]
    shares = rng.random(len(example)) * (rng.random(len(example)) < 0.7)
    witness = of_single_labellings(truth, start, labels, example, shares)
    found = read_mixture(witness, n_examples, 7, np.full(start[-1], n_labels))
    assert found.labels.dtype == truth.dtype
    for i in range(n_examples):
        own = slice(start[i], start[i + 1])
        wanted = [(tuple(labels[j].tolist()), shares[j]) for j in np.flatnonzero((example == i) & (shares > 0))]
        rows = zip(found.labels[:, own].tolist(), found.label_shares[:, i])
        assert [(tuple(row), share) for row, share in rows if share > 0] == wanted
        assert (found.labels[found.label_shares[:, i] == 0][:, own] == truth[own]).all()
    assert found.gibbs.shape == (0, 7)


def test_shares_that_are_negative_or_sum_to_more_than_one_are_outside_the_simplex() -> None:
    none = np.zeros((0, 2))
    assert outside_simplex([], none) == 0.0
    assert outside_simplex([none], none, np.array([[0.5, 1.0], [0.5, 0.0]])) == 0.0
    assert outside_simplex([], np.array([[0.5, -0.25]]), none) == 0.25
    assert outside_simplex([], np.array([[0.75, 0.0]]), np.array([[0.5, 0.0]])) == 0.25
    assert outside_simplex([np.array([np.nan])], none) == np.inf


@pytest.mark.parametrize(("n_labels", "size"), [(2, 1), (128, 1), (129, 2), (2**15, 2), (2**15 + 1, 4)])
def test_labels_are_kept_in_the_smallest_type_that_holds_them(n_labels: int, size: int) -> None:
    assert label_type(n_labels).itemsize == size
    assert np.array(n_labels - 1).astype(label_type(n_labels)) == n_labels - 1
