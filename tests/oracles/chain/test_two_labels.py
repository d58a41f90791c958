"""Viterbi on two labels by differences of messages, against the recursion over labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.graphs import chains
from convexstruct.inference.hidden_markov import HiddenMarkovModels, Observations
from convexstruct.oracles.chain import chain, long_viterbi, two_labels
from convexstruct.oracles.chain.pieces import cut_in

EXAMPLES = settings(max_examples=60, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(0, 9), st.booleans(), st.booleans())
@EXAMPLES
def test_labels_are_those_over_whole_chains_and_so_are_ties_where_nothing_is_rounded(
    seed: int, piece: int, alike: bool, whole: bool
) -> None:
    """Equal neighbours are favoured, or unequal ones."""
    rng = np.random.default_rng(seed)
    layout = chains(rng.integers(1, 40, size=3).tolist())
    cut = cut_in(layout, piece) if piece else None
    node, edge = rng.normal(size=(layout.n_positions, 2)), 2.0 * rng.normal(size=(2, 2))
    if whole:
        node, edge = np.rint(2.0 * node), np.rint(0.5 * edge) + (4.0 if alike else -4.0) * np.eye(2)
    by_label = np.empty((2, layout.n_positions))
    by_label[:, np.arange(layout.n_positions) if cut is None else cut.whole] = node.T
    found = two_labels.viterbi(layout if cut is None else cut.layout, cut, by_label, edge)
    np.testing.assert_array_equal(found, chain.viterbi(layout, node, edge)[1][layout.flat])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_position_decides_a_thousand_others_through_every_piece(sign: float) -> None:
    layout = chains([3, 1000])
    cut = cut_in(layout, 64)
    node, edge = np.zeros((2, 1003)), sign * 1e3 * np.eye(2)
    node[1, cut.whole[layout.flat[[0, 3]]]] = 1.0  # only the first positions tell one label from the other
    found = two_labels.viterbi(cut.layout, cut, node, edge)
    long = np.ones(1000, dtype=int) if sign > 0.0 else np.arange(1, 1001) % 2
    np.testing.assert_array_equal(found, np.concatenate((long[:3], long)))


def test_two_states_are_decoded_by_differences_unless_something_is_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = Observations.read([np.arange(2000) % 3, [0, 1]], 3)
    possible = HiddenMarkovModels.read([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    never = HiddenMarkovModels.read([0.5, 0.5], [[1.0, 0.0], [0.2, 0.8]], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    wanted = [model.decode(observed)[0] for model in (possible, never)]
    with monkeypatch.context() as patched:
        patched.setattr(two_labels, "viterbi", lambda *_: None)
        for model, labels in zip((possible, never), wanted):
            np.testing.assert_array_equal(model.decode(observed)[0], labels)
    monkeypatch.setattr(long_viterbi, "viterbi", lambda *_: pytest.fail("the general recursion ran"))
    possible.decode(observed)
    with pytest.raises(pytest.fail.Exception, match="general"):
        never.decode(observed)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tables", [([[1.0, 0.0]] * 2, [[0.5, 0.5]] * 2), ([[0.9, 0.1]] * 2, [[1.0, 0.0]] * 2)])
def test_what_is_impossible_from_both_states_is_decoded_without_a_warning(tables: tuple[Any, Any]) -> None:
    observed = Observations.read([[0, 0, 1], [0], [1, 0]], 2)
    assert HiddenMarkovModels.read([0.7, 0.3], *tables).decode(observed)[0].tolist() == [0] * 6
