"""Chains with an edge table for every step, against all labellings written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.graphs import chains
from convexstruct.oracles.chain.chain import sum_product, viterbi
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import ROUNDING


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    s=st.integers(1, 3),
    spare=st.integers(0, 2),
    size=st.sampled_from([0.1, 3.0, 1e3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_best_labellings_and_sums_are_those_of_all_labellings(
    lengths: list[int], s: int, spare: int, size: float, seed: int
) -> None:
    """``spare`` tables belong to steps that no chain reaches."""
    rng = np.random.default_rng(seed)
    laid, weights = chains(lengths), rng.uniform(0.5, 2.0, len(lengths))
    node = size * rng.normal(size=(laid.n_positions, s))
    edge = size * rng.normal(size=(laid.n_steps - 1 + max(spare, laid.n_steps == 1), s, s))
    scores, best = viterbi(laid, node, edge)
    sums = sum_product(laid, node, edge, weights)
    pairs = np.zeros_like(edge)
    parts = laid.split(node[laid.flat]), laid.split(best[laid.flat]), laid.split(sums.node[laid.flat])
    for k, (own, labels, posterior) in enumerate(zip(*parts)):
        every = labellings([s] * lengths[k])
        at = np.arange(lengths[k] - 1)
        each = np.array([own[np.arange(len(y)), y].sum() + edge[at, y[:-1], y[1:]].sum() for y in every])
        shares = np.exp(each - each.max())
        shares /= shares.sum()
        assert scores[k] == pytest.approx(each.max(), rel=ROUNDING, abs=ROUNDING * size)
        assert (every[each.argmax()] == labels).all()
        log_partition = each.max() + np.log(np.exp(each - each.max()).sum())
        assert sums.log_partition[k] == pytest.approx(log_partition, rel=ROUNDING, abs=ROUNDING * size)
        for y, share in zip(every, shares):
            posterior[np.arange(len(y)), y] -= share
            np.add.at(pairs, (at, y[:-1], y[1:]), weights[k] * share)
        assert np.abs(posterior).max() <= 1e-10
    np.testing.assert_allclose(sums.edge, pairs, atol=1e-10)


def test_the_same_table_at_every_step_is_one_table() -> None:
    rng = np.random.default_rng(0)
    laid = chains([4, 2, 1, 5])
    node, table = rng.normal(size=(12, 3)), rng.normal(size=(3, 3))
    apart, shared = (sum_product(laid, node, edge) for edge in (np.tile(table, (4, 1, 1)), table))
    assert apart.log_partition == pytest.approx(shared.log_partition, rel=ROUNDING)
    assert apart.edge.sum(axis=0) == pytest.approx(shared.edge, rel=ROUNDING)
    assert (viterbi(laid, node, np.tile(table, (4, 1, 1)))[1] == viterbi(laid, node, table)[1]).all()
