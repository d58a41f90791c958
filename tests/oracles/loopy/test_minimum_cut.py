"""Minimum cuts against brute force, and against junction trees where that is too much."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct import deadline
from convexstruct.junction_trees import junction_tree
from convexstruct.oracles import enumeration
from convexstruct.oracles.loopy import minimum_cut
from convexstruct.oracles.loopy.pairwise import Pairwise, pairwise
from convexstruct.oracles.tree import junction_tree as jt
from convexstruct.tolerances import LOW, ROUNDING
from tests.oracles.loopy.test_pairwise import parts_of, random_edges

#: What is left after rounds to the end: well below `ROUNDING`.
NOTHING = 1e-3 * ROUNDING
EXAMPLES = settings(max_examples=120, deadline=None, derandomize=True)


@st.composite
def associative(draw: st.DrawFn, integers: bool) -> Pairwise:
    """Graphs of two labels side by side, with tables that a minimum cut can take: any diagonal above any others."""
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    shared = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges, part = random_edges(rng, sizes)
    scale = draw(st.sampled_from([1.0, 1e-6, 1e6]))

    def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return rng.integers(-2, 3, size=shape).astype(float) if integers else scale * rng.normal(size=shape)

    table = drawn(2, 2) if shared else drawn(len(edges), 2, 2)
    missing = table[..., 0, 1] + table[..., 1, 0] - table[..., 0, 0] - table[..., 1, 1]
    table[..., 0, 0] += np.maximum(missing, 0.0)
    return pairwise(drawn(len(part), 2), edges, table, part)


def grid(rows: int, columns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    nodes = np.arange(rows * columns).reshape(rows, columns)
    across = np.column_stack((nodes[:, :-1].ravel(), nodes[:, 1:].ravel()))
    return np.concatenate((across, np.column_stack((nodes[:-1].ravel(), nodes[1:].ravel()))))


@pytest.mark.parametrize("large", [10**9, 0])
@given(data=st.data(), integers=st.booleans())
@EXAMPLES
def test_a_cut_is_the_best_labelling_and_its_flow_proves_it(large: int, data: st.DataObject, integers: bool) -> None:
    """Among ties of whole numbers it is the smallest labelling."""
    scores = data.draw(associative(integers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimum_cut, "GRADIENT_FROM", large)  # with and without a start by gradient steps
        cut = minimum_cut.minimum_cut(scores, tol=0.0)
    size = 0.0 if integers else np.abs(scores.node).sum() + np.abs(scores.edge).sum()
    np.testing.assert_array_equal(cut.scores, scores.score(cut.labels))
    for k, (cards, factors, nodes) in enumerate(parts_of(scores)):
        best, labelling = enumeration.best(cards, factors)
        assert cut.scores[k] == pytest.approx(best, rel=0.0 if integers else ROUNDING, abs=ROUNDING * size)
        assert abs(cut.upper[k] - best) <= NOTHING * size
        if integers:
            np.testing.assert_array_equal(cut.labels[nodes], labelling)
    assert (cut.upper >= cut.scores).all()


@pytest.mark.parametrize(("large", "weight"), [(10**9, 0.4), (10**9, 1.5), (0, 0.4), (0, 1.5)])
def test_a_grid_too_large_to_write_out_agrees_with_its_junction_tree(
    large: int, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minimum_cut, "GRADIENT_FROM", large)
    rng = np.random.default_rng(4)
    edges = grid(30, 7)
    node, edge = rng.normal(size=(210, 2)), weight * rng.random(len(edges))
    scores = pairwise(node, edges, edge[:, None, None] * np.eye(2))
    cut = minimum_cut.minimum_cut(scores, tol=0.0)
    quick = minimum_cut.minimum_cut(scores)
    graph = nx.Graph(edges.tolist())
    tree = junction_tree(graph, [2] * 210)
    factors: list[jt.Factor] = [((v,), node[None, v]) for v in range(210)]
    factors += [((int(u), int(v)), (w * np.eye(2))[None]) for (u, v), w in zip(edges, edge)]
    score, labels = jt.best(tree, factors, 1)
    assert cut.scores[0] == pytest.approx(score[0], rel=ROUNDING)
    assert cut.upper[0] == pytest.approx(score[0], rel=ROUNDING)
    np.testing.assert_array_equal(cut.labels, labels[0])
    size = np.abs(node[:, 0] - node[:, 1]).sum() + edge.sum()
    assert quick.scores[0] <= score[0] + ROUNDING
    assert cut.upper[0] - ROUNDING <= quick.upper[0] <= quick.scores[0] + ROUNDING * size


def test_the_bound_holds_after_the_coarsest_flow() -> None:
    rng = np.random.default_rng(7)
    edges = grid(6, 6)
    scores = pairwise(rng.normal(size=(36, 2)), edges, rng.random(len(edges))[:, None, None] * np.eye(2))
    best = minimum_cut.minimum_cut(scores, tol=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimum_cut, "BITS", 3)  # capacities of 0 to 7 units
        coarse = minimum_cut.minimum_cut(scores, tol=0.5)  # one round is enough for this
    assert coarse.scores[0] <= best.scores[0] <= coarse.upper[0]
    assert coarse.upper[0] > coarse.scores[0] + LOW.gap  # what the scaling may have cost is said


@pytest.mark.parametrize("large", [10**9, 0])
def test_scores_whose_sums_overflow_end_the_search(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimum_cut, "GRADIENT_FROM", large)
    node = np.array([[0.0, 1.7e308], [0.0, 1.7e308], [1.7e308, 0.0], [1.7e308, 0.0]])
    with np.errstate(all="ignore"):
        cut = minimum_cut.minimum_cut(pairwise(node, [[0, 1], [1, 2], [2, 3]], 1e308 * np.eye(2)))
    assert not cut.upper[0] < 6.8e308  # no bound below the greatest score, which is infinite in double precision


def test_capacities_at_the_limit_of_32_bits_do_not_overflow() -> None:
    # a hub that everything flows through, all of the greatest capacity
    n = 60
    node = np.zeros((2 * n + 1, 2))
    node[:n, 0], node[n : 2 * n, 1] = 1.0, 1.0
    edges = np.column_stack((np.arange(2 * n), np.full(2 * n, 2 * n)))
    cut = minimum_cut.minimum_cut(pairwise(node, edges, (1.0 - 1e-12) * np.eye(2)), tol=0.0)
    assert cut.upper[0] - cut.scores[0] <= NOTHING * n
    assert cut.scores[0] == pytest.approx(3 * n, rel=ROUNDING)


def test_an_edge_that_is_not_associative_is_named() -> None:
    node, edges = np.zeros((3, 2)), [[0, 1], [2, 1]]
    with pytest.raises(ValueError, match=r"edges\[1\] = \(2, 1\) is not associative: equal labels score 1 less"):
        minimum_cut.minimum_cut(pairwise(node, edges, [[[0, 0], [0, 0]], [[0, 1], [0, 0]]]))
    with pytest.raises(ValueError, match="node has 3 labels, wanted 2"):
        minimum_cut.minimum_cut(pairwise(np.zeros((1, 3)), [], np.zeros((3, 3))))


def test_a_cut_obeys_the_deadline() -> None:
    with deadline.within(0.0), pytest.raises(deadline.DeadlinePassed):
        minimum_cut.minimum_cut(pairwise(np.zeros((2, 2)), np.array([[0, 1]]), np.eye(2)))
