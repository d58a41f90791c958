"""Draws from planted scores against enumeration: frequencies of every labelling, and the highest score."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.planted import draw_forest, draw_graphs
from convexstruct.tolerances import ROUNDING

COPIES = 20_000
S = 3

#: Parents of four nodes: a chain, a star, a tree of depth two, two roots.
FORESTS = [(-1, 0, 1, 2), (-1, 0, 0, 0), (-1, 0, 0, 1), (-1, 0, -1, 2)]
#: Edges (u, v) of four nodes with cycles, in both orders of their ends.
LOOPY = [[(0, 1), (1, 2), (2, 3), (0, 3)], [(1, 0), (2, 0), (2, 1), (1, 3)]]


def every(n: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product(range(S), repeat=n)))


def total(labellings: NDArray[np.int64], edges: list[tuple[int, int]], scores: Vector, table: Vector) -> Vector:
    """The score of each labelling (m, n), from the definition."""
    nodes = sum(scores[v, labellings[:, v]] for v in range(len(scores)))
    return np.asarray(nodes + sum(table[labellings[:, u], labellings[:, v]] for u, v in edges))


def assert_frequencies(drawn: NDArray[np.int64], scores: Vector, noise: float) -> None:
    """Copies (n, 4) of one draw have the probabilities ~ exp(scores / noise) of the 81 labellings."""
    expected = np.exp((scores - scores.max()) / noise)
    expected *= len(drawn) / expected.sum()
    observed = np.bincount(drawn @ S ** np.arange(3, -1, -1), minlength=S**4)
    rare = expected < 5
    assert rare.sum() < 60
    cells = [np.append(counts[~rare], counts[rare].sum() + 1) for counts in (observed, expected)]
    assert ((cells[0] - cells[1]) ** 2 / cells[1]).sum() < chi2.ppf(1 - 1e-4, len(cells[1]) - 1)


@pytest.mark.parametrize("parents", FORESTS)
@pytest.mark.parametrize("noise", [0.7, 1.0, 2.0])
def test_draws_on_a_forest_have_the_frequencies_of_the_planted_distribution(
    parents: tuple[int, ...], noise: float
) -> None:
    rng = np.random.default_rng(7)
    scores, table = rng.normal(size=(4, S)), 1.5 * rng.normal(size=(S, S))
    hung = np.array(parents)
    parent = np.concatenate([np.where(hung >= 0, hung + 4 * i, -1) for i in range(COPIES)])
    drawn = draw_forest(parent, np.tile(scores, (COPIES, 1)), table, noise, rng).reshape(COPIES, 4)
    edges = [(u, v) for v, u in enumerate(parents) if u >= 0]
    assert_frequencies(drawn, total(every(4), edges, scores, table), noise)


@pytest.mark.parametrize("edges", LOOPY)
@pytest.mark.parametrize("noise", [1.0, 2.0])
def test_gibbs_rounds_on_cycles_come_to_the_planted_distribution(edges: list[tuple[int, int]], noise: float) -> None:
    rng = np.random.default_rng(3)
    scores, table = 0.7 * rng.normal(size=(4, S)), 0.7 * rng.normal(size=(S, S))
    flat = (np.array(edges) + 4 * np.arange(COPIES)[:, None, None]).reshape(-1, 2)
    start = np.arange(0, 4 * COPIES + 1, 4)
    begun = np.zeros(4 * COPIES, dtype=np.int64)
    drawn = draw_graphs(flat, start, np.tile(scores, (COPIES, 1)), table, noise, rng, begun, 15)
    assert not begun.any()
    assert_frequencies(drawn.reshape(COPIES, 4), total(every(4), edges, scores, table), noise)


@pytest.mark.parametrize("parents", FORESTS)
def test_without_noise_a_forest_gets_the_highest_score(parents: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    edges = [(u, v) for v, u in enumerate(parents) if u >= 0]
    for _ in range(50):
        scores, table = rng.normal(size=(4, S)), rng.normal(size=(S, S))
        drawn = draw_forest(np.array(parents), scores, table, 0.0, rng)
        best = total(every(4), edges, scores, table).max()
        assert total(drawn[None], edges, scores, table)[0] == pytest.approx(best, rel=ROUNDING)


def test_equal_scores_without_noise_still_give_a_labelling() -> None:
    rng = np.random.default_rng(0)
    assert draw_forest(np.array([-1, 0, 0]), np.zeros((3, 2)), np.zeros((2, 2)), 0.0, rng).tolist() == [0, 0, 0]
    cycle, start = np.array([[0, 1], [1, 2], [0, 2]]), np.array([0, 3])
    drawn = draw_graphs(cycle, start, np.zeros((3, 2)), np.zeros((2, 2)), 0.0, rng, np.array([1, 0, 1]), 1)
    assert drawn.tolist() == [0, 0, 0]
