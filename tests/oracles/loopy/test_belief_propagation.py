"""Belief propagation against all joint labels on trees, and against the Bethe stationarity conditions on cycles."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Matrix, Vector
from convexstruct.features.graphs.factors import Factors, read_factors, tabular_factors
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.oracles.enumeration import labellings
from convexstruct.oracles.loopy.belief_propagation import Beliefs, factor_graph, propagate

EXAMPLES = settings(max_examples=30, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


def written_out(factors: Factors, flat: Vector) -> tuple[float, Vector]:
    """ln Z and the marginals of all entries, by all joint labels."""
    every = labellings(factors.cards)
    scores = flat[factors.entries(every)].sum(axis=1)
    log_partition = float(np.logaddexp.reduce(scores))
    return log_partition, factors.counts(every, np.exp(scores - log_partition))


@given(SEEDS)
@EXAMPLES
def test_on_a_factor_tree_beliefs_are_marginals_and_bethe_is_ln_z(seed: int) -> None:
    """A tree of factors of up to three variables, with cards of their own, and a batch of two tables."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    cards = rng.integers(1, 4, size=n)
    scopes, at = [[int(rng.integers(n))]], 1
    while at < n:
        fresh = list(range(at, min(n, at + int(rng.integers(1, 3)))))
        scopes.append(rng.permutation([int(rng.integers(at)), *fresh]).tolist())
        at += len(fresh)
    factors = read_factors(cards, scopes)
    tables = 3 * rng.normal(size=(2, factors.n_entries))
    found = propagate(factor_graph(factors.cards, factors.scopes), tables, damping=0.0)
    assert found.converged.all()
    assert found.rounds <= 2 * len(scopes) + 2
    for b in range(2):
        log_partition, marginals = written_out(factors, tables[b])
        assert found.log_partition[b] == pytest.approx(log_partition, abs=1e-8)
        np.testing.assert_allclose(found.entries[b], marginals, atol=1e-8)


def cycle(seed: int, n: int = 5, scale: float = 1.0) -> tuple[Factors, Matrix, Beliefs]:
    factors = tabular_factors(nx.cycle_graph(n), 3)
    tables = scale * np.random.default_rng(seed).normal(size=(4, factors.n_entries))
    return factors, tables, propagate(factor_graph(factors.cards, factors.scopes), tables)


@pytest.mark.parametrize("seed", range(3))
def test_on_a_cycle_beliefs_agree_and_keep_the_scores(seed: int) -> None:
    """A fixed point agrees on every variable, and its beliefs reparameterise the distribution: the sum of ln b_v (1 -
    degree) and ln b_c is the score but for a constant. Both together say that it is stationary."""
    factors, tables, found = cycle(seed)
    assert found.converged.all()
    again = propagate(factor_graph(factors.cards, factors.scopes), tables[2], found.messages[2:3])
    assert again.rounds <= 2  # from its last messages, alone
    np.testing.assert_allclose(again.entries[0], found.entries[2], atol=1e-7)
    every = labellings(factors.cards)
    chosen = factors.entries(every)
    for b in range(len(tables)):
        for scope, begin, shape in zip(factors.scopes, factors.start, factors.shapes):
            belief = found.entries[b, begin : begin + int(np.prod(shape))].reshape(shape)
            for axis, v in enumerate(scope):
                alone = belief.sum(axis=tuple(k for k in range(len(shape)) if k != axis))
                np.testing.assert_allclose(alone, found.labels[b, 3 * v : 3 * v + 3], atol=1e-8)
        logs = np.log(found.entries[b])[chosen].sum(axis=1)
        logs += sum((1 - 3) * np.log(found.labels[b, 3 * v + every[:, v]]) for v in range(factors.n_variables))
        score = tables[b][chosen].sum(axis=1)
        assert np.ptp(score - logs) < 1e-6
        # at a fixed point the constant is the Bethe value itself
        assert found.log_partition[b] == pytest.approx(float((score - logs).mean()), abs=1e-6)


def test_strong_frustrated_couplings_do_not_converge_and_are_reported() -> None:
    """A complete graph of repelling binary variables with fields: undamped messages oscillate for ever."""
    factors = tabular_factors(nx.complete_graph(6), 2)
    tables = np.zeros(factors.n_entries)
    for scope, begin in zip(factors.scopes, factors.start):
        tables[begin : begin + 2 ** len(scope)] = [0.1, 0] if len(scope) == 1 else [-6, 6, 6, -6]
    found = propagate(factor_graph(factors.cards, factors.scopes), tables, damping=0.0, rounds=200)
    assert not found.converged.any()
    assert found.rounds == 200
    assert found.change[0] > 1.0


def test_bethe_is_neither_a_lower_nor_an_upper_bound() -> None:
    """An attractive cycle lies below ln Z, a frustrated one above: on one cycle of binary variables ln Z is exactly
    ln(lambda_1^n + lambda_2^n), Bethe ln(lambda_1^n)."""
    for sign in (1.0, -1.0):
        factors = tabular_factors(nx.cycle_graph(3), 2, nodes=False)
        tables = np.tile(sign * np.array([0.7, -0.7, -0.7, 0.7]), 3)
        found = propagate(factor_graph(factors.cards, factors.scopes), tables)
        exact = FactorInference(factors).sums(tables).log_partition
        first, second = 2 * np.cosh(0.7), sign * 2 * np.sinh(0.7)
        assert exact == pytest.approx(np.log(first**3 + second**3), abs=1e-12)
        assert found.log_partition[0] == pytest.approx(3 * np.log(first), abs=1e-9)
