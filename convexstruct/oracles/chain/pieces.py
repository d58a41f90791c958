"""Few long chains cut into many short pieces, so that each step of a recursion runs over many pieces at once.

A recursion over one chain of 10,000 positions takes 10,000 steps of a few numbers each, and nearly all of its time is
spent in the interpreter. Cut into 100 pieces it takes 100 steps, but the messages that arrive at the cuts are not
known. They are guessed in the first round over the pieces, and in the next taken from the end of the piece before. The
influence of the first message falls along a piece, so that mostly the messages at the cuts no longer change in the
second round. Each recursion checks this itself, and runs over the whole chains where they do change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convexstruct.arrays import Flags, Index
from convexstruct.graphs import Chains, chains, starts

#: Numbers (labels times pieces) in one step: with so many a step takes longer than the overhead of its calls.
NUMBERS_A_STEP = 8192
#: The smallest length of a piece: along a longer piece the influence of its first message falls further.
SHORTEST_PIECE = 64
#: Chains are cut where this leaves at most this share of the steps, for each piece is run over twice or more.
STEPS_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of chains, laid out as chains of their own; their flat order is that of the whole chains.

    layout : the pieces as chains. later (K,) : packed rows of the first positions of pieces that continue another, all
    of them rows of the first step. earlier (K,) : packed rows of the last positions of the pieces that they continue.
    whole (P,) : the row in the pieces' packed order of each row in the chains' packed order.
    """

    layout: Chains
    later: Index
    earlier: Index
    whole: Index

    @cached_property
    def rank(self) -> Index:
        """The number of pieces before each piece in its chain, in the caller's order; shape (pieces,)."""
        return _since_false(self._goes_on)

    @cached_property
    def left(self) -> Index:
        """The number of pieces after each piece in its chain, in the caller's order; shape (pieces,)."""
        return _since_false(np.append(self._goes_on[1:], False)[::-1])[::-1]

    @cached_property
    def _goes_on(self) -> Flags:
        goes_on: Flags = np.zeros(self.layout.n_chains, dtype=bool)
        goes_on[self.layout.order[self.later]] = True
        return goes_on

    @cached_property
    def before(self) -> Index:
        """Packed row of the position before each packed row, in its piece or the one before; -1 where there is none."""
        rows = np.full(self.layout.n_positions, -1, dtype=np.intp)
        rows[self.layout.later], rows[self.later] = self.layout.previous, self.earlier
        return rows

    @cached_property
    def after(self) -> Index:
        """Packed row of the position after each packed row; -1 where there is none."""
        rows = np.full(self.layout.n_positions, -1, dtype=np.intp)
        rows[self.layout.previous], rows[self.earlier] = self.layout.later, self.later
        return rows


def pieces(layout: Chains, n_labels: int) -> Pieces | None:
    """Pieces of a length suited to ``n_labels``; None where cutting would not save time."""
    length = max(SHORTEST_PIECE, layout.n_positions * n_labels // NUMBERS_A_STEP)
    return cut_in(layout, length) if length <= STEPS_SHARE * layout.n_steps else None


def cut_in(layout: Chains, length: int) -> Pieces:
    """Cut every chain into as few pieces of at most ``length`` positions as can be, all of about equal length."""
    parts = -(-layout.lengths // length)
    cut = np.concatenate([np.diff(np.arange(k + 1) * n // k) for n, k in zip(layout.lengths, parts)])
    each = chains(cut)
    goes_on = np.ones(len(cut), dtype=bool)
    goes_on[starts(parts)[:-1]] = False
    later = np.flatnonzero(goes_on)
    return Pieces(each, each.flat[each.first[later]], each.last[later - 1], each.flat[layout.packed])


def _since_false(flags: Flags) -> Index:
    """The distance of each place from the last one before it that is False; the first is False."""
    at = np.arange(len(flags), dtype=np.intp)
    return np.asarray(at - np.maximum.accumulate(np.where(flags, 0, at)))
