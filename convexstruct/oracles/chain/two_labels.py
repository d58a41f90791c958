r"""Viterbi on chains of two labels, by the difference of the two messages.

The score maximised is that of `convexstruct.oracles.chain.chain.viterbi`. Let d_t be the message of label 1 less that
of label 0, c_t the same difference of node scores, e the edge scores, and r_y = e0y - e1y. Label y follows label 1
rather than label 0 if d > r_y. So

    d_t = c_t + b + s clip(d_{t-1}, min r, max r),

with s = 1 and b = e11 - e00 where r_0 >= r_1, which is where equal neighbours are favoured, else s = -1 and b = e01 -
e10. Compositions of such maps have the same form, clip(+-x + a, A, B). So a piece of a chain
(`convexstruct.oracles.chain.pieces`) is summed up by three numbers, whatever the message before it is, and all pieces
are run over at once.

Backwards, y_{t-1} does not depend on y_t where d_{t-1} is above both thresholds or at most the lesser. Elsewhere it
equals y_t for s = 1, and differs from it for s = -1. So each label is that of the next position at which it is known,
alternating on the way if s = -1: no recursion is left.

Source: the scan over compositions of W. Hillis and G. Steele (CACM 29, 1986) for maps of this form; ours.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.pieces import Pieces


def viterbi(layout: Chains, cut: Pieces | None, node: Matrix, edge: Matrix) -> Labels | None:
    """Best labels (P,), chain after chain; None where a difference of scores is not finite.

    layout : the chains, or ``cut.layout`` where they are cut in pieces. node (2, P) : scores in the packed order of
    ``layout``, labels along the first axis. edge (2, 2) : [previous, current]. Which of several best labellings is
    found depends on rounding.
    """
    with np.errstate(invalid="ignore"):  # of two scores of -inf
        gain, (r0, r1) = node[1] - node[0], (edge[0] - edge[1]).tolist()
    if not (np.isfinite(edge).all() and np.isfinite(gain).all()):
        return None
    sign, least, most = (1.0, r1, r0) if r0 >= r1 else (-1.0, r0, r1)
    shift = edge[1, 1] - edge[0, 0] if sign > 0.0 else edge[0, 1] - edge[1, 0]
    gain[layout.n_chains :] += shift
    last = layout.packed[layout.last]  # flat positions
    if cut is not None:
        gain[cut.later] += shift
        gain[cut.later] += sign * _arriving(cut, gain, sign, least, most)
        last = np.setdiff1d(last, layout.packed[cut.earlier], assume_unique=True)
    _along(layout, gain[None], sign, least, most)
    difference = gain[layout.flat]
    label = difference > most
    label[last] = difference[last] > 0.0
    known = label | (difference <= least)
    known[last] = True
    places = np.flatnonzero(known)
    labels: Labels = label[places].astype(np.int64)
    if sign > 0.0:
        return np.repeat(labels, np.diff(places, prepend=-1))
    odd = np.arange(layout.n_positions) & 1  # labels that alternate are constant where every other one is exchanged
    return np.asarray(np.repeat(labels ^ odd[places], np.diff(places, prepend=-1)) ^ odd)


def _along(layout: Chains, found: Matrix, sign: float, least: float, most: float) -> None:
    """Add to each entry of ``found`` (rows, P) s times the clipped one before it in its chain, step by step."""
    room, join = np.empty((len(found), layout.n_chains)), np.add if sign > 0.0 else np.subtract
    for t in range(1, layout.n_steps):
        before, rows = int(layout.start[t - 1]), layout.rows(t)
        n = rows.stop - rows.start
        some = np.maximum(found[:, before : before + n], least, out=room[:, :n])
        np.minimum(some, most, out=some)
        join(found[:, rows], some, out=found[:, rows])


def _arriving(cut: Pieces, gain: Vector, sign: float, least: float, most: float) -> Vector:
    """d before each of the rows ``cut.later``, clipped; (K,).

    Along most pieces d does not depend on the d before; of the others it is found one after the other.
    """
    layout = cut.layout
    found = np.stack((gain, gain))  # d after the least and the greatest d before
    found[0, cut.later] += sign * least
    found[1, cut.later] += sign * most
    _along(layout, found, sign, least, most)
    low, high = np.sort(found[:, layout.last], axis=0)
    ends = low.clip(least, most)
    still = np.flatnonzero(low < high)  # never the first piece of a chain
    if len(still):
        signs = np.where(layout.lengths & 1, sign, 1.0)
        turned = gain[layout.flat]  # as it adds to d at the end of its piece, where nothing is clipped
        if sign < 0.0:
            after = np.repeat(layout.first + layout.lengths - 1, layout.lengths) - np.arange(len(gain))
            turned *= 1.0 - 2.0 * (after & 1)
        free = np.add.reduceat(turned, layout.first)
        each = np.stack((low, high, free, signs), axis=1)[still]
        for i, (a, b, c, s) in zip(still.tolist(), each.tolist()):
            x = c + s * float(ends[i - 1])
            x = a if x < a else b if x > b else x
            ends[i] = least if x < least else most if x > most else x
    return np.asarray(ends[layout.order[cut.later] - 1])
