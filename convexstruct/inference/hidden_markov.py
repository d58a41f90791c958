"""Hidden Markov models as tables of probabilities, the sequences they emit, and the most probable states.

Several models stand in one array, whose first axis is the model; `convexstruct.inference.baum_welch` trains them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Matrix, Tensor, Vector
from convexstruct.features.counts.counts import example_weights
from convexstruct.features.example_files import InFiles, Stored
from convexstruct.graphs import Chains, chains
from convexstruct.oracles.chain import chain, long_viterbi, two_labels
from convexstruct.oracles.chain.pieces import Pieces, pieces
from convexstruct.tolerances import SUM_TO_ONE
from convexstruct.validation.arguments import sentence, sequence, sized, whole
from convexstruct.validation.arrays import frozen, raw, real, wholes


class Arranged(NamedTuple):
    """Observations in the order of the E step: whole chains, or the pieces into which long chains are ``cut``.

    symbols (C, P), share (P,): in the packed order of ``layout``; share is None where all weights are 1.
    first (N,): packed rows of the first positions of the chains, in their sorted order.
    """

    layout: Chains
    cut: Pieces | None
    symbols: Labels
    share: Vector | None
    first: Index


@dataclass(frozen=True, eq=False)
class Observations:
    """Sequences of symbols; made by `Observations.read`.

    chains : the layout. symbols (P, C) : of each channel at each packed position. n_symbols : M, of every channel.
    weights (N,) : omega_k, how often each sequence counts; None : 1 each.
    """

    chains: Chains
    symbols: Labels
    n_symbols: int
    weights: Vector | None = None

    @classmethod
    def read(cls, symbols: Sequence[ArrayLike], n_symbols: int, weights: ArrayLike | None = None) -> Observations:
        """symbols : a list of arrays (T_k,), or (T_k, C) where a step shows several; whole numbers 0 .. M - 1.
        ValueError if there is no sequence, one is empty, channels differ in number, a symbol is out of range, or a
        weight is not a positive number."""
        given = sequence("symbols", symbols, "a list of at least one sequence", least=1)
        most = whole("n_symbols", n_symbols, least=1) - 1
        shape: tuple[int | str, ...] = ("length",)
        if raw("symbols[0]", given[0]).ndim == 2:
            shape = ("length", wholes("symbols[0]", given[0], ("length", "channels")).shape[1])
        arrays = [wholes(f"symbols[{k}]", one, shape, least=0, most=most) for k, one in enumerate(given)]
        layout = chains([len(one) for one in arrays])
        seen = np.concatenate(arrays).reshape(layout.n_positions, -1)
        omega = None if weights is None else example_weights(weights, len(arrays))
        return cls(layout, frozen(seen[layout.packed]), most + 1, omega)

    @property
    def weight(self) -> float:
        """sum_k omega_k T_k, the number of positions with their weights."""
        return float(self.chains.n_positions if self.weights is None else self.weights @ self.chains.lengths)

    def some(self, which: slice) -> Observations:
        """Some of the sequences, in their order."""
        layout = chains(self.chains.lengths[which])
        rows = self.chains.flat[np.concatenate(np.split(np.arange(len(self.symbols)), self.chains.first[1:])[which])]
        weights = None if self.weights is None else self.weights[which]
        return Observations(layout, frozen(self.symbols[rows][layout.packed]), self.n_symbols, weights)

    @cached_property
    def _arranged(self) -> dict[int, Arranged]:
        return {}

    def arranged(self, n_states: int = 0) -> Arranged:
        """The observations in the order of the pieces for models of so many states; in that of the chains for 0, and
        where no chain is cut. Computed once for each ``n_states``."""
        if n_states not in self._arranged:
            cut = pieces(self.chains, n_states) if n_states else None
            layout = self.chains if cut is None else cut.layout
            rows = np.arange(layout.n_positions) if cut is None else cut.whole
            symbols = np.empty(self.symbols.T.shape, dtype=np.intp)
            symbols[:, rows] = self.symbols.T
            share = None
            if self.weights is not None:
                share = np.empty(layout.n_positions)
                share[rows] = self.weights[self.chains.chain]
            self._arranged[n_states] = Arranged(layout, cut, symbols, share, rows[: self.chains.n_chains])
        return self._arranged[n_states]


class FiledObservations(InFiles):
    """In place of the `Observations` of sequences in files."""

    needs: ClassVar[Collection[str]] = ("symbols",)
    alike: ClassVar[Collection[str]] = ("n_symbols",)

    @staticmethod
    def made(stored: Stored) -> Observations:
        layout = chains(np.diff(stored.start))
        weights = stored.weights if (stored.weights != 1.0).any() else None
        return Observations(layout, frozen(stored.symbols[layout.packed, None]), stored.sizes["symbols"], weights)


@dataclass(frozen=True, eq=False)
class HiddenMarkovModels:
    """R hidden Markov models of S states, C channels and M symbols; probabilities.

    initial (R, S). transition (R, S, S) [previous, current]. emission (R, C, S, M).
    """

    initial: Matrix
    transition: Tensor
    emission: Tensor

    @classmethod
    def read(cls, initial: Any, transition: Any, emission: Any) -> HiddenMarkovModels:
        """One model: initial (S,), transition (S, S), emission (S, M), or (C, S, M) of several channels. ValueError if
        a shape does not fit, or a row is no distribution."""
        first = real("initial", initial, ("states",), what="probabilities", least=0)
        s = len(first)
        pairs = real("transition", transition, (s, s), what="probabilities", least=0)
        shapes = ((s, "symbols"), ("channels", s, "symbols"))
        seen = real("emission", emission, *shapes, what="probabilities", least=0)
        for name, table in (("initial", first), ("transition", pairs), ("emission", seen)):
            away = float(np.abs(table.sum(axis=-1) - 1.0).max())
            if away > SUM_TO_ONE:
                raise sentence(f"{name} has a row whose sum is off 1 by {away:g}, wanted rows that sum to 1")
        return cls(first[None], pairs[None], seen.reshape(1, -1, s, seen.shape[-1]))

    @property
    def n_models(self) -> int:
        return len(self.initial)

    @property
    def n_states(self) -> int:
        return int(self.initial.shape[1])

    def some(self, which: Index | list[int]) -> HiddenMarkovModels:
        """Some of the models, in the order given."""
        return HiddenMarkovModels(self.initial[which], self.transition[which], self.emission[which])

    def check(self, observed: Observations) -> None:
        """ValueError unless the models have the channels and symbols of ``observed``, and are not too many."""
        c, s, m = self.emission.shape[1:]
        seen = observed.symbols
        if (c, m) != (seen.shape[1], observed.n_symbols):
            raise sentence(
                f"observed has {seen.shape[1]} channels of {observed.n_symbols} symbols, wanted {c} of {m} as the model"
            )
        sized("the number of models", self.n_models, self.n_models * len(seen) * s)

    def scores(self, observed: Observations) -> Tensor:
        """Log probability of the symbols of each position given its state, plus, at the first position of a sequence,
        that of the initial state; (R, P, S), packed."""
        self.check(observed)
        return np.ascontiguousarray(self.logs(observed.arranged()).transpose(0, 2, 1))

    def logs(self, data: Arranged) -> Tensor:
        """`scores` with other axes, (R, S, P), at the positions of ``data``."""
        with np.errstate(divide="ignore"):
            logs, initial = np.log(self.emission), np.log(self.initial)
        node: Tensor = np.take(logs[:, 0], data.symbols[0], axis=2)
        for c, column in enumerate(data.symbols[1:], start=1):
            node += logs[:, c][:, :, column]
        node[:, :, data.first] += initial[:, :, None]
        return node

    def decode(self, observed: Observations) -> list[Labels]:
        """The most probable states (Viterbi), one array (P,) a model, sequence after sequence."""
        self.check(observed)
        data = observed.arranged(self.n_states)
        with np.errstate(divide="ignore"):
            edges = np.log(self.transition)
        decoded = []
        for r, (node, edge) in enumerate(zip(self.logs(data), edges)):
            labels = two_labels.viterbi(data.layout, data.cut, node, edge) if self.n_states == 2 else None
            if labels is None and data.cut is not None:
                labels = long_viterbi.viterbi(data.cut, node, edge)
                labels = None if labels is None else labels[data.layout.flat]
            if labels is not None:
                decoded.append(labels)
            else:
                whole = node.T if data.cut is None else self.some([r]).scores(observed)[0]
                decoded.append(chain.viterbi(observed.chains, whole, edge)[1][observed.chains.flat])
        return decoded


def random_models(
    n_models: int, n_states: int, n_symbols: int, seed: int = 0, n_channels: int = 1
) -> HiddenMarkovModels:
    """Starts: every row of every table uniform on the simplex. ValueError if a number is out of its range."""
    r, s = whole("n_models", n_models, least=1), whole("n_states", n_states, least=1)
    m, c = whole("n_symbols", n_symbols, least=1), whole("n_channels", n_channels, least=1)
    sized("n_models", r, r * s * max(s, c * m))
    rng = np.random.default_rng(whole("seed", seed, least=0))
    shapes = ((r, s), (r, s, s), (r, c, s, m))
    drawn = [np.maximum(rng.exponential(size=shape), np.finfo(float).tiny) for shape in shapes]
    return HiddenMarkovModels(*(each / each.sum(axis=-1, keepdims=True) for each in drawn))
