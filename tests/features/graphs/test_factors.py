"""Log-linear factors and their oracle against all joint labels written out."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.factors import Factors, factors_of_features, read_factors, tabular_factors
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import ROUNDING

EXAMPLES = settings(max_examples=40, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


def some_factors(seed: int) -> tuple[Factors, np.ndarray[Any, Any], np.random.Generator]:
    """Random cards, scopes of one to three variables, a sparse design with tied columns, and parameters."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 4, size=rng.integers(1, 6))
    scopes = [
        rng.permutation(len(cards))[: rng.integers(1, min(3, len(cards)) + 1)].tolist()
        for _ in range(rng.integers(1, 6))
    ]
    bare = read_factors(cards, scopes)
    design = sp.random_array((bare.n_entries, int(rng.integers(1, 8))), density=0.4, rng=rng, format="csr")
    factors = read_factors(cards, scopes, design)
    return factors, rng.normal(size=factors.dimension) * 3, rng


def by_definition(factors: Factors, sample: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """f(x), entry by entry."""
    total, dense = np.zeros(factors.dimension), factors.design.toarray()
    for scope, shape, start in zip(factors.scopes, factors.shapes, factors.start):
        total += dense[start + np.ravel_multi_index(tuple(sample[list(scope)]), shape)]
    return total


@given(SEEDS)
@EXAMPLES
def test_features_scores_and_tables_are_those_of_the_definition(seed: int) -> None:
    factors, theta, _ = some_factors(seed)
    every = labellings(factors.cards)
    wanted = np.array([by_definition(factors, x) for x in every])
    np.testing.assert_allclose(factors.joint_each(every).toarray(), wanted, atol=ROUNDING)
    np.testing.assert_allclose(factors.scores(theta, every), wanted @ theta, atol=1e-12)
    np.testing.assert_allclose(factors.moments(factors.counts(every)), wanted.sum(axis=0), atol=1e-11)
    tables = factors.tables(theta)
    summed = sum(table[tuple(every[:, v] for v in scope)] for table, scope in zip(tables, factors.scopes))
    np.testing.assert_allclose(summed, wanted @ theta, atol=1e-12)


@given(SEEDS)
@EXAMPLES
def test_sums_and_best_are_those_of_all_joint_labels_that_samples_leave_open(seed: int) -> None:
    factors, theta, rng = some_factors(seed)
    every, flat = labellings(factors.cards), factors.design @ theta
    some = every[rng.integers(len(every), size=4)]
    hidden = np.where(rng.random(some.shape) < 0.5, -1, some)
    weights = rng.random(4)
    oracle = FactorInference(factors)
    logs, posteriors = oracle.clamped(flat, hidden, weights)
    wanted = np.zeros(factors.n_entries)
    for row, log, weight in zip(hidden, logs, weights):
        open_to = every[((row < 0) | (every == row)).all(axis=1)]
        scores = factors.scores(theta, open_to)
        assert log == pytest.approx(np.logaddexp.reduce(scores), abs=1e-10)
        wanted += factors.counts(open_to, weight * np.exp(scores - log))
    np.testing.assert_allclose(posteriors, wanted, atol=1e-11)
    whole, (logs, posteriors) = oracle.sums(flat), oracle.clamped(flat, np.full((1, len(factors.cards)), -1))
    assert whole.log_partition == pytest.approx(logs[0], abs=1e-12)
    np.testing.assert_allclose(whole.marginals, posteriors, atol=1e-12)
    best, labels = oracle.best(flat)
    for score in (best, factors.scores(theta, labels[None])[0]):
        assert score == pytest.approx(factors.scores(theta, every).max(), abs=1e-12)


def test_features_with_tied_places_and_turned_scopes() -> None:
    equal = [[1, 0], [0, 0]]
    factors = factors_of_features([2, 2, 2], [[((0, 1), equal), ((2, 1), equal), ((0, 2), equal)], [((1,), [0, 2])]])
    samples = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(factors.joint_each(samples).toarray(), [[3, 0], [1, 2], [1, 0]])
    turned = factors_of_features([2, 3], [[((1, 0), [[0, 1], [2, 3], [4, 5]])]])
    assert turned.scores(np.ones(1), np.array([[1, 2]]))[0] == 5


def test_tabular_models_tied_and_free() -> None:
    graph = nx.cycle_graph(4)
    free, tied = tabular_factors(graph, 3), tabular_factors(graph, 3, tied=True)
    assert free.dimension == 4 * 3 + 4 * 9
    assert tied.dimension == 3 + 9
    rng = np.random.default_rng(0)
    samples = rng.integers(3, size=(5, 4))
    theta = rng.normal(size=12)
    one = np.concatenate([theta[:3]] * 4 + [theta[3:]] * 4)
    np.testing.assert_allclose(tied.scores(theta, samples), free.scores(one, samples), atol=1e-12)
    bare = tabular_factors(graph, [2, 3, 2, 3], nodes=False)
    assert bare.dimension == 24
    assert tabular_factors(nx.empty_graph(2), 2, nodes=False, tied=True).dimension == 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: read_factors([2, 2], [[0, 2]]), "names variable 2, wanted variables from 0 to 1"),
        (lambda: read_factors([2, 2], [[0, 0]]), "names a variable twice"),
        (lambda: read_factors([2, 2], []), "scopes is empty"),
        (lambda: read_factors([2, 2], [[0, 1]], np.ones((3, 2))), "wanted .4, parameters.: one row an entry"),
        (lambda: factors_of_features([2], [[((0,), [1.0, np.nan])]]), "contains NaN"),
        (lambda: factors_of_features([2], [[((0,), [1.0, 2.0, 3.0])]]), "one axis a variable"),
        (lambda: tabular_factors(nx.DiGraph(), 2), "undirected"),
        (lambda: tabular_factors(nx.path_graph(2), [2, 3], tied=True), "where parameters are tied"),
        (lambda: tabular_factors(nx.path_graph(2), 2).read_samples("samples", [[0, 2]]), "label 2 of variable 1"),
        (lambda: FactorInference(tabular_factors(nx.complete_graph(9), 9)).tree, "tree width 6 or more"),
    ],
)
def test_bad_input_is_one_clear_sentence(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
