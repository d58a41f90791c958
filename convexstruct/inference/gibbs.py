"""Gibbs sampling of `Factors`, many chains at once: for graphs too wide for exact samples (paper 4, 20.6).

A sweep draws each variable anew from its conditional given all others. Variables of one colour of the graph share no
factor, so all of them, in all chains, are drawn at once: a sweep of a grid is two draws of half its variables.

A sweep leaves p unchanged. Chains that start from another distribution come near p only after many sweeps; how many is
not known. Where joint labels are forbidden, chains must start without them, and they may never come near p: changes of
one label at a time need not lead from every allowed labelling to every other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import networkx as nx
import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Tensor, Vector
from convexstruct.features.graphs.factors import Factors
from convexstruct.oracles.blocks import BLOCK


class Colour(NamedTuple):
    """Variables of one colour with the same number of labels.

    variables (K,). card : the number of their labels. factors (K, F) : the factors that hold each variable; strides
    (K, F) : how far an entry of each moves where the label rises by 1. Where a variable has fewer than F factors, the
    rest of its row is filled with an index beyond the last factor, and stride 0.
    """

    variables: Index
    card: int
    factors: Index
    strides: Index


@dataclass(frozen=True, eq=False)
class Gibbs:
    """The sampler of some factors."""

    factors: Factors

    @cached_property
    def colours(self) -> tuple[Colour, ...]:
        """The groups of variables that are drawn at once, in the order of a sweep."""
        factors = self.factors
        colouring = nx.greedy_color(factors.graph, strategy="largest_first")
        alike: dict[tuple[int, int], list[int]] = {}
        for v, card in enumerate(factors.cards):
            if card > 1:
                alike.setdefault((colouring[v], card), []).append(v)
        found = []
        for (_, card), variables in sorted(alike.items()):
            holding = [factors.holding(v) for v in variables]
            most = max(len(held) for held, _ in holding)
            which = np.full((len(variables), most), len(factors.scopes), dtype=np.intp)
            strides = np.zeros_like(which)
            for row, (held, steps) in enumerate(holding):
                which[row, : len(held)] = held
                strides[row, : len(held)] = steps
            found.append(Colour(np.array(variables, dtype=np.intp), card, which, strides))
        return tuple(found)

    def sweeps(self, flat: Vector, samples: Labels, n: int, rng: np.random.Generator) -> Labels:
        """``samples`` (m, variables) after ``n`` sweeps under the stacked tables ``flat`` (T,) = A theta; each row is a
        chain of its own."""
        largest = max((each.card * each.factors.size for each in self.colours), default=1)
        piece = max(1, BLOCK // largest)
        parts = [self._sweeps(flat, samples[low : low + piece], n, rng) for low in range(0, len(samples), piece)]
        return np.concatenate(parts) if parts else samples.copy()

    def _sweeps(self, flat: Vector, samples: Labels, n: int, rng: np.random.Generator) -> Labels:
        x, m = samples.copy(), len(samples)
        padded = np.append(self.factors.masked(flat), 0.0)
        entries = np.column_stack((self.factors.entries(x), np.full(m, len(flat))))
        for _ in range(n):
            for each in self.colours:
                deadline.check()
                old = x[:, each.variables]
                base = entries[:, each.factors] - old[:, :, None] * each.strides
                moves = np.arange(each.card)[:, None, None] * each.strides
                scores = padded[base[None] + moves[:, None]].sum(axis=3)  # (card, m, K)
                new = _drawn(scores, rng.random(old.shape))
                # a factor holds at most one variable of a colour; the column beyond the last keeps its value
                entries[:, each.factors] = base + new[:, :, None] * each.strides
                x[:, each.variables] = new
        return x


def _drawn(scores: Tensor, uniform: Tensor) -> Labels:
    """A label of each softmax over axis 0, by the inverse of its distribution function."""
    p = np.exp(scores - scores.max(axis=0))
    below = np.cumsum(p, axis=0)
    return np.asarray((below[:-1] <= uniform * below[-1]).sum(axis=0), dtype=np.int64)
