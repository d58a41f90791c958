from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest

from convexstruct.datasets.generated.hidden_markov import SYNTHETIC, hidden_markov


def test_one_seed_gives_one_draw_and_another_seed_another() -> None:
    one, same, other = (hidden_markov(0.9, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.symbols, same.symbols)
    np.testing.assert_array_equal(one.states, same.states)
    assert not np.array_equal(one.symbols, other.symbols)


def test_the_papers_sizes_are_ten_sequences_of_length_eight() -> None:
    data = hidden_markov()
    assert [len(s) for s in data.symbols] == [len(s) for s in data.states] == [8] * 10


@pytest.mark.parametrize("move", SYNTHETIC.values())
def test_states_move_and_symbols_differ_with_the_probability_asked_for(move: float) -> None:
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


def test_without_noise_the_states_are_read_off_the_symbols() -> None:
    data = hidden_markov(1.0, n_sequences=3, length=4, seed=0)
    np.testing.assert_array_equal(data.symbols, 1 - np.array(data.states))
    np.testing.assert_array_equal(data.viterbi(), data.states)
