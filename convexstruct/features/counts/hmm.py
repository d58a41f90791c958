"""Counts of a hidden Markov model, for a batch of sequences of unequal lengths.

    P(states, symbols) = P(s_1) prod_t P(s_t | s_{t-1}) prod_t prod_o P_o(x_{t,o} | s_t)

A state emits one symbol, or one by each of C channels, which are independent given the state and have a table each:
such a model is a Bayesian network (a chain of states, C leaves at each), read here as a chain so that the fast
recursions for chains apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.brief import brief
from convexstruct.features.counts.counts import Examples, Expected, example_weights
from convexstruct.graphs import Chains, TableLayout, as_sequences, chains, hmm_tables
from convexstruct.losses import Costs, cost_matrix
from convexstruct.oracles.chain import chain
from convexstruct.validation.arguments import sequence, whole
from convexstruct.validation.arrays import flags, frozen, is_list_of_tables, real, wholes


@dataclass(frozen=True, eq=False)
class HMMCounts:
    """Counts of a hidden Markov model: initial, transition and emissions, for a batch of sequences.

    Made by `HMMCounts.read`. Arrays of positions are in packed order (see `convexstruct.graphs.Chains`); labellings
    that methods take and return are in the caller's order.

    Attributes
    ----------
    n_states, n_symbols : S and M, the same for every channel.
    chains : the layout of the batch.
    symbols : (P,) observed symbol at each packed position, or (P, C), those of C channels. theta has the tables
        "initial" (S,), "transition" (S, S) and "emission" (S, M), or "emission 0" .. "emission C - 1".
    states : (P,) true state at each packed position.
    loss_table, loss_row : the loss of state s at packed row p is loss_table[loss_row[p], s].
    observed : packed rows whose state is observed, not hidden.
    weights : (K,) example weights.
    """

    n_states: int
    n_symbols: int
    chains: Chains
    symbols: Labels
    states: Labels
    loss_table: Matrix
    loss_row: Index
    observed: Index
    weights: Vector
    tables: TableLayout = field(init=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        tables = hmm_tables(self.n_states, self.n_symbols)
        if self.symbols.ndim == 2:
            names, shapes = tables.names[:2], tables.shapes[:2]
            names += tuple(f"emission {o}" for o in range(self.n_channels))
            tables = TableLayout(names, shapes + tables.shapes[2:] * self.n_channels)
        object.__setattr__(self, "tables", tables)

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
    ) -> HMMCounts:
        """Validate and lay out a batch of sequences.

        Parameters
        ----------
        symbols, states : K integer sequences each, of equal lengths pair by pair; what was seen, and the true states.
            With channels symbols are K integer tables (T_k, C).
        n_states, n_symbols : S and M; states are 0 .. S - 1, symbols 0 .. M - 1.
        loss : "hamming", "ring", a cost matrix cost[true, predicted] (S, S), a function (true, predicted) -> cost, or
            one table (T_k, S) a sequence, any non-negative node loss that is zero on the truth.
        hidden : K boolean sequences, True where the state is to be predicted (default: everywhere); the rest is known.
        weights : (K,) positive weights of the examples (default: one).

        Raises
        ------
        ValueError
            If lengths or numbers of channels do not match, a symbol or state is out of range, a sequence hides no
            position, or a loss is negative or not 0 on the truth.
        """
        hmm_tables(n_states, n_symbols)
        several = is_list_of_tables(symbols)
        seen, lengths = (_as_tables if several else as_sequences)("symbols", symbols, n_symbols)
        true, state_lengths = as_sequences("states", states, n_states)
        if len(lengths) != len(state_lengths):
            raise ValueError(f"states holds {len(state_lengths)} sequences, wanted as many as symbols: {len(lengths)}")
        if (lengths != state_lengths).any():
            k = int(np.flatnonzero(lengths != state_lengths)[0])
            raise ValueError(f"states[{k}] has length {state_lengths[k]}, wanted that of symbols[{k}]: {lengths[k]}")
        layout = chains(lengths)
        order = layout.packed
        observed = np.zeros(0, dtype=np.intp)
        if hidden is not None:
            wanted = "one boolean sequence for each sequence of symbols, of its length"
            given = sequence("hidden", hidden, wanted, length=len(lengths))
            masks = [flags(f"hidden[{k}]", mask, (int(n),)) for k, (mask, n) in enumerate(zip(given, lengths))]
            for k, mask in enumerate(masks):
                if not mask.any():
                    raise ValueError(f"hidden[{k}] is nowhere true, wanted at least one hidden position")
            observed = np.flatnonzero(~np.concatenate(masks)[order]).astype(np.intp)
        truth = true[order]
        table, row = _loss_rows(loss, truth, layout, n_states, observed)
        return cls(
            int(n_states), int(n_symbols), layout, seen[order], truth, table, row, observed,
            example_weights(weights, len(lengths)),
        )  # fmt: skip

    @cached_property
    def channels(self) -> Labels:
        """The symbols as (P, C), C = 1 without channels."""
        return self.symbols.reshape(len(self.symbols), -1)

    @property
    def n_channels(self) -> int:
        return int(self.channels.shape[1])

    @cached_property
    def examples(self) -> Examples:
        layout = self.chains
        free = np.ones(layout.n_positions, dtype=bool)
        free[layout.packed[self.observed]] = False
        worst = self.loss_table.max(axis=1)[self.loss_row]
        max_loss = np.bincount(layout.chain, weights=worst, minlength=layout.n_chains).astype(np.float64)
        example = np.repeat(np.arange(layout.n_chains), layout.lengths)
        cards = np.full(layout.n_positions, self.n_states, dtype=np.intp)
        return Examples(self.weights, self.states[layout.flat], example, cards, free, max_loss)

    def scores(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Matrix, Matrix]:
        """Node (P, S), packed, and edge (S, S) score tables of theta' counts + loss_weight * loss."""
        s, n = self.n_states, self.n_symbols
        emissions = theta[s + s * s :].reshape(self.n_channels, s, n).transpose(0, 2, 1)
        node = self._uses @ np.concatenate((emissions.reshape(-1, s), loss_weight * self.loss_table))
        parts = self.tables.tables(theta)
        node[: self.chains.n_chains] += parts["initial"]
        if len(self.observed):
            known = self.states[self.observed]
            kept = node[self.observed, known]
            node[self.observed] = -np.inf
            node[self.observed, known] = kept
        return node, np.ascontiguousarray(parts["transition"])

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        values, labels = chain.viterbi(self.chains, *self.scores(theta, loss_weight))
        return values, labels[self.chains.flat]

    def expected(self, theta: Vector, loss_weight: float = 1.0, share: Vector | None = None) -> Expected:
        weights = self.weights if share is None else self.weights * share
        even = bool((weights == 1.0).all())
        sums = chain.sum_product(self.chains, *self.scores(theta, loss_weight), weights=None if even else weights)
        c, m, s = self.n_channels, self.n_symbols, self.n_states
        node = sums.node if share is None else sums.node * share[self.chains.chain][:, None]
        by_symbol, by_loss = np.split(self._gather @ node, [c * m])
        initial = weights[self.chains.order] @ sums.node[: self.chains.n_chains]
        emissions = by_symbol.reshape(c, m, s).transpose(0, 2, 1)
        counts = np.concatenate((initial, sums.edge.ravel(), emissions.ravel()))
        return Expected(sums.log_partition, counts, float((by_loss * self.loss_table).sum()))

    def counts(self, labels: Labels, share: Vector | None = None) -> Vector:
        weights = self.weights if share is None else self.weights * share
        columns = self._columns(labels[self.chains.packed])
        rows = weights[self._example]
        return np.bincount(columns, weights=rows, minlength=self.tables.dimension).astype(np.float64)

    def counts_each(self, labels: Labels) -> sp.csr_array:
        columns = self._columns(labels[self.chains.packed])
        shape = (self.chains.n_chains, self.tables.dimension)
        return sp.csr_array(sp.coo_array((np.ones(len(columns)), (self._example, columns)), shape=shape))

    def loss(self, labels: Labels) -> Vector:
        each = self.loss_table[self.loss_row, labels[self.chains.packed]]
        return np.bincount(self.chains.chain, weights=each, minlength=self.chains.n_chains).astype(np.float64)

    def _columns(self, states: Labels) -> Labels:
        """The entries of theta used: initial (N), transitions (P - N), emissions (P C); states in packed order."""
        s, m = self.n_states, self.n_symbols
        transition = states[self.chains.previous] * s + states[self.chains.later]
        table = s + s * s + np.arange(self.n_channels) * (s * m)
        emission = table + states[:, None] * m + self.channels
        return np.concatenate((states[: self.chains.n_chains], s + transition, emission.ravel()))

    @cached_property
    def _example(self) -> Index:
        """The example of each entry of `_columns`."""
        chain_of = self.chains.chain  # initial entries and transitions are one a position, in packed order
        return np.concatenate((chain_of, np.repeat(chain_of, self.n_channels)))

    @cached_property
    def _uses(self) -> sp.csr_array:
        """(P, C M + R), 1 where a packed position shows a symbol on a channel, and at its row of the loss table."""
        p, m = self.chains.n_positions, self.n_channels * self.n_symbols
        columns = np.column_stack((np.arange(self.n_channels) * self.n_symbols + self.channels, m + self.loss_row))
        starts = np.arange(0, columns.size + 1, columns.shape[1])
        return sp.csr_array((np.ones(columns.size), columns.ravel(), starts), shape=(p, m + len(self.loss_table)))

    @cached_property
    def _gather(self) -> sp.csr_array:
        """The matrix that sums weighted packed positions by symbol and by row of the loss table; (C M + R, P)."""
        return sp.csr_array(self._uses.T.multiply(self.weights[self.chains.chain]))


def _as_tables(name: str, tables: Sequence[ArrayLike], n_values: int) -> tuple[Labels, Index]:
    """As `as_sequences`, for tables (T_k, C) of one number C of channels."""
    most = whole("n_values", n_values, least=1) - 1
    first = wholes(f"{name}[0]", tables[0], ("length", "channels"), least=0, most=most)
    shape = ("length", first.shape[1])
    rest = [wholes(f"{name}[{k}]", each, shape, least=0, most=most) for k, each in enumerate(tables[1:], start=1)]
    return frozen(np.concatenate((first, *rest))), np.array([len(first), *map(len, rest)], dtype=np.intp)


def _loss_rows(
    loss: Costs | Sequence[ArrayLike], truth: Labels, layout: Chains, n_states: int, observed: Index
) -> tuple[Matrix, Index]:
    """Read a loss as (table, row of the table at each packed position)."""
    if is_list_of_tables(loss):
        wanted = "a cost matrix, or one table for each sequence"
        given = sequence("loss", loss, wanted, length=layout.n_chains)
        each = [
            real(f"loss[{k}]", t, (int(n), n_states), what="costs", least=0)
            for k, (t, n) in enumerate(zip(given, layout.lengths))
        ]
        table = np.concatenate(each)[layout.packed]
        on_truth = table[np.arange(len(truth)), truth]
        if on_truth.any():
            k = int(layout.chain[np.flatnonzero(on_truth)[0]])
            raise ValueError(f"loss[{k}] is not zero on the truth, wanted 0: the truth costs nothing")
        table[observed] = 0.0
        return table, np.arange(len(truth))
    table = cost_matrix(loss, n_states)  # type: ignore[arg-type]
    row = truth.astype(np.intp)
    if len(observed):
        table = np.vstack((table, np.zeros(n_states)))
        row[observed] = n_states
    return table, row
