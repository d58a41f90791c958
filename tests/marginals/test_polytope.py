from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from convexstruct.datasets.generated.networks import random_network
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.marginals.decomposition import columns
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.marginals.polytope import local_polytope
from convexstruct.tolerances import ROUNDING

LENGTHS = [4, 1, 2, 3, 1]


def batch(hidden: bool, seed: int = 0) -> HMMCounts:
    rng = np.random.default_rng(seed)
    symbols = [rng.integers(4, size=n) for n in LENGTHS]
    states = [rng.integers(3, size=n) for n in LENGTHS]
    masks = None
    if hidden:
        masks = [rng.random(n) < 0.5 for n in LENGTHS]
        for mask in masks:
            mask[rng.integers(len(mask))] = True
    return HMMCounts.read(symbols, states, 3, 4, "ring", masks, weights=[1.0, 2.0, 0.5, 3.0, 1.5])


def networks(seed: int) -> NetworkCounts:
    rng = np.random.default_rng(seed)
    net = random_network(6, 5, states=(1, 3), max_parents=3, seed=seed)
    hidden = [sorted(rng.choice(6, size=rng.integers(1, 7), replace=False).tolist()) for _ in range(5)]
    return NetworkCounts.read(net.graph, net.assignments, hidden, weights=[1.0, 2.0, 0.5, 3.0, 1.5])


def both(seed: int) -> list[Counts]:
    return [batch(False, seed), batch(True, seed), networks(seed)]


@pytest.mark.parametrize("seed", range(10))
def test_a_linear_function_has_the_same_maximum_as_over_all_labellings(seed: int) -> None:
    for features in both(seed):
        rng = np.random.default_rng(100 + seed)
        theta = rng.normal(size=features.tables.dimension)
        polytope = local_polytope(features)
        cost = polytope.counts.T @ theta + polytope.loss
        result = linprog(-cost, A_eq=polytope.equality, b_eq=polytope.rhs, bounds=(0, None))
        table = enumerate_counts(features)
        scores = table.counts @ theta + table.loss
        best = np.full(len(features.examples), -np.inf)
        np.maximum.at(best, table.example, scores)
        assert -result.fun == pytest.approx(features.examples.weights @ best, rel=ROUNDING)


@pytest.mark.parametrize("seed", range(10))
def test_clique_marginals_of_any_distribution_are_feasible_and_give_its_expected_counts(seed: int) -> None:
    features = networks(seed)
    polytope, table = local_polytope(features), enumerate_counts(features)
    q = np.random.default_rng(7).exponential(size=table.n_rows)
    q /= np.bincount(table.example, weights=q)[table.example]
    z = np.zeros(polytope.n_variables)
    at = 0
    trees = {k: group.tree for group in features.groups for k in group.examples.tolist()}
    for k in range(len(features.examples)):
        rows = np.flatnonzero(table.example == k)
        for clique in trees[k].cliques:
            for labels in np.ndindex(*(trees[k].cards[v] for v in clique)):
                z[at] = q[rows][(table.labels[rows][:, list(clique)] == labels).all(axis=1)].sum()
                assert polytope.example[at] == k
                at += 1
    assert at == polytope.n_variables
    np.testing.assert_allclose(polytope.equality @ z, polytope.rhs, atol=ROUNDING)
    share = q * features.examples.weights[table.example]
    np.testing.assert_allclose(polytope.counts @ z, table.counts.T @ share, rtol=ROUNDING)
    assert polytope.loss @ z == pytest.approx(share @ table.loss, rel=ROUNDING)


@pytest.mark.parametrize("hidden", [False, True])
def test_marginals_of_any_distribution_are_feasible_and_give_its_expected_counts(hidden: bool) -> None:
    features = batch(hidden)
    polytope, table = local_polytope(features), enumerate_counts(features)
    rng = np.random.default_rng(7)
    q = rng.exponential(size=table.n_rows)
    q /= np.bincount(table.example, weights=q)[table.example]
    z = np.zeros(polytope.n_variables)
    # variables of one example, step after step, label fastest, labels ruled out having none: rebuilt here by hand
    at = 0
    for k, length in enumerate(LENGTHS):
        first = int(features.chains.first[k])
        rows = np.flatnonzero(table.example == k)
        allowed = [
            range(3) if features.examples.free[first + t] else [int(features.examples.truth[first + t])]
            for t in range(length)
        ]
        pairs = [((t - 1, old), (t, new)) for t in range(1, length) for old in allowed[t - 1] for new in allowed[t]]
        events = pairs if length > 1 else [((0, new), (0, new)) for new in allowed[0]]
        for (t0, old), (t1, new) in events:
            labels = table.labels[rows]
            z[at] = q[rows][(labels[:, t0] == old) & (labels[:, t1] == new)].sum()
            assert polytope.example[at] == k
            at += 1
    assert at == polytope.n_variables
    np.testing.assert_allclose(polytope.equality @ z, polytope.rhs, atol=ROUNDING)
    share = q * features.examples.weights[table.example]
    np.testing.assert_allclose(polytope.counts @ z, table.counts.T @ share, rtol=ROUNDING)
    assert polytope.loss @ z == pytest.approx(share @ table.loss, rel=ROUNDING)


@pytest.mark.parametrize("seed", range(3))
def test_the_equalities_are_independent(seed: int) -> None:
    for features in both(seed):
        polytope = local_polytope(features)
        assert np.linalg.matrix_rank(polytope.equality.toarray()) == len(polytope.rhs)


def test_one_state_leaves_one_point() -> None:
    features = HMMCounts.read([[0, 1, 0]], [[0, 0, 0]], 1, 2)
    polytope = local_polytope(features)
    np.testing.assert_array_equal(polytope.equality @ np.ones(2), polytope.rhs)
    np.testing.assert_array_equal(polytope.counts @ np.ones(2), [1, 2, 2, 1])


def test_the_marginals_of_a_chain_count_the_symbols_of_all_channels() -> None:
    rng = np.random.default_rng(3)
    lengths = (3, 1, 4)
    symbols, states = [rng.integers(3, size=(t, 2)) for t in lengths], [rng.integers(2, size=t) for t in lengths]
    features = HMMCounts.read(symbols, states, 2, 3, weights=[1.0, 2.0, 0.5])
    polytope, of = local_polytope(features), columns(features)
    for _ in range(5):
        labels = rng.integers(2, size=8)
        z = (of.label == labels[of.position]).all(axis=1).astype(np.float64)
        np.testing.assert_allclose(polytope.equality @ z, polytope.rhs)
        np.testing.assert_allclose(polytope.counts @ z, features.counts(labels))
