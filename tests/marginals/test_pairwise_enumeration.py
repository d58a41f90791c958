"""All labellings written out: each once, with its features and its loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.features.graphs.pairwise_loss import read_loss
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise, n_labellings
from convexstruct.tolerances import ROUNDING
from tests.features.graphs.labelled_graphs import by_definition, labelled_graphs


@settings(max_examples=40, deadline=None, derandomize=True)
@given(labelled_graphs(), st.integers(0, 2**32 - 1), st.sampled_from(["hamming", "zero_one"]))
def test_every_labelling_stands_there_once_with_its_features_and_its_loss(
    features: PairwiseFeatures, seed: int, kind: str
) -> None:
    loss = read_loss(kind, features)
    every = enumerate_pairwise(features, loss)
    sizes = [features.n_labels ** int(n) for n in features.lengths]
    assert every.n_rows == n_labellings(features) == sum(sizes)
    np.testing.assert_array_equal(every.example, np.repeat(np.arange(features.n_examples), sizes))
    w = np.random.default_rng(seed).normal(size=features.dimension)
    scores, margins = every.joint @ w, every.difference @ w
    for i in range(features.n_examples):
        rows = np.flatnonzero(every.example == i)
        assert len({tuple(every.labels[r]) for r in rows}) == len(rows)
        true = features.truth[features.node_start[i] : features.node_start[i + 1]]
        np.testing.assert_array_equal(every.labels[every.truth[i]], true)
        for r in rows[:: max(1, len(rows) // 9)]:
            score = by_definition(features, w, i, every.labels[r])
            assert scores[r] == pytest.approx(score, rel=ROUNDING, abs=ROUNDING)
            assert margins[r] == pytest.approx(by_definition(features, w, i, true) - score, abs=1e3 * ROUNDING)
            wrong = every.labels[r] != true
            assert every.loss[r] == (float(wrong.any()) if kind == "zero_one" else wrong.sum())


def test_too_many_labellings_are_refused_with_their_exact_number() -> None:
    features = read_pairwise(np.ones((52, 1)), [np.zeros(50, dtype=int), [0, 1]], 4)
    assert n_labellings(features) == 4**50 + 16  # beyond 64 bits
    loss = read_loss("hamming", features)
    with pytest.raises(
        ValueError, match=f"{4**50 + 16} labellings, wanted at most {MOST_LABELLINGS} .*'marginals'.*'n_slack_cuts'"
    ):
        enumerate_pairwise(features, loss)
    part = features.some([1])
    with pytest.raises(ValueError, match="16 labellings, wanted at most 15"):
        enumerate_pairwise(part, read_loss("hamming", part), limit=15)
    assert enumerate_pairwise(part, read_loss("hamming", part), limit=16).n_rows == 16
