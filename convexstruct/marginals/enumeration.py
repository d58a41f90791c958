"""Every labelling of every example, for instances small enough to write out; fast paths are tested against them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.graphs import starts

#: At most this many assignments, over all examples, are written out unless the caller says otherwise.
MOST_LABELLINGS = 300_000


@dataclass(frozen=True, eq=False)
class Enumerated:
    """All labellings of all examples, one a row: example after example, and within one in colexicographic order (the
    first hidden variable changes fastest). Nothing is weighted.

    Attributes
    ----------
    counts : sparse (R, d); counts_k(s) of each row.
    loss : (R,); loss_k(s) of each row.
    example : (R,), non-decreasing; the example k of each row.
    labels : (R, H); the labelling of each row, the example's hidden variables in order, padded with -1 to the largest
        number of hidden variables H.
    truth : (K,); the row of each example's true labelling.
    """

    counts: sp.csr_array
    loss: Vector
    example: Index
    labels: Labels
    truth: Index

    @property
    def n_rows(self) -> int:
        return len(self.loss)


def n_assignments(features: Counts) -> int:
    """How many labellings the examples have in all; exact, however large."""
    cards = np.where(features.examples.free, features.examples.cards, 1)
    logs = np.bincount(features.examples.example, weights=np.log(cards), minlength=len(features.examples))
    if logs.max() < math.log(2.0**40):
        return int(np.rint(np.exp(logs)).astype(np.int64).sum())
    first = np.searchsorted(features.examples.example, np.arange(1, len(features.examples)))
    return sum(math.prod(part.tolist()) for part in np.split(cards, first))


def enumerate_counts(features: Counts, limit: int = MOST_LABELLINGS) -> Enumerated:
    """Counts and losses of every labelling; the r-th labelling of all examples is counted at once. ValueError if there
    are more than ``limit`` labellings in all.

    Positions that are not free (`Counts.free`) stay at the truth.
    """
    total = n_assignments(features)
    if total > limit:
        shown = str(total) if total < 10**15 else f"about 1e{len(str(total)) - 1}"
        raise ValueError(
            f"features has {shown} assignments of the hidden variables, enumeration holds at most {limit}: "
            "use the compact dual, which needs none of them"
        )
    n_examples, example = len(features.examples), features.examples.example
    cards = np.where(features.examples.free, features.examples.cards, 1)
    first = np.searchsorted(example, np.arange(n_examples))
    sizes = np.diff(np.append(first, len(features.examples.truth)))
    place = np.arange(len(features.examples.truth)) - first[example]
    stride = _strides(cards, place)
    last = first + sizes - 1
    rows = stride[last] * cards[last]
    start = starts(rows)[:-1]
    labels = np.full((total, int(sizes.max())), -1, dtype=np.int64)
    loss = np.empty(total)
    parts, at = [], []
    for r in range(int(rows.max())):
        current = np.where(features.examples.free, r // stride % cards, features.examples.truth)
        here = np.flatnonzero(rows > r)
        inside = rows[example] > r
        parts.append(features.counts_each(current)[here])
        at.append(start[here] + r)
        loss[at[-1]] = features.loss(current)[here]
        labels[start[example[inside]] + r, place[inside]] = current[inside]
    where = np.empty(total, dtype=np.intp)
    where[np.concatenate(at)] = np.arange(total)
    counts = sp.csr_array(sp.vstack(parts, format="csr"))[where]
    digit = np.where(features.examples.free, features.examples.truth, 0) * stride
    truth = start + np.bincount(example, weights=digit, minlength=n_examples).astype(np.intp)
    return Enumerated(counts, loss, np.repeat(np.arange(n_examples), rows), labels, truth)


def _strides(cards: Index, place: Index) -> Index:
    """The product of the cards of the earlier variables of the same example, for each variable."""
    stride = np.ones(len(cards), dtype=np.intp)
    for step in range(1, int(place.max()) + 1):
        here = np.flatnonzero(place == step)
        stride[here] = stride[here - 1] * cards[here - 1]
    return stride
