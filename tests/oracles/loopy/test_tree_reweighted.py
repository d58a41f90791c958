"""The tree bound against ln Z by junction trees, for messages of every kind, and its rounding against 50 digits."""

from __future__ import annotations

from typing import Any

import mpmath
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.factors import Factors, read_factors, tabular_factors
from convexstruct.oracles.enumeration import labellings
from convexstruct.oracles.loopy.belief_propagation import factor_graph, propagate
from convexstruct.oracles.loopy.tree_reweighted import SpanningTrees, spanning_trees, upper_bound

EXAMPLES = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


def some_pairs(seed: int) -> tuple[Factors, SpanningTrees, np.random.Generator]:
    """Random pairs and single variables, some of them twice, with cards of their own."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    cards = rng.integers(1, 4, size=n)
    scopes = [rng.permutation(n)[: rng.integers(1, min(n, 2) + 1)].tolist() for _ in range(rng.integers(1, 9))]
    factors = read_factors(cards, scopes)
    trees = spanning_trees(n, factors.scopes)
    assert trees is not None
    return factors, trees, rng


def exact(factors: Factors, tables: Any) -> mpmath.mpf:
    """ln Z in 50 digits."""
    with mpmath.workdps(50):
        chosen = factors.entries(labellings(factors.cards))
        numbers = [mpmath.mpf(t) for t in tables.tolist()]
        return mpmath.log(mpmath.fsum(mpmath.exp(mpmath.fsum(numbers[t] for t in row)) for row in chosen.tolist()))


@given(SEEDS)
@EXAMPLES
def test_the_bound_holds_for_any_messages(seed: int) -> None:
    factors, trees, rng = some_pairs(seed)
    graph = factor_graph(factors.cards, factors.scopes)
    tables = rng.normal(size=factors.n_entries) * 10.0 ** rng.integers(-2, 3)
    reached = propagate(graph, tables, rho=trees.rho, rounds=int(rng.integers(0, 200))).messages[0]
    for messages in (reached, np.zeros(len(graph.to)), 3 * rng.normal(size=len(graph.to))):
        bound = upper_bound(graph, trees, tables, messages)
        assert bound.upper >= exact(factors, tables)
        if (trees.rho == 1).all():  # a forest
            assert float(bound) == pytest.approx(float(exact(factors, tables)), rel=1e-12, abs=1e-10)
        assert bound.allowance < 1e-10 * (1 + np.abs(tables).sum() + np.abs(messages).sum())


@pytest.mark.parametrize("seed", range(3))
def test_at_the_fixed_point_the_bound_is_the_tree_reweighted_value_and_the_least(seed: int) -> None:
    """The value of the entropy, the bound from the messages, and bounds from messages nearby, on a 3 x 3 grid."""
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3))
    factors = tabular_factors(grid, 2)
    graph, trees = factor_graph(factors.cards, factors.scopes), spanning_trees(9, factors.scopes)
    assert trees is not None
    assert trees.held.any(axis=0).all()
    assert (trees.held.sum(axis=1) == 8).all()
    rng = np.random.default_rng(seed)
    tables = rng.normal(size=factors.n_entries)
    found = propagate(graph, tables, rho=trees.rho)
    assert found.converged.all()
    least = upper_bound(graph, trees, tables, found.messages[0])
    assert float(least) == pytest.approx(found.log_partition[0], abs=1e-7)
    for _ in range(5):
        moved = found.messages[0] + 0.1 * rng.normal(size=len(graph.to))
        assert upper_bound(graph, trees, tables, moved) >= least - 1e-9


def test_factors_of_three_variables_have_no_such_trees() -> None:
    assert spanning_trees(3, [[0, 1, 2]]) is None
