"""The parts of the experiment on scenes, on made-up labels that depend on each other."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from convexstruct.datasets.real.scene import N_FEATURES
from convexstruct.families.structured_svm.experiments import scene
from convexstruct.tolerances import ROUNDING
from tests.families.quick_runs import scenes as made_up


def test_the_tree_is_that_of_networkx_and_the_information_that_of_entropies() -> None:
    labels = np.random.default_rng(0).integers(0, 2, (40, 5))
    labels[:, 3] = labels[:, 0] ^ (np.arange(40) % 7 == 0)
    information = scene.mutual_information(labels)

    def entropy(columns: list[int]) -> float:
        share = np.unique(labels[:, columns], axis=0, return_counts=True)[1] / len(labels)
        return float(-(share * np.log(share)).sum())

    graph = nx.Graph()
    for i, j in combinations(range(5), 2):
        expected = entropy([i]) + entropy([j]) - entropy([i, j])
        assert information[i, j] == pytest.approx(expected, abs=ROUNDING)
        graph.add_edge(i, j, weight=expected)
    expected_tree = sorted(tuple(sorted(edge)) for edge in nx.maximum_spanning_tree(graph).edges)
    assert [tuple(edge) for edge in scene.spanning_tree(labels)] == expected_tree


def test_a_node_sees_the_image_at_its_own_place_and_an_edge_its_pair() -> None:
    scenes = made_up(3, 1)
    pairs = scene.edges("full", scenes.labels)
    g = scenes.graphs(pairs)
    nodes = g.node_features.toarray().reshape(3, 6, 6, N_FEATURES + 1)
    for i, k, other in np.ndindex(3, 6, 6):
        expected = np.append(scenes.features[i], 1.0) if k == other else np.zeros(N_FEATURES + 1)
        np.testing.assert_array_equal(nodes[i, k, other], expected)
    assert g.edge_features is not None
    np.testing.assert_array_equal(g.edge_features, np.tile(np.eye(15), (3, 1)))
    assert all(np.array_equal(each, pairs) for each in g.edges_each)
    assert scene.edges("independent", scenes.labels).shape == (0, 2)
