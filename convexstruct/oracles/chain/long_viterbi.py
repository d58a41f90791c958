"""Viterbi on few long chains, cut into pieces so that each step runs over many pieces at once.

The score maximised is that of `convexstruct.oracles.chain.chain.viterbi`; -inf forbids a label or pair. First all
pieces (`convexstruct.oracles.chain.pieces`) are run over at once, as if each began a chain. Then messages are computed
again from each cut onwards until the new message equals the old one plus a constant: from there on both lead to the
same labels, mostly after a few positions. Labels are read backwards likewise, as if each piece ended a chain, and read
again from each cut backwards until a label does not change.

Neither adding scores nor taking maxima increases the range of the difference of two messages. So the score found is
below the best by at most twice the sum of the ranges that were accepted as agreement, one for each cut, each as small
as rounding (`AGREES`).
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Labels, Matrix
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.pieces import Pieces
from convexstruct.oracles.chain.sums import BLOCK

#: Two messages agree if their difference has a range of at most this share of their largest finite entry.
AGREES = 1e-13
#: Where messages do not agree within this many pieces after a cut, the method gives up: whole chains are faster then.
PIECES = 8


def viterbi(cut: Pieces, node: Matrix, edge: Matrix) -> Labels | None:
    """Best labels (P,), in the packed order of the pieces.

    node (S, P) : scores in that order, labels along the first axis. None where messages do not agree within `PIECES`
    pieces after a cut, as where labels hardly ever change. Which of several best labellings is found depends on
    rounding.
    """
    layout = cut.layout
    message = node.copy()
    size = max(1, BLOCK // edge.size)
    room = np.empty((*edge.shape, min(size, layout.n_chains)))
    for t in range(1, layout.n_steps):
        before, begin, n = int(layout.start[t - 1]), int(layout.start[t]), int(layout.active[t])
        for low in range(0, n, size):
            high = min(n, low + size)
            terms = room[:, :, : high - low]
            np.add(message[:, None, before + low : before + high], edge[:, :, None], out=terms)
            message[:, begin + low : begin + high] += terms.max(axis=0)
    if not _mend_messages(cut, node, edge, message):
        return None
    labels = _read(layout, message, edge)
    _mend_labels(cut, message, edge, labels)
    return labels


def _mend_messages(cut: Pieces, node: Matrix, edge: Matrix, message: Matrix) -> bool:
    """Compute messages again from each cut until they agree with the old ones; False if some do not within `PIECES`
    pieces."""
    rows = cut.later
    for _ in range(PIECES * cut.layout.n_steps):
        if not len(rows):
            return True
        new = node[:, rows] + (message[:, None, cut.before[rows]] + edge[:, :, None]).max(axis=0)
        old = message[:, rows]
        with np.errstate(invalid="ignore"):
            apart = new - old
        same = np.isneginf(new) & np.isneginf(old)
        spread = apart.max(axis=0, where=~same, initial=-np.inf) - apart.min(axis=0, where=~same, initial=np.inf)
        largest = np.abs(new).max(axis=0, where=np.isfinite(new), initial=0.0)
        changed = ~(spread <= AGREES * largest)
        message[:, rows[changed]] = new[:, changed]
        rows = cut.after[rows[changed]]
        rows = rows[rows >= 0]
    return not len(rows)


def _read(layout: Chains, message: Matrix, edge: Matrix) -> Labels:
    """Labels (P,) of each piece, read backwards from the best label of its end."""
    labels = np.empty(layout.n_positions, dtype=np.int64)
    current = np.zeros(0, dtype=np.int64)
    for t in range(layout.n_steps - 1, -1, -1):
        rows = layout.rows(t)
        here = message[:, rows].copy()
        here[:, : len(current)] += edge[:, current]
        current = here.argmax(axis=0)
        labels[rows] = current
    return labels


def _mend_labels(cut: Pieces, message: Matrix, edge: Matrix, labels: Labels) -> None:
    """Read labels again backwards from each cut, as long as they change."""
    rows = cut.earlier
    while len(rows):
        found = (message[:, rows] + edge[:, labels[cut.after[rows]]]).argmax(axis=0)
        changed = found != labels[rows]
        labels[rows[changed]] = found[changed]
        rows = cut.before[rows[changed]]
        rows = rows[rows >= 0]
