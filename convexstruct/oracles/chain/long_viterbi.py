"""Viterbi on few long chains, cut into pieces so that each step runs over many pieces at once.

The score maximised is that of `convexstruct.oracles.chain.chain.viterbi`; -inf forbids a label or pair. First all
pieces (`convexstruct.oracles.chain.pieces`) are run over at once, as if each began a chain. Then messages are computed
again from each cut onwards until the new message equals the old one plus a constant: from there on both lead to the
same labels, mostly after a few positions. Labels are read backwards likewise, as if each piece ended a chain, and read
again from each cut backwards until a label does not change.

Neither adding scores nor taking maxima increases the range of the difference of two messages. So the score found is
below the best by at most twice the sum of the ranges that were accepted as agreement, one for each cut, each as small
as rounding (`AGREEMENT`).

Where labels hardly ever change, messages do not agree for thousands of positions. Then each piece is summed up by a
matrix, the best score inside it for each label before it and each label at its end. Products of these matrices, with
sums for products and maxima for sums, are the exact messages at the cuts; each doubles the number of pieces covered, so
that there are few (W. Hillis and G. Steele, CACM 29, 1986). The labels before a piece are likewise a table of the label
after it. With S labels this takes S times as long as one run over the pieces.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Labels, Matrix, Tensor
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import column_argmax
from convexstruct.oracles.chain.chain import max_messages
from convexstruct.oracles.chain.pieces import Pieces

#: Two messages agree if their difference has a range of at most this share of the largest finite score of a piece.
AGREEMENT = 1e-13
#: Messages that do not agree within this many pieces after a cut are computed by matrices of the pieces, or on whole
#: chains: a few sequences may stay in one state to the end, where most messages agree soon;
MOST_PIECES = 4
#: and so they are where more than this share does not agree within so many positions. Where states last for 100 steps
#: most messages agree after some 32 positions, where they last for 1000 hardly any.
EARLY_POSITIONS, DISAGREEING_SHARE = 32, 0.9
#: A step over whole chains takes as long as so many sums and maxima of two numbers, mostly in the interpreter.
STEP_NUMBERS = 15_000


def viterbi(cut: Pieces, node: Matrix, edge: Matrix) -> Labels | None:
    """Best labels (P,), in the packed order of the pieces.

    node (S, P) : scores in that order, labels along the first axis. None where messages do not agree within
    `MOST_PIECES` pieces after a cut, and there are so many labels that a run over whole chains is faster than matrices
    of the pieces. Which of several best labellings is found depends on rounding.
    """
    s, layout = len(edge), cut.layout
    message = max_messages(layout, node.copy(), edge)
    if _mend_messages(cut, node, edge, message):
        labels = _read(layout, message, edge)
        _mend_labels(cut, message, edge, labels)
        return labels
    if s**3 * layout.n_positions > STEP_NUMBERS * layout.n_steps * (int(cut.rank.max()) + 1):
        return None
    message = node.copy()
    message[:, cut.later] += _times(_arriving(cut, node, edge)[None], edge)[0]
    return _read_joined(cut, max_messages(layout, message, edge), edge)


def _times(first: Tensor, second: Tensor) -> Tensor:
    """max over r of first[q, r, ..] + second[r, s, ..] : (Q, S, ..)."""
    second = second if second.ndim == 3 else second[:, :, None]
    found: Tensor = first[:, 0, None] + second[0]
    for r in range(1, len(second)):
        np.maximum(found, first[:, r, None] + second[r], out=found)
    return found


def _arriving(cut: Pieces, node: Matrix, edge: Matrix) -> Matrix:
    """Messages (S, K) at the last position before each of the rows ``cut.later``."""
    layout = cut.layout
    moved = np.repeat(node[None, :, : layout.n_chains], len(edge), axis=0)  # [label before the piece, label, piece]
    moved[:, :, cut.later] += edge[:, :, None]
    for t in range(1, layout.n_steps):
        n = int(layout.active[t])
        moved[:, :, :n] = _times(moved[:, :, :n], edge) + node[:, layout.rows(t)]
    total, step = np.empty_like(moved), 1
    total[:, :, layout.order] = moved
    while len(some := np.flatnonzero(cut.rank >= step)):
        total[:, :, some] = _times(total[:, :, some - step], total[:, :, some])
        step *= 2
    return np.asarray(total[0][:, layout.order[cut.later] - 1])


def _read_joined(cut: Pieces, message: Matrix, edge: Matrix) -> Labels:
    """Labels (P,) read backwards from each label that a piece may end with; then the label that each does end with."""
    layout, s, n = cut.layout, len(edge), cut.layout.n_positions
    before, best = np.zeros((s, n), dtype=np.int8), message[0] + edge[0, :, None]  # [label after it, position]
    for r in range(1, s):
        other = message[r] + edge[r, :, None]
        np.copyto(before, r, where=other > best)
        np.maximum(best, other, out=best)
    flat, each = before.ravel(), np.empty((s, n), dtype=np.int8)  # [label at the end of the piece, position]
    current = np.zeros((s, 0), dtype=np.int8)
    for t in range(layout.n_steps - 1, -1, -1):
        rows, longer = layout.rows(t), current.shape[1]
        current = flat[current * np.intp(n) + np.arange(rows.start, rows.start + longer)]
        if longer < layout.active[t]:
            ending = np.arange(s, dtype=np.int8)[:, None].repeat(layout.active[t] - longer, axis=1)
            current = np.concatenate((current, ending), axis=1)
        each[:, rows] = current
    ends = np.repeat(message[:, layout.last].argmax(axis=0)[None], s, axis=0)  # [label at the next piece's end, piece]
    ends[:, layout.order[cut.later] - 1] = before[each[:, cut.later], cut.earlier]
    step = 1
    while len(some := np.flatnonzero(cut.left >= step)):
        ends[:, some] = ends[ends[:, some + step], some]
        step *= 2
    return np.asarray(each[ends[0][layout.chain], np.arange(n)], dtype=np.int64)


def _mend_messages(cut: Pieces, node: Matrix, edge: Matrix, message: Matrix) -> bool:
    """Compute messages again from each cut until they agree with the old ones; False if some do not within
    `MOST_PIECES` pieces."""
    rows, length, ends = cut.later, cut.layout.n_steps, message[:, cut.layout.last]
    rounding = AGREEMENT * float(np.abs(ends).max(where=np.isfinite(ends), initial=0.0))
    for step in range(1, MOST_PIECES * length + 1):
        if not len(rows):
            return True
        if step == EARLY_POSITIONS and len(rows) > DISAGREEING_SHARE * len(cut.later):
            return False
        new = node[:, rows] + (message[:, None, cut.before[rows]] + edge[:, :, None]).max(axis=0)
        with np.errstate(invalid="ignore"):
            apart = new - message[:, rows]  # NaN where both are -inf: left out
            spread = np.fmax.reduce(apart, axis=0) - np.fmin.reduce(apart, axis=0)
        changed = ~(spread <= rounding)
        message[:, rows[changed]] = new[:, changed]
        rows = cut.after[rows[changed]]
        rows = rows[rows >= 0]
    return not len(rows)


def _read(layout: Chains, message: Matrix, edge: Matrix) -> Labels:
    """Labels (P,) of each piece, read backwards from the best label of its end."""
    labels, current = np.empty(layout.n_positions, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for t in range(layout.n_steps - 1, -1, -1):
        rows = layout.rows(t)
        here = message[:, rows].copy()
        here[:, : len(current)] += edge.take(current, axis=1)
        current = column_argmax(here)
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
