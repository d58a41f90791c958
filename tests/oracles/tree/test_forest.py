"""Forests level by level against all labellings written out, and against junction trees at scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from convexstruct.arrays import Tensor
from convexstruct.oracles import enumeration
from convexstruct.oracles.tree import forest
from convexstruct.tolerances import ROUNDING
from tests.oracles.tree.test_junction_tree import score


def random_forest(rng: np.random.Generator, n: int, joined: float = 0.8) -> NDArray[np.intp]:
    """Edges of a random forest on n nodes in random order and direction."""
    order = rng.permutation(n)
    pairs = [(order[i], order[rng.integers(i)]) for i in range(1, n) if rng.random() < joined]
    turned = [pair if rng.random() < 0.5 else pair[::-1] for pair in pairs]
    return np.array(turned, dtype=np.intp).reshape(-1, 2)


def factors(node: Tensor, edge: Tensor, edges: NDArray[np.intp]) -> list[enumeration.Factor]:
    of_nodes: list[enumeration.Factor] = [((v,), node[v]) for v in range(len(node))]
    return of_nodes + [
        ((int(u), int(v)), edge if edge.ndim == 2 else edge[k]) for k, (u, v) in enumerate(edges.tolist())
    ]


def drawn(seed: int, shared: bool, ties: bool) -> tuple[NDArray[np.intp], Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    n, s = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    edges = random_forest(rng, n)

    def draw(*shape: int) -> Tensor:
        return np.asarray(rng.integers(0, 2, shape) if ties else rng.normal(size=shape), dtype=np.float64)

    return edges, draw(n, s), draw(s, s) if shared else draw(len(edges), s, s)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_best_and_sums_are_those_of_enumeration(seed: int, shared: bool, ties: bool) -> None:
    edges, node, edge = drawn(seed, shared, ties)
    n, s = node.shape
    layout = forest.forest(n, edges)
    every = factors(node, edge, edges)
    value, _ = enumeration.best([s] * n, every)
    found = forest.best(layout, node, edge)
    assert found.scores.sum() == pytest.approx(value, abs=ROUNDING)
    assert score(found.labels, [s] * n, every) == pytest.approx(value, abs=ROUNDING)
    sums = forest.sum_product(layout, node, edge)
    assert sums.log_partition.sum() == pytest.approx(enumeration.log_partition([s] * n, every), abs=ROUNDING)
    for v in range(n):
        np.testing.assert_allclose(sums.node[v], enumeration.marginal([s] * n, every, (v,)), atol=ROUNDING)
    for k, (u, v) in enumerate(edges.tolist()):
        np.testing.assert_allclose(sums.edge[k], enumeration.marginal([s] * n, every, (u, v)), atol=ROUNDING)


def test_sums_are_exact_at_any_scale_of_the_scores() -> None:
    edges, node, edge = drawn(7, shared=False, ties=False)
    layout = forest.forest(len(node), edges)
    for scale in (1e-8, 1e3, 1e8):
        sums = forest.sum_product(layout, scale * node, scale * edge)
        np.testing.assert_allclose(sums.node.sum(axis=1), 1.0, atol=ROUNDING)
        if scale > 1:
            best = forest.best(layout, scale * node, scale * edge)
            np.testing.assert_array_equal(sums.node.argmax(axis=1), best.labels)


def test_forbidden_labels_get_no_weight_and_a_tree_without_any_is_refused() -> None:
    layout = forest.forest(2, [[0, 1]])
    node = np.array([[0.0, -np.inf], [0.0, 0.0]])
    sums = forest.sum_product(layout, node, np.zeros((2, 2)))
    np.testing.assert_allclose(sums.node, [[1.0, 0.0], [0.5, 0.5]])
    with pytest.raises(ValueError, match="scores forbid every labelling of tree 0"):
        forest.sum_product(layout, np.full((2, 2), -np.inf), np.zeros((2, 2)))


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="edges close a cycle"):
        forest.forest(3, [[0, 1], [1, 2], [2, 0]])


def test_samples_come_as_often_as_they_are_probable() -> None:
    edges, node, edge = drawn(3, shared=False, ties=False)
    layout = forest.forest(len(node), edges)
    rng = np.random.default_rng(0)
    draws = np.array([forest.sample(layout, node, edge, rng) for _ in range(4000)])
    posterior = forest.sum_product(layout, node, edge).node
    for v in range(len(node)):
        share = np.bincount(draws[:, v], minlength=node.shape[1]) / len(draws)
        np.testing.assert_allclose(share, posterior[v], atol=0.04)
