"""Alpha-expansion against brute force: it never exceeds the best, no move improves it, and its bounds hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.oracles import enumeration
from convexstruct.oracles.loopy.alpha_expansion import alpha_expansion
from convexstruct.oracles.loopy.pairwise import Pairwise, pairwise
from convexstruct.tolerances import HIGH, ROUNDING
from tests.oracles.loopy.test_pairwise import parts_of, random_edges

EXAMPLES = settings(max_examples=50, deadline=None, derandomize=True)


@st.composite
def metric(draw: st.DrawFn) -> Pairwise:
    """Graphs side by side with Potts weights, or minus distances between labels placed in a plane, own or shared."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    n_labels = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["potts", "shared", "own"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges, part = random_edges(rng, sizes)
    node = rng.normal(size=(len(part), n_labels))
    if kind == "potts":
        return pairwise(node, edges, rng.exponential(size=len(edges)), part)
    places = rng.normal(size=((len(edges), n_labels, 2) if kind == "own" else (n_labels, 2)))
    distance = np.linalg.norm(places[..., :, None, :] - places[..., None, :, :], axis=-1)
    return pairwise(node, edges, -distance, part)


@given(metric())
@EXAMPLES
def test_no_expansion_improves_what_is_found_and_the_bound_holds(scores: Pairwise) -> None:
    """With Potts weights the energy, what is missing to the greatest entries, is at most twice the least."""
    found = alpha_expansion(scores)
    top = scores.by_part(scores.node.max(axis=1), np.abs(scores.edge)) if scores.potts else None
    np.testing.assert_array_equal(found.scores, scores.score(found.labels))
    assert (found.upper <= scores.upper() + HIGH.gap).all()
    for k, (cards, factors, nodes) in enumerate(parts_of(scores)):
        best, _ = enumeration.best(cards, factors)
        assert found.scores[k] <= best + ROUNDING
        assert found.upper[k] >= best - ROUNDING
        assert top is None or top[k] - found.scores[k] <= 2 * (top[k] - best) + ROUNDING
        labels = found.labels[nodes]
        everything, values = enumeration.labellings(cards), enumeration.scores(cards, factors)
        for alpha in range(scores.n_labels):
            move = ((everything == labels) | (everything == alpha)).all(axis=1)
            assert values[move].max() <= found.scores[k] + ROUNDING * max(1.0, abs(best)) * 10


def test_it_may_stop_below_the_best_and_its_upper_bound_shows_it() -> None:
    # (0, 0) scores 2.2 - 1.9, (1, 2) scores 1 + 1 - 1; but (1, 0) and (0, 2), one move away, score 2.1 - 2
    node = np.array([[1.1, 1.0, -9.0], [1.1, -9.0, 1.0]])
    table = np.array([[-1.9, -2.0, -2.0], [-2.0, 0.0, -1.0], [-2.0, -1.0, 0.0]])
    scores = pairwise(node, [[0, 1]], table)
    stuck = alpha_expansion(scores)
    np.testing.assert_array_equal(stuck.labels, [0, 0])
    best, labels = enumeration.best([3, 3], [((0,), node[0]), ((1,), node[1]), ((0, 1), table)])
    assert best == 1.0
    np.testing.assert_array_equal(labels, [1, 2])
    assert stuck.scores[0] == pytest.approx(0.3)
    assert stuck.upper[0] == pytest.approx(1.0, rel=HIGH.gap)


@pytest.mark.parametrize(
    ("edge", "said"),
    [
        ([1.0, -0.5], r"edges\[1\] = \(2, 1\) has the weight -0.5, wanted Potts weights >= 0"),
        (-np.array([[0, 1, 4], [1, 0, 1], [4, 1, 0]]), r"edges\[0\] = \(0, 1\) is not metric: .* by 2, wanted"),
    ],
)
def test_what_it_cannot_do_is_said(edge: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        alpha_expansion(pairwise(np.zeros((3, 3)), [[0, 1], [2, 1]], edge))
