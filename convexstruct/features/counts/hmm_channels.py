"""Counts of a hidden Markov model that emits several symbols a step, one by each of C channels.

    P(states, symbols) = P(s_1) prod_t P(s_t | s_{t-1}) prod_t prod_o P_o(x_{t,o} | s_t)

Given the state, the channels are independent, and each has a table of its own. The model is a Bayesian network (a chain
of states, C leaves at each), read here as a chain so that the fast recursions for chains apply. With the neighbours of
a position as its channels (`window`), each state emits all symbols near its position; a symbol then counts once for
each window it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.features.counts.counts import Examples, Expected
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.graphs import Chains, TableLayout
from convexstruct.losses import Costs
from convexstruct.oracles.chain import chain
from convexstruct.validation.arguments import sequence, sized, whole
from convexstruct.validation.arrays import wholes


@dataclass(frozen=True, eq=False)
class ChannelCounts:
    """Counts of a hidden Markov model with C channels; made by `ChannelCounts.read`.

    Attributes
    ----------
    states : the chain of states, with loss and weights; its own emissions, always of one symbol, have score 0.
    symbols : (P, C) symbol of each channel at each packed position.
    n_symbols : M, the same for every channel.
    """

    states: HMMCounts
    symbols: Labels
    n_symbols: int

    @classmethod
    def read(
        cls,
        symbols: Sequence[ArrayLike],
        states: Sequence[ArrayLike],
        n_states: int,
        n_symbols: int,
        loss: Costs | Sequence[ArrayLike] = "hamming",
        hidden: Sequence[ArrayLike] | None = None,
        weights: ArrayLike | None = None,
    ) -> ChannelCounts:
        """Validate and lay out a batch: arguments as in `HMMCounts.read`, but each sequence of symbols is (T_k, C).

        theta has the tables "initial" (S,), "transition" (S, S) and "emission 0" .. "emission C - 1" (S, M) each.
        ValueError as there, and if sequences differ in their number of channels.
        """
        given = sequence("symbols", symbols, "a list of at least one table (length, channels)", least=1)
        most = whole("n_symbols", n_symbols, least=1) - 1
        first = wholes("symbols[0]", given[0], ("length", "channels"), least=0, most=most)
        n_channels = first.shape[1]
        rest = enumerate(given[1:], start=1)
        arrays = [
            first,
            *(wholes(f"symbols[{k}]", each, ("length", n_channels), least=0, most=most) for k, each in rest),
        ]
        blank = [np.zeros(len(array), dtype=np.int64) for array in arrays]
        inner = HMMCounts.read(blank, states, n_states, 1, loss, hidden, weights)
        packed = np.concatenate(arrays).astype(np.int64)[inner.chains.packed]
        return cls(inner, packed, int(n_symbols))

    @property
    def n_channels(self) -> int:
        return int(self.symbols.shape[1])

    @property
    def chains(self) -> Chains:
        return self.states.chains

    @cached_property
    def tables(self) -> TableLayout:
        s, m = self.states.n_states, self.n_symbols
        names = ("initial", "transition", *(f"emission {o}" for o in range(self.n_channels)))
        return TableLayout(names, ((s,), (s, s), *([(s, m)] * self.n_channels)))

    @property
    def examples(self) -> Examples:
        return self.states.examples

    def scores(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Matrix, Matrix]:
        """Node (P, S), packed, and edge (S, S) score tables of theta' counts + loss_weight * loss."""
        node, edge = self.states.scores(self._chain_part(theta), loss_weight)
        node += self._seen @ np.ascontiguousarray(self._emissions(theta).transpose(0, 2, 1).reshape(-1, node.shape[1]))
        return node, edge

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        values, labels = chain.viterbi(self.chains, *self.scores(theta, loss_weight))
        return values, labels[self.chains.flat]

    def expected(self, theta: Vector, loss_weight: float = 1.0) -> Expected:
        sums = chain.sum_product(self.chains, *self.scores(theta, loss_weight), weights=self.states.weights)
        node = sums.node * self.states.weights[self.chains.chain][:, None]
        initial = node[: self.chains.n_chains].sum(axis=0)
        loss = float((node * self.states.loss_table[self.states.loss_row]).sum())
        return Expected(sums.log_partition, self._stack(initial, sums.edge, self._seen.T @ node), loss)

    def counts(self, labels: Labels, share: Vector | None = None) -> Vector:
        inner = self.states.counts(labels, share)
        weights = self.states.weights if share is None else self.states.weights * share
        node = np.zeros((self.chains.n_positions, self.states.n_states))
        node[np.arange(self.chains.n_positions), labels[self.chains.packed]] = weights[self.chains.chain]
        s = self.states.n_states
        return self._stack(inner[:s], inner[s : s + s * s].reshape(s, s), self._seen.T @ node)

    def counts_each(self, labels: Labels) -> sp.csr_array:
        s, m = self.states.n_states, self.n_symbols
        inner = self.states.counts_each(labels)[:, : s + s * s]
        found = labels[self.chains.packed]
        offset = np.arange(self.n_channels) * (s * m)
        columns = (offset + found[:, None] * m + self.symbols).ravel()
        rows = np.repeat(self.chains.chain, self.n_channels)
        shape = (self.chains.n_chains, self.n_channels * s * m)
        outer = sp.csr_array(sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape))
        return sp.csr_array(sp.hstack((inner, outer)))

    def loss(self, labels: Labels) -> Vector:
        return self.states.loss(labels)

    @cached_property
    def _seen(self) -> sp.csr_array:
        """(P, C M), 1 where a packed position shows a symbol on a channel."""
        columns = (np.arange(self.n_channels) * self.n_symbols + self.symbols).ravel()
        starts = np.arange(0, columns.size + 1, self.n_channels)
        shape = (self.chains.n_positions, self.n_channels * self.n_symbols)
        return sp.csr_array((np.ones(columns.size), columns, starts), shape=shape)

    def _chain_part(self, theta: Vector) -> Vector:
        """theta of `states`: the initial and transition tables, and 0 for the emission of its one symbol."""
        s = self.states.n_states
        return np.concatenate((theta[: s + s * s], np.zeros(s)))

    def _emissions(self, theta: Vector) -> Tensor:
        """The emission tables of theta; (C, S, M)."""
        s = self.states.n_states
        return theta[s + s * s :].reshape(self.n_channels, s, self.n_symbols)

    def _stack(self, initial: Vector, transition: Matrix, by_symbol: Matrix) -> Vector:
        """theta's layout from initial (S,), transition (S, S) and sums (C M, S)."""
        s = self.states.n_states
        emissions = np.asarray(by_symbol).reshape(self.n_channels, self.n_symbols, s).transpose(0, 2, 1)
        return np.concatenate((initial, transition.ravel(), emissions.ravel()))


def window(sequences: Sequence[ArrayLike], n_symbols: int, radius: int) -> list[Labels]:
    """The symbols from ``radius`` steps before each position to ``radius`` steps after it, as channels.

    sequences : K integer sequences (T_k,). Returns K arrays (T_k, 2 radius + 1); beyond the ends stands the symbol
    ``n_symbols``, so that there are n_symbols + 1 of them. ValueError if a symbol or a number is out of range.
    """
    radius = whole("radius", radius, least=0)
    most = whole("n_symbols", n_symbols, least=1) - 1
    views = []
    for k, each in enumerate(sequence("sequences", sequences, "a list of at least one sequence", least=1)):
        symbols = wholes(f"sequences[{k}]", each, ("positions",), least=0, most=most)
        sized("radius", radius, len(symbols) * (2 * radius + 1))
        padded = np.pad(symbols, radius, constant_values=n_symbols)
        views.append(np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * radius + 1)))
    return views
