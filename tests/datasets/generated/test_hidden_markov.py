from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest

from convexstruct.datasets.generated.hidden_markov import SYNTHETIC, hidden_markov


@pytest.mark.parametrize("move", SYNTHETIC.values())
def test_states_move_and_symbols_differ_with_the_probability_asked_for(move: float) -> None:
    assert [len(s) for s in hidden_markov().symbols] == [8] * 10  # the paper's sizes
    data = hidden_markov(move, n_sequences=300, length=40, seed=3)
    states, symbols = np.array(data.states), np.array(data.symbols)
    for hits in (states[:, 1:] != states[:, :-1], symbols != states):
        assert binomtest(int(hits.sum()), hits.size, move).pvalue > 1e-4
    assert binomtest(int(states[:, 0].sum()), 300, 0.5).pvalue > 1e-4


def test_the_oracle_is_the_most_probable_of_all_state_sequences() -> None:
    move = 0.8
    data = hidden_markov(move, n_sequences=6, length=5, seed=4)
    for seen, found in zip(data.symbols, data.viterbi()):

        def probability(y: tuple[int, ...], seen: np.ndarray = seen) -> float:
            moves = sum(a != b for a, b in itertools.pairwise(y)) + int((np.array(y) != seen).sum())
            return move**moves * (1 - move) ** (2 * len(y) - 1 - moves)

        best = max(probability(y) for y in itertools.product(range(2), repeat=5))
        assert probability(tuple(found.tolist())) == pytest.approx(best)
