"""Sequences drawn from hidden Markov models, and the four two-state settings of paper 3, section 4.

The paper's models have two states that emit 0 or 1. In data set 1 "there is a 5% chance of staying in the same state
and a 95% chance of moving to another state", in data sets 2, 3 and 4 a 10%, 20% and 30% chance of staying, and
"emission noise was set equal to the probability of transitioning to the other state". So with p the probability of
moving,

    transition = [[1 - p, p], [p, 1 - p]]        emission = [[1 - p, p], [p, 1 - p]]

read literally: a state emits the *other* symbol with probability p. Since methods are judged up to the names of the
states, this is the same as noise of 1 - p. The paper gives no initial distribution; here it is uniform, which is
stationary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Labels, Matrix
from convexstruct.brief import brief
from convexstruct.inference.hidden_markov import HiddenMarkovModels, Observations
from convexstruct.validation.arguments import number, sized, whole
from convexstruct.validation.arguments import seed as read_seed

#: Paper 3's synthetic data sets: the probability of moving to the other state, and of emitting the other symbol.
SYNTHETIC = {"SYNTH1": 0.95, "SYNTH2": 0.9, "SYNTH3": 0.8, "SYNTH4": 0.7}


@dataclass(frozen=True, eq=False)
class HiddenMarkovChains:
    """Sampled sequences and the model they came from.

    symbols, states : lists of integer arrays. model : one model.
    """

    symbols: list[Labels]
    states: list[Labels]
    model: HiddenMarkovModels

    __repr__ = brief

    def viterbi(self) -> list[Labels]:
        """The most probable states given the symbols and the true parameters: what no training can know."""
        observed = Observations.read(self.symbols, self.model.emission.shape[-1])
        return observed.chains.split(self.model.decode(observed)[0])


def hidden_markov(move: float = 0.95, n_sequences: int = 10, length: int = 8, seed: int = 0) -> HiddenMarkovChains:
    """Sequences of paper 3's two-state model (``SYNTHETIC`` has its values of ``move``).

    move : p, from 0 to 1.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    p = number("move", move, least=0, most=1)
    flip = np.array([[1.0 - p, p], [p, 1.0 - p]])
    n_sequences, length = whole("n_sequences", n_sequences, least=1), whole("length", length, least=1)
    model = HiddenMarkovModels.read([0.5, 0.5], flip, flip)
    states, symbols = sample(model, n_sequences, length, np.random.default_rng(read_seed("seed", seed)))
    return HiddenMarkovChains(list(symbols), list(states), model)


def sample(model: HiddenMarkovModels, n_sequences: int, length: int, rng: np.random.Generator) -> tuple[Labels, Labels]:
    """(states, symbols), each (n_sequences, length), drawn forward from a model of one channel."""
    s, m = model.emission.shape[2:]
    sized("n_sequences", n_sequences, n_sequences * length * max(s, m))
    states = np.empty((n_sequences, length), dtype=np.int64)
    states[:, 0] = _draw(np.broadcast_to(model.initial[0], (n_sequences, s)), rng)
    for t in range(1, length):
        states[:, t] = _draw(model.transition[0][states[:, t - 1]], rng)
    return states, _draw(model.emission[0, 0][states.ravel()], rng).reshape(states.shape)


def _draw(probabilities: Matrix, rng: np.random.Generator) -> Labels:
    """One draw a row, by inversion."""
    cumulative = probabilities.cumsum(axis=1)
    uniform = rng.random(len(probabilities))[:, None] * cumulative[:, -1:]
    return np.asarray((cumulative <= uniform).sum(axis=1).clip(max=probabilities.shape[1] - 1))
