"""Few long chains as many short pieces, so that the steps of a recursion run over many pieces abreast.

A recursion over one chain of 10,000 positions takes 10,000 steps of a few numbers each, and nearly all of its time is
the interpreter's. Cut in 100 pieces it takes 100 steps, if only the messages that arrive at the cuts were known. They
are guessed, and taken from the piece before as soon as that has run: a message forgets where it began as it runs on,
so that mostly the second round begins where the first one ended. Whoever recurs checks that by himself, and falls back
on the whole chains where messages do not agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convexstruct.arrays import Index
from convexstruct.graphs import Chains, chains, starts

#: So many numbers (labels times pieces) are worked on abreast: a step then takes longer than the calls that start it.
ABREAST = 8192
#: Positions of a piece, at least: the longer it is, the more its messages forget.
LEAST = 64
#: Chains are cut where that leaves less than this share of the steps: each piece is run over twice or more.
FEWER = 0.2


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of chains, laid out as chains of their own; their flat order is that of the whole chains.

    layout : of the pieces. later (K,) : packed rows of the first positions of pieces that go on from another, all of
    them rows of the first step. earlier (K,) : packed rows of the last positions of these others. whole : packed rows
    of the pieces' layout, in the packed order of the chains'.
    """

    layout: Chains
    later: Index
    earlier: Index
    whole: Index

    @cached_property
    def before(self) -> Index:
        """Packed row of the position before each packed row, in its piece or the one before; -1 : there is none."""
        rows = np.full(self.layout.n_positions, -1, dtype=np.intp)
        rows[self.layout.later], rows[self.later] = self.layout.previous, self.earlier
        return rows

    @cached_property
    def after(self) -> Index:
        """Packed row of the position after each packed row; -1 : there is none."""
        rows = np.full(self.layout.n_positions, -1, dtype=np.intp)
        rows[self.layout.previous], rows[self.earlier] = self.layout.later, self.later
        return rows


def pieces(layout: Chains, n_labels: int) -> Pieces | None:
    """Pieces of a length that serves so many labels; None where cutting is not worth it."""
    length = max(LEAST, layout.n_positions * n_labels // ABREAST)
    return cut_in(layout, length) if length <= FEWER * layout.n_steps else None


def cut_in(layout: Chains, length: int) -> Pieces:
    """Cut every chain into as few pieces of at most ``length`` positions as can be, all of about equal length."""
    parts = -(-layout.lengths // length)
    cut = np.concatenate([np.diff(np.arange(k + 1) * n // k) for n, k in zip(layout.lengths, parts)])
    each = chains(cut)
    goes_on = np.ones(len(cut), dtype=bool)
    goes_on[starts(parts)[:-1]] = False
    later = np.flatnonzero(goes_on)
    return Pieces(each, each.flat[each.first[later]], each.last[later - 1], each.flat[layout.packed])
