"""The toy tracking problem of paper 0, section 4: a position that moves along a ring and is observed with noise.

    transition = (1 - p_transition) next + p_transition uniform
    emission   = (1 - p_emission) own symbol + p_emission uniform   for the states that have a symbol of their own
                 uniform                                            for the rest (3 of 10 in the paper)

The paper prints "a small probability (about 0.3)" for a random transition and "a small probability", without a number,
for a random symbol. HARD keeps to these words, 0.3 for both. EASY does not: with 0.5 and 0.65 most symbols and half the
transitions are random, which is not small; it is here because its losses come near those that the paper prints. No
setting reproduces all of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.brief import brief
from convexstruct.datasets.generated.hidden_markov import sample
from convexstruct.inference.hidden_markov import HiddenMarkovModels
from convexstruct.validation.arguments import number, sequence, sized, whole
from convexstruct.validation.arguments import seed as read_seed

#: What the argument ``noise`` must be, for messages.
NOISE_WANTED = "the probabilities of a random transition and of a random symbol"


class Noise(NamedTuple):
    """Probabilities of a random transition and of a random symbol."""

    transition: float
    emission: float


#: Its losses come near those that the paper prints, though half the transitions are random.
EASY = Noise(transition=0.5, emission=0.65)
#: The paper's words: "about 0.3" for transitions, and the same for symbols.
HARD = Noise(transition=0.3, emission=0.3)


@dataclass(frozen=True)
class Ring:
    """Sampled sequences and the model they came from.

    symbols, states : lists of integer arrays. n_states, n_symbols : S and M.
    initial (S,), transition (S, S) [previous, current], emission (S, M): the true probabilities.
    """

    symbols: list[Labels]
    states: list[Labels]
    n_states: int
    n_symbols: int
    initial: Vector
    transition: Matrix
    emission: Matrix

    __repr__ = brief


def ring(
    n_sequences: int,
    length: int = 50,
    n_states: int = 10,
    noise: Noise = EASY,
    seed: int = 0,
    n_symbols: int | None = None,
) -> Ring:
    """Sequences of states and symbols, both counted from 0, drawn from the model at the head of this file.

    The first state is uniform, the next of state s is s + 1 modulo S, and the own symbol of state s < M is s.

    Parameters
    ----------
    n_sequences, length : the number of sequences, and of the steps of each. n_states : S. n_symbols : M, by default
        7 S / 10 rounded down, at least 1.
    noise : the probabilities of a random transition and of a random symbol.

    Raises
    ------
    ValueError
        If a number is out of its range: sizes of at least 1, probabilities of random steps from 0 to 1.
    """
    n_sequences, length = whole("n_sequences", n_sequences, least=1), whole("length", length, least=1)
    n_states = whole("n_states", n_states, least=1)
    if n_symbols is not None:
        n_symbols = whole("n_symbols", n_symbols, least=1)
    sized("n_states", n_states, n_states * max(n_states, n_symbols or 0))
    sized("n_sequences", n_sequences, n_sequences * length * max(n_states, n_symbols or 0))
    noise = Noise(*(number("noise", p, least=0, most=1) for p in sequence("noise", noise, NOISE_WANTED, length=2)))
    symbols_count = max(1, (7 * n_states) // 10) if n_symbols is None else n_symbols
    initial = np.full(n_states, 1.0 / n_states)
    transition = np.full((n_states, n_states), noise.transition / n_states)
    transition[np.arange(n_states), (np.arange(n_states) + 1) % n_states] += 1.0 - noise.transition
    emission = np.full((n_states, symbols_count), 1.0 / symbols_count)
    own = np.arange(min(symbols_count, n_states))
    emission[own] = noise.emission / symbols_count
    emission[own, own] += 1.0 - noise.emission
    model = HiddenMarkovModels(initial[None], transition[None], emission[None, None])
    states, symbols = sample(model, n_sequences, length, np.random.default_rng(read_seed("seed", seed)))
    return Ring(list(symbols), list(states), n_states, symbols_count, initial, transition, emission)
