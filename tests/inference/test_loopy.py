"""Oracles for graphs too wide for a junction tree, on graphs small enough to write all labellings out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.inference.exact import Best, exact_inference
from convexstruct.inference.loopy import MAXIMISE, cut_inference, expansion_inference, relaxed_inference
from convexstruct.oracles import enumeration
from convexstruct.tolerances import HIGH, ROUNDING
from tests.features.graphs.labelled_graphs import drawn_scores, labelled, truth_of

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


def check_scores(features: PairwiseFeatures, node: Any, edge: Any, found: Best) -> list[float]:
    """``scores`` are those of ``labels``; returns the greatest ones."""
    greatest = []
    for i, y in enumerate(np.split(found.labels, features.node_start[1:-1])):
        truth = truth_of(features, node, edge, i)
        values = enumeration.scores(*truth)
        at = int(np.flatnonzero((enumeration.labellings(truth[0]) == y).all(axis=1))[0])
        assert found.scores[i] == pytest.approx(values[at], rel=ROUNDING, abs=ROUNDING)
        greatest.append(float(values.max()))
    return greatest


@given(SEEDS)
@EXAMPLES
def test_minimum_cuts_find_the_best_of_all_labellings(seed: int) -> None:
    features, node, edge = associative(seed, 2)
    oracle = cut_inference(features)
    assert oracle.exact
    found = oracle.best(node, edge)
    greatest = check_scores(features, node, edge, found)
    np.testing.assert_allclose(found.scores, greatest, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(found.upper, greatest, rtol=HIGH.gap, atol=HIGH.gap)
    assert (found.upper >= found.scores).all()


@given(SEEDS, st.integers(2, 3))
@EXAMPLES
def test_expansions_yield_a_labelling_and_a_bound_above_the_best(seed: int, n_labels: int) -> None:
    features, node, edge = associative(seed, n_labels)
    oracle = expansion_inference(features)
    assert not oracle.exact
    found = oracle.best(node, edge)
    greatest = np.array(check_scores(features, node, edge, found))
    slack = HIGH.gap * np.maximum(1.0, np.abs(greatest))
    assert (found.scores <= greatest + slack).all()
    assert (found.upper >= greatest - slack).all()
    if n_labels == 2:  # one expansion is a minimum cut
        np.testing.assert_allclose(found.scores, greatest, rtol=ROUNDING, atol=ROUNDING)


def test_where_expansions_miss_the_best_labelling_the_bound_says_so() -> None:
    graph = nx.Graph([(0, 1), (0, 3), (0, 4), (1, 2), (2, 3), (2, 4), (3, 4)])
    features = read_pairwise(np.ones((5, 1)), [[0] * 5], 3, [graph], associative=True)
    node = np.array([[1, 3, 2], [3, 2, 0], [0, 1, 3], [0, 1, 1], [1, 1, 2]], dtype=float)
    found = expansion_inference(features).best(node, np.eye(3))
    (greatest,) = check_scores(features, node, np.eye(3), found)
    assert found.scores[0] == greatest - 1.0
    assert found.upper[0] >= greatest - HIGH.gap * greatest


@given(SEEDS, st.sampled_from(["graph", "forest"]), st.integers(1, 3))
@EXAMPLES
def test_the_local_polytope_bounds_the_best_from_above_and_forests_exactly(seed: int, kind: str, n_labels: int) -> None:
    rng = np.random.default_rng(seed)
    features = labelled(rng, kind, 2, 4, n_labels, n_edge_features=int(rng.integers(0, 2)))
    node, edge = drawn_scores(features, rng)
    oracle = relaxed_inference(features)
    assert oracle.relaxed
    found = oracle.best(node, edge)
    greatest = np.array(check_scores(features, node, edge, found))
    slack = HIGH.gap * np.maximum(1.0, np.abs(greatest))
    assert (found.upper >= greatest - slack).all()
    if kind == "forest":
        assert (found.upper <= greatest + slack).all()


def test_on_a_frustrated_triangle_the_local_polytope_lies_strictly_above() -> None:
    features = read_pairwise(np.ones((3, 1)), [[0, 0, 1]], edges=[nx.cycle_graph(3)])
    node, edge = np.zeros((3, 2)), 1.0 - np.eye(2)  # a point for each edge whose ends differ
    assert exact_inference(features).best(node, edge).scores == pytest.approx([2.0])
    found = relaxed_inference(features).best(node, edge)
    assert found.upper == pytest.approx([3.0], rel=HIGH.gap)
    assert found.scores <= 2.0  # what it is rounded to is a labelling, the best or not


def test_what_is_not_associative_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="'minimum_cut' came with a network that is not associative, wanted"):
        cut_inference(labelled(rng, n_labels=2))
    with pytest.raises(ValueError, match="'minimum_cut' came with 3 labels, wanted two, or 'expansion'"):
        cut_inference(labelled(rng, n_labels=3, associative=True))
    with pytest.raises(ValueError, match="'expansion' came with a network that is not associative, wanted"):
        expansion_inference(labelled(rng))


@pytest.mark.parametrize("name", MAXIMISE)
def test_what_would_need_sums_is_refused_by_name(name: str) -> None:
    features, node, edge = associative(0, 2)
    makers = {"minimum_cut": cut_inference, "expansion": expansion_inference, "relaxed": relaxed_inference}
    oracle = makers[name](features)
    assert oracle.name == name
    assert not oracle.summable
    zero = np.zeros(node.shape, dtype=np.int64)
    asked: dict[str, Callable[[], Any]] = {
        "sums over labellings": lambda: oracle.sums(node, edge),
        "second best": lambda: oracle.two_best(node, edge),
        "by their loss": lambda: oracle.by_loss(node, edge, zero),
        "samples": lambda: oracle.sample(node, edge, np.random.default_rng(0)),
    }
    for what, ask in asked.items():
        with pytest.raises(ValueError, match=f"inference is '{name}', which has no .*{what}.*, wanted 'exact'"):
            ask()
