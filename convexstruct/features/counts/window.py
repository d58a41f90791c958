"""The neighbours of each position of a sequence, as the channels of a hidden Markov model (`HMMCounts`).

Each state then emits all symbols near its position; a symbol counts once for each window it is in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Labels
from convexstruct.validation.arguments import sequence, sized, whole
from convexstruct.validation.arrays import wholes


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
