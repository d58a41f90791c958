"""Losses of labellings: sums of node costs, or zero-one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.features.graphs.pairwise_loss import read_loss
from convexstruct.oracles.enumeration import labellings
from convexstruct.rounding import UNIT
from convexstruct.tolerances import ROUNDING
from tests.features.graphs.labelled_graphs import labelled_graphs

COSTS = np.array([[0.0, 1.0, 2.5], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])


def tables(features: PairwiseFeatures, seed: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, 5, size=(features.n_nodes, features.n_labels)) * 0.25
    costs[np.arange(features.n_nodes), features.truth] = 0.0
    return np.split(costs, features.node_start[1:-1])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(labelled_graphs(), st.integers(0, 2**32 - 1), st.sampled_from(["hamming", "zero_one", "matrix", "tables"]))
def test_the_loss_of_every_labelling_is_summed_node_by_node(features: PairwiseFeatures, seed: int, kind: str) -> None:
    size = features.n_labels
    given: Any = {"matrix": COSTS[:size, :size], "tables": tables(features, seed)}.get(kind, kind)
    loss = read_loss(given, features)
    y = np.random.default_rng(seed).integers(size, size=features.n_nodes)
    found, most = loss.of(y), np.zeros(features.n_examples)
    for i in range(features.n_examples):
        nodes = np.arange(features.node_start[i], features.node_start[i + 1])
        true = features.truth[nodes]

        def by_hand(labels: Any, nodes: Any = nodes, true: Any = true, i: int = i) -> float:
            if kind == "zero_one":
                return float((labels != true).any())
            if kind == "hamming":
                return float((labels != true).sum())
            cost = given[i][np.arange(len(nodes)), labels] if kind == "tables" else COSTS[true, labels]
            return float(cost.sum())

        assert found[i] == pytest.approx(by_hand(y[nodes]), abs=ROUNDING)
        most[i] = max(by_hand(labels) for labels in labellings([size] * len(nodes)))
    np.testing.assert_allclose(loss.most, most, atol=ROUNDING)
    assert (loss.of(features.truth) == 0).all()
    if kind != "zero_one":
        numbered = loss.numbered
        totals = np.bincount(features.example, weights=numbered.steps[np.arange(len(y)), y]).astype(int)
        rows = np.arange(features.n_examples) if len(numbered.values) > 1 else 0
        np.testing.assert_allclose(numbered.values[rows, totals], found, rtol=8 * UNIT + numbered.deviation)


def test_the_loss_of_some_examples_is_theirs() -> None:
    features = read_pairwise(np.ones((6, 1)), [[0, 1], [2], [1, 1, 0]])
    for kind in ("zero_one", COSTS):
        loss = read_loss(kind, features)
        part = loss.some(features.some([2, 0]), np.array([3, 4, 5, 0, 1], dtype=np.intp))
        y = np.array([2, 1, 0, 0, 2])
        np.testing.assert_allclose(part.of(y), loss.of(np.array([0, 2, 0, 2, 1, 0]))[[2, 0]])
