"""Forests level by level: what enumeration over labelled graphs (`tests/inference/test_exact.py`) does not reach."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from convexstruct.oracles.tree import forest
from convexstruct.tolerances import ROUNDING


@pytest.mark.parametrize("scale", [1e-8, 1e3, 1e8])
def test_sums_are_exact_at_any_scale_of_the_scores(scale: float) -> None:
    rng = np.random.default_rng(7)
    edges = np.array(nx.random_labeled_tree(9, seed=1).edges)
    layout = forest.forest(9, edges)
    node, edge = scale * rng.normal(size=(9, 3)), scale * rng.normal(size=(8, 3, 3))
    sums, found = forest.sum_product(layout, node, edge), forest.best(layout, node, edge)
    np.testing.assert_allclose(sums.node.sum(axis=1), 1.0, atol=ROUNDING)
    if scale > 1:
        np.testing.assert_array_equal(sums.node.argmax(axis=1), found.labels)
        assert sums.log_partition[0] == pytest.approx(found.scores[0], rel=1e-2)
    else:
        assert sums.log_partition[0] == pytest.approx(9 * np.log(3))


def test_forbidden_labels_get_no_weight_and_a_tree_without_any_is_refused() -> None:
    layout = forest.forest(2, [[0, 1]])
    node = np.array([[0.0, -np.inf], [0.0, 0.0]])
    sums = forest.sum_product(layout, node, np.zeros((2, 2)))
    np.testing.assert_allclose(sums.node, [[1.0, 0.0], [0.5, 0.5]])
    with pytest.raises(ValueError, match="scores forbid every labelling of tree 0"):
        forest.sum_product(layout, np.full((2, 2), -np.inf), np.zeros((2, 2)))
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="scores overflow on tree 0"):
        forest.sum_product(layout, np.full((2, 2), -1.7e308), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="edges close a cycle"):
        forest.forest(3, [[0, 1], [1, 2], [2, 0]])
