"""Gibbs sweeps against the exact transition matrix over all joint labels."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from convexstruct.arrays import Matrix, Vector
from convexstruct.features.graphs.factors import Factors, read_factors, tabular_factors
from convexstruct.inference.gibbs import Gibbs
from convexstruct.oracles.enumeration import labellings
from tests.features.graphs.test_factors import some_factors


def transition(factors: Factors, flat: Vector) -> Matrix:
    """P(x after one sweep | x before) over all joint labels, in the sampler's order of variables."""
    every = labellings(factors.cards)
    place = {tuple(x): i for i, x in enumerate(every.tolist())}
    p = np.exp(flat[factors.entries(every)].sum(axis=1))
    whole = np.eye(len(every))
    for v in [int(v) for colour in Gibbs(factors).colours for v in colour.variables]:
        step = np.zeros_like(whole)
        for i, x in enumerate(every.tolist()):
            moved = [place[(*x[:v], label, *x[v + 1 :])] for label in range(factors.cards[v])]
            step[i, moved] = p[moved] / p[moved].sum()
        whole = whole @ step
    return whole


@pytest.mark.parametrize("seed", range(4))
def test_two_sweeps_have_the_exact_distribution(seed: int) -> None:
    """20,000 chains from one start against the square of the transition matrix, by chi-squared at six deviations."""
    factors, theta, rng = some_factors(seed)
    flat = factors.design @ theta
    every = labellings(factors.cards)
    at = int(rng.integers(len(every)))
    n = 20_000
    after = Gibbs(factors).sweeps(flat, np.repeat(every[at][None], n, axis=0), 2, rng)
    wanted = n * np.linalg.matrix_power(transition(factors, flat), 2)[at]
    radix = np.concatenate(([1], np.cumprod(factors.cards[:-1]))).astype(int)
    seen = np.bincount(after @ radix, minlength=len(every))
    likely = wanted > 5
    chi = float((((seen - wanted) ** 2)[likely] / wanted[likely]).sum())
    freedom = int(likely.sum())
    assert chi <= freedom + 6 * np.sqrt(2 * freedom) + 6
    assert seen[~likely].sum() <= wanted[~likely].sum() + 6 * np.sqrt(wanted[~likely].sum()) + 6


def test_a_grid_has_two_colours() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 6))
    sampler = Gibbs(tabular_factors(grid, 3, tied=True))
    assert sorted(len(each.variables) for each in sampler.colours) == [18, 18]


def test_variables_of_one_label_and_without_factors() -> None:
    start = np.zeros((500, 3), dtype=np.int64)
    after = Gibbs(read_factors([1, 2, 3], [[0, 1]])).sweeps(np.array([0.0, 800.0]), start, 1, np.random.default_rng(0))
    assert not start.any()
    assert (after[:, :2] == [0, 1]).all()
    assert set(after[:, 2].tolist()) == {0, 1, 2}
