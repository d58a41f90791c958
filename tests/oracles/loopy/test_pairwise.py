"""Score tables on any graph: scores and bounds against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from convexstruct.oracles import enumeration
from convexstruct.oracles.loopy.pairwise import Pairwise, pairwise
from convexstruct.tolerances import ROUNDING

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True)


def random_edges(rng: np.random.Generator, sizes: list[int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Edges inside parts of the given sizes, either way round, some twice, in any order; and the part of each node."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    u, v = np.nonzero((part[:, None] == part) & ~np.eye(len(part), dtype=bool))
    chosen = np.flatnonzero(rng.random(len(u)) < rng.uniform(0.2, 0.6))
    return np.column_stack((u, v))[rng.permutation(chosen)], part


def parts_of(scores: Pairwise) -> list[tuple[list[int], list[enumeration.Factor], NDArray[np.intp]]]:
    """Each part as brute force takes it (cards, factors), and its nodes."""
    found = []
    for part in range(scores.n_parts):
        nodes = np.flatnonzero(scores.part == part)
        factors: list[enumeration.Factor] = [((i,), scores.node[v]) for i, v in enumerate(nodes)]
        for e in np.flatnonzero(scores.edge_part == part):
            u, v = np.searchsorted(nodes, scores.edges[e])
            factors.append(((int(u), int(v)), scores.edge[e]))
        found.append(([scores.n_labels] * len(nodes), factors, nodes))
    return found


@st.composite
def graphs(draw: st.DrawFn, max_labels: int = 3, integers: bool = False) -> Pairwise:
    """One to three graphs of 1 to 5 nodes with cycles, side by side; whole scores make ties."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    n_labels = draw(st.integers(1, max_labels))
    shared = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges, part = random_edges(rng, sizes)
    shape = (n_labels, n_labels) if shared else (len(edges), n_labels, n_labels)

    def drawn(shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.integers(-2, 3, size=shape).astype(float) if integers else rng.normal(size=shape)

    return pairwise(drawn((len(part), n_labels)), edges, drawn(shape), part)


@given(graphs())
@EXAMPLES
def test_the_score_of_each_part_is_the_sum_of_its_tables(scores: Pairwise) -> None:
    labels = np.random.default_rng(0).integers(0, scores.n_labels, size=scores.n_nodes)
    found = scores.score(labels)
    for k, (cards, factors, nodes) in enumerate(parts_of(scores)):
        at = np.flatnonzero((enumeration.labellings(cards) == labels[nodes]).all(axis=1))[0]
        assert found[k] == pytest.approx(enumeration.scores(cards, factors)[at], rel=ROUNDING, abs=ROUNDING)


@given(graphs(max_labels=6), st.sampled_from([0.0, 1.0, 100.0]))
@EXAMPLES
def test_any_messages_give_a_bound_and_those_of_zero_the_sum_of_the_greatest_entries(
    scores: Pairwise, scale: float
) -> None:
    messages = scale * np.random.default_rng(1).normal(size=(scores.n_edges, 2, scores.n_labels))
    upper = scores.upper(messages)
    moved = scores.node.copy()
    for end in range(2):
        np.add.at(moved, scores.edges[:, end], messages[:, end])
    left = scores.edge - messages[:, 0, :, None] - messages[:, 1, None, :]
    expected = scores.by_part(moved.max(axis=1), left.max(axis=(1, 2)))
    np.testing.assert_allclose(upper, expected, rtol=ROUNDING, atol=ROUNDING * max(scale, 1.0))
    for k, (cards, factors, _) in enumerate(parts_of(scores)):
        assert upper[k] >= enumeration.best(cards, factors)[0] - ROUNDING * max(scale, 1.0)
    if not scale:
        np.testing.assert_array_equal(scores.upper(), upper)


@pytest.mark.parametrize("wrong", ["node", "edge"])
def test_scores_that_are_not_finite_are_refused(wrong: str) -> None:
    scores = {"node": np.zeros((3, 2)), "edge": np.zeros((2, 2))}
    scores[wrong][1] = np.nan
    with pytest.raises(ValueError, match=f"{wrong} contains NaN or infinity"):
        pairwise(scores["node"], [[0, 1], [1, 2]], scores["edge"])
