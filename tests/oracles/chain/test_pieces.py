"""Chains cut in pieces, and what is recurred over pieces, against whole chains and against all labellings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.graphs import Chains, chains
from convexstruct.oracles.chain import chain, long_viterbi, probabilities
from convexstruct.oracles.chain.pieces import Pieces, cut_in, pieces
from convexstruct.oracles.chain.probabilities import forward_backward, pairs
from convexstruct.tolerances import ROUNDING

EXAMPLES = settings(max_examples=40, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(1, 12))
@EXAMPLES
def test_pieces_follow_each_other_as_the_positions_do(lengths: list[int], length: int) -> None:
    layout = chains(lengths)
    cut = cut_in(layout, length)
    flat = cut.layout.packed  # flat position of each packed row of the pieces
    assert cut.layout.lengths.max() <= length
    np.testing.assert_array_equal(flat[cut.whole], layout.packed)
    np.testing.assert_array_equal(flat[cut.earlier] + 1, flat[cut.later])
    firsts, lasts = layout.first, layout.first + layout.lengths - 1
    for rows, step, ends in ((cut.after, 1, lasts), (cut.before, -1, firsts)):
        inside = rows >= 0
        np.testing.assert_array_equal(flat[rows[inside]], flat[inside] + step)
        np.testing.assert_array_equal(np.sort(flat[~inside]), ends)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Chains, Pieces, np.random.Generator]:
    """Up to three chains of up to seven positions, cut in pieces of two or three: no more than three to a chain."""
    length, most = draw(st.sampled_from([(2, 6), (3, 7)]))
    layout = chains(draw(st.lists(st.integers(1, most), min_size=1, max_size=3)))
    return layout, cut_in(layout, length), np.random.default_rng(draw(SEEDS))


@given(cuts(), st.integers(1, 3), st.booleans(), st.sampled_from([1, 16]))
@EXAMPLES
def test_sums_over_pieces_are_those_over_all_labellings(
    given_cut: tuple[Chains, Pieces, np.random.Generator], s: int, weighted: bool, between: int
) -> None:
    layout, cut, rng = given_cut
    table = rng.exponential(size=(s, layout.n_positions))
    transition = rng.dirichlet(np.ones(s), size=s)
    by_pieces = np.empty_like(table)
    by_pieces[:, cut.whole] = table
    weights = rng.exponential(size=layout.n_chains) if weighted else np.ones(layout.n_chains)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(probabilities, "STEPS_BETWEEN", between)
        patched.setattr(probabilities, "SHARE_LEFT", np.inf)  # three pieces agree within three rounds, however slowly
        passed = forward_backward(cut.layout, by_pieces[None].copy(), transition[None], cut)
    assert passed is not None
    share = np.empty(layout.n_positions)
    share[cut.whole] = weights[layout.chain]
    found = (pairs(cut.layout, passed, cut, share) * transition)[0]
    posterior = (passed.alpha * passed.beta)[0][:, cut.layout.flat]
    logs = np.log(passed.scale[0])[cut.layout.flat]
    expected = np.zeros((s, s))
    for k, (first, length) in enumerate(zip(layout.first, layout.lengths)):
        rows = layout.flat[first : first + length]
        shares = {}
        for y in itertools.product(range(s), repeat=int(length)):
            p = float(np.prod(table[list(y), rows]))
            shares[y] = p * float(np.prod([transition[a, b] for a, b in itertools.pairwise(y)]))
        total = sum(shares.values())
        assert logs[first : first + length].sum() == pytest.approx(np.log(total), rel=ROUNDING, abs=ROUNDING)
        nodes = np.zeros((s, length))
        for y, p in shares.items():
            nodes[list(y), range(int(length))] += p / total
            for a, b in itertools.pairwise(y):
                expected[a, b] += weights[k] * p / total
        np.testing.assert_allclose(posterior[:, first : first + length], nodes, atol=ROUNDING)
    np.testing.assert_allclose(found, expected, atol=ROUNDING)


@given(SEEDS, st.integers(1, 4), st.booleans())
@EXAMPLES
def test_labels_from_pieces_are_those_of_whole_chains(seed: int, s: int, by_matrices: bool) -> None:
    """Where messages are computed again from the cuts, and where pieces are joined by their matrices."""
    rng = np.random.default_rng(seed)
    layout = chains(rng.integers(1, 40, size=3).tolist())
    cut = cut_in(layout, int(rng.integers(1, 9)))
    node, edge = rng.normal(size=(layout.n_positions, s)), 3.0 * rng.normal(size=(s, s))
    edge[rng.random((s, s)) < 0.2] = -np.inf
    np.fill_diagonal(edge, 0.0)
    by_label = np.empty((s, layout.n_positions))
    by_label[:, cut.whole] = node.T
    with pytest.MonkeyPatch.context() as patched:
        if by_matrices:
            patched.setattr(long_viterbi, "_mend_messages", lambda *_: False)
        labels = long_viterbi.viterbi(cut, by_label, edge)
    assert labels is not None
    np.testing.assert_array_equal(labels[cut.whole], chain.viterbi(layout, node, edge)[1])


@given(SEEDS, st.integers(2, 4))
@settings(max_examples=10, deadline=None)
def test_long_chains_that_forget_agree_at_the_cuts(seed: int, s: int) -> None:
    rng = np.random.default_rng(seed)
    layout = chains([1000, 3, 700])
    cut = pieces(layout, s)
    assert cut is not None
    node, edge = 3.0 * rng.normal(size=(layout.n_positions, s)), rng.uniform(-1.0, 1.0, size=(s, s))
    by_label = np.empty((s, layout.n_positions))
    by_label[:, cut.whole] = node.T
    passed = forward_backward(cut.layout, np.exp(by_label)[None], np.exp(edge)[None], cut)
    assert passed is not None
    sums = chain.sum_product(layout, node, edge)
    np.testing.assert_allclose((passed.alpha * passed.beta)[0][:, cut.whole].T, sums.node, atol=ROUNDING)
    expected = (pairs(cut.layout, passed, cut) * np.exp(edge))[0]
    np.testing.assert_allclose(expected, sums.edge, rtol=ROUNDING)
    assert np.log(passed.scale).sum() == pytest.approx(sums.log_partition.sum(), rel=ROUNDING)


@pytest.mark.parametrize("n_labels", [2, 30])
def test_chains_that_never_forget_are_joined_from_pieces_or_left_to_the_whole_chains(n_labels: int) -> None:
    layout = chains([1000])
    cut = cut_in(layout, 64)
    node, edge = np.zeros((n_labels, 1000)), np.full((n_labels, n_labels), -1e3)
    np.fill_diagonal(edge, 0.0)
    node[1, cut.whole[0]] = 1.0  # only the first position tells one label from the others
    found = long_viterbi.viterbi(cut, node, edge)
    if n_labels == 2:
        assert found is not None
        assert (found == 1).all()
    else:
        assert found is None
    assert forward_backward(cut.layout, np.exp(node)[None], np.exp(edge)[None], cut) is None
