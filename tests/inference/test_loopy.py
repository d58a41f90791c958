"""Oracles for graphs too wide for a junction tree, on graphs small enough to write all labellings out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.loopy import MAXIMISE, choose_oracle
from convexstruct.oracles import enumeration
from convexstruct.tolerances import HIGH, ROUNDING
from tests.features.graphs.labelled_graphs import drawn_scores, labelled, truth_of
from tests.oracles.tree.test_junction_tree import score

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)


def associative(seed: int, n_labels: int) -> tuple[PairwiseFeatures, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Any graphs, with scores (node, edge) that reward agreement; whole numbers in half of the draws, so that there are
    ties."""
    rng = np.random.default_rng(seed)
    features = labelled(
        rng, "graph", int(rng.integers(1, 4)), 5, n_labels, n_edge_features=int(rng.integers(0, 3)), associative=True
    )
    w = rng.normal(size=features.dimension)
    w[features.nonnegative] = np.abs(w[features.nonnegative])
    edge = features.edge_scores(w)
    node = drawn_scores(features, rng, whole=seed % 2 == 0)[0]
    return features, node, np.rint(edge) if seed % 2 == 0 else edge


@pytest.mark.parametrize("name", MAXIMISE)
@given(SEEDS, st.integers(2, 3))
@EXAMPLES
def test_a_labelling_and_a_bound_enclose_the_best_of_all(name: str, seed: int, n_labels: int) -> None:
    """Minimum cuts find it."""
    features, node, edge = associative(seed, 2 if name == "minimum_cut" else n_labels)
    oracle = choose_oracle(features, name)
    found = oracle.best(node, edge)
    greatest = np.empty(features.n_examples)
    for i, y in enumerate(features.split_labels(found.labels)):
        truth = truth_of(features, node, edge, i)
        assert found.scores[i] == pytest.approx(score(y, *truth), rel=ROUNDING, abs=ROUNDING)
        greatest[i] = enumeration.scores(*truth).max()
    slack = HIGH.gap * np.maximum(1.0, np.abs(greatest))
    assert (found.scores <= found.upper).all()
    assert (found.scores <= greatest + slack).all()
    assert (found.upper >= greatest - slack).all()
    if name == "minimum_cut":
        assert (found.upper <= greatest + slack).all()
        np.testing.assert_allclose(found.scores, greatest, rtol=ROUNDING, atol=ROUNDING)
    assert oracle.relaxed == (name == "relaxed")


@pytest.mark.parametrize("name", MAXIMISE)
def test_what_would_need_sums_is_refused_by_name(name: str) -> None:
    features, node, edge = associative(0, 2)
    oracle = choose_oracle(features, name)
    assert not oracle.summable
    zero = np.zeros(node.shape, dtype=np.int64)
    asked: dict[str, Callable[[], Any]] = {
        "sums over labellings": lambda: oracle.sums(node, edge),
        "max-marginals": lambda: oracle.max_marginals(node, edge),
        "by their loss": lambda: oracle.by_loss(node, edge, zero),
        "samples": lambda: oracle.sample(node, edge, np.random.default_rng(0)),
    }
    for what, ask in asked.items():
        with pytest.raises(ValueError, match=f"inference is '{name}', which has no .*{what}.*, wanted 'exact'"):
            ask()
