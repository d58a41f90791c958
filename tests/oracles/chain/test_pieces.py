"""Chains cut in pieces, and what is recurred over pieces, against whole chains and against all labellings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains, chains
from convexstruct.oracles.chain import chain, long_viterbi, probabilities
from convexstruct.oracles.chain.pieces import SHORTEST_PIECE, Pieces, cut_in, pieces
from convexstruct.oracles.chain.probabilities import forward_backward, pairs
from convexstruct.tolerances import ROUNDING

EXAMPLES = settings(max_examples=40, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Chains, Pieces, np.random.Generator]:
    """Up to three chains of up to seven positions, cut in pieces of two or three: no more than three to a chain."""
    length, most = draw(st.sampled_from([(2, 6), (3, 7)]))
    layout = chains(draw(st.lists(st.integers(1, most), min_size=1, max_size=3)))
    return layout, cut_in(layout, length), np.random.default_rng(draw(SEEDS))


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


def test_only_long_chains_are_cut() -> None:
    assert pieces(chains([SHORTEST_PIECE] * 10), 3) is None
    assert pieces(chains([2 * SHORTEST_PIECE] * 10), 3) is None
    cut = pieces(chains([5, 20 * SHORTEST_PIECE]), 3)
    assert cut is not None
    assert cut.layout.n_steps == SHORTEST_PIECE


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


@given(cuts(), st.integers(1, 3), st.sampled_from([1, 1 << 17]))
@EXAMPLES
def test_labels_from_pieces_are_as_good_as_the_best_of_all(
    given_cut: tuple[Chains, Pieces, np.random.Generator], s: int, block: int
) -> None:
    layout, cut, rng = given_cut
    node, edge = rng.normal(size=(layout.n_positions, s)), 3.0 * rng.normal(size=(s, s))
    edge[rng.random((s, s)) < 0.2] = -np.inf
    np.fill_diagonal(edge, 0.0)
    by_label = np.empty((s, layout.n_positions))
    by_label[:, cut.whole] = node.T
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chain, "BLOCK", block)
        found = long_viterbi.viterbi(cut, by_label, edge)
    assert found is not None
    for labels, first in zip(layout.split(found[cut.layout.flat]), layout.first):
        rows = layout.flat[first : first + len(labels)]
        every = [
            float(node[rows, list(y)].sum() + sum(edge[a, b] for a, b in itertools.pairwise(y)))
            for y in itertools.product(range(s), repeat=len(labels))
        ]
        score = float(node[rows, labels].sum() + edge[labels[:-1], labels[1:]].sum())
        assert score == pytest.approx(max(every), rel=ROUNDING, abs=ROUNDING)


def test_of_labels_that_are_equal_the_first_is_read_and_the_last_of_very_many_where_it_is_best() -> None:
    cut, node, edge = cut_in(chains([30]), 10), np.zeros((300, 30)), np.zeros((300, 300))
    np.testing.assert_array_equal(long_viterbi.viterbi(cut, node, edge), 0)
    node[299] = 1.0
    np.testing.assert_array_equal(long_viterbi.viterbi(cut, node, edge), 299)


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
    labels = long_viterbi.viterbi(cut, by_label, edge)
    assert labels is not None
    np.testing.assert_array_equal(labels[cut.whole], chain.viterbi(layout, node, edge)[1])
    passed = forward_backward(cut.layout, np.exp(by_label)[None], np.exp(edge)[None], cut)
    assert passed is not None
    sums = chain.sum_product(layout, node, edge)
    np.testing.assert_allclose((passed.alpha * passed.beta)[0][:, cut.whole].T, sums.node, atol=ROUNDING)
    expected = (pairs(cut.layout, passed, cut) * np.exp(edge))[0]
    np.testing.assert_allclose(expected, sums.edge, rtol=ROUNDING)
    assert np.log(passed.scale).sum() == pytest.approx(sums.log_partition.sum(), rel=ROUNDING)


def test_rounds_over_pieces_end_where_their_messages_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 100 that forget within a few positions, and a chain too short to be cut."""
    layout = chains([1000, 3, 500])
    cut = cut_in(layout, 100)
    potential = np.random.default_rng(0).uniform(0.5, 1.0, size=(1, 3, layout.n_positions))
    transition = np.array([[[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]]])
    agrees, seen = probabilities._agree, list[bool]()

    def watched(new: Tensor, old: Tensor) -> bool:
        seen.append(agrees(new, old))
        return seen[-1]

    monkeypatch.setattr(probabilities, "_agree", watched)
    assert forward_backward(cut.layout, potential, transition, cut) is not None
    # forward: not at the cuts; at step 15; at the cuts. Backward: not at the cuts; at steps 96 and 80; at the cuts
    assert seen == [False, True, True, False, False, True, True]


@given(SEEDS, st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_matrices_of_the_pieces_lead_to_the_labels_of_whole_chains(seed: int, s: int) -> None:
    rng = np.random.default_rng(seed)
    layout = chains(rng.integers(1, 40, size=3).tolist())
    cut = cut_in(layout, int(rng.integers(1, 9)))
    node, edge = rng.normal(size=(layout.n_positions, s)), 3.0 * rng.normal(size=(s, s))
    edge[rng.random((s, s)) < 0.2] = -np.inf
    np.fill_diagonal(edge, 0.0)
    by_label = np.empty((s, layout.n_positions))
    by_label[:, cut.whole] = node.T
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(long_viterbi, "_mend_messages", lambda *_: False)
        labels = long_viterbi.viterbi(cut, by_label, edge)
    assert labels is not None
    np.testing.assert_array_equal(labels[cut.whole], chain.viterbi(layout, node, edge)[1])


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
