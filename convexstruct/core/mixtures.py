"""Dual points that are mixtures of distributions over labellings, one mixture for each example: reading, checking and
writing them.

Both margin families compute their lower bounds from such a mixture, given by these arrays:

    "labels"       (m, P) integers : m labellings of all examples, flat, one example after the other
    "label_shares" (m, N) : share of each labelling in each example, >= 0
    "gibbs"        (g, d) : natural parameters Theta of distributions ~ exp(<Theta, features> + B loss)
    "gibbs_loss"   (g,) : B
    "gibbs_shares" (g, N) : share of each distribution in each example, >= 0

The shares of an example sum to at most 1; the rest is the share of the true labelling. Each family computes its own
sums over the mixtures, and corrects the shares for rounding itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convexstruct.arrays import Index, Labels, Matrix, Point, Vector
from convexstruct.tolerances import DUAL_ROUNDING
from convexstruct.validation.arrays import raw, real, wholes


class Mixture(NamedTuple):
    """The arrays of a mixture, by the names above; absent ones are empty."""

    labels: Labels
    label_shares: Matrix
    gibbs: Matrix
    gibbs_loss: Vector
    gibbs_shares: Matrix


def of_examples(mixture: Mixture, start: Index, low: int, high: int) -> Mixture:
    """A mixture's part for the examples low .. high - 1; start (N + 1,) : where each example's labels begin."""
    labels, shares, gibbs, loss, of_gibbs = mixture
    return Mixture(labels[:, start[low] : start[high]], shares[:, low:high], gibbs, loss, of_gibbs[:, low:high])


def read_mixture(given: Mapping[str, Any], n_examples: int, dimension: int, cards: Index) -> Mixture:
    """The arrays of a dual point, with their shapes checked; ``cards`` (P,) are the numbers of labels. ValueError if a
    shape is wrong, an entry is not a number, or a label is out of range."""
    named = {name: f"dual_point[{name!r}]" for name in Mixture._fields}
    m, g = (len(array) if (array := raw(named[name], given.get(name, ()))).ndim else 0 for name in ("labels", "gibbs"))
    shapes = ((m, len(cards)), (m, n_examples), (g, dimension), (g,), (g, n_examples))
    values = [given.get(name, np.zeros((0, *shape[1:]), dtype=np.int8)) for name, shape in zip(named, shapes)]
    wholes(named["labels"], values[0], shapes[0], keep=False, kinds="iu")
    labels = raw(named["labels"], values[0])  # in the given type, which may be one byte a label
    if m and (labels.min() < 0 or (labels.max(axis=0) >= cards).any()):
        raise ValueError("dual_point['labels'] holds a label out of range")
    rest = zip(list(named.values())[1:], values[1:], shapes[1:])
    return Mixture(labels, *(real(name, value, shape, finite=False, keep=False) for name, value, shape in rest))


def outside_simplex(arrays: Iterable[NDArray[Any]], *shares: Matrix) -> float:
    """The largest violation, over all examples, of shares >= 0 and sum of shares <= 1, all ``shares`` (n, N) taken
    together; inf if ``arrays`` are not all finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        return np.inf
    every = np.concatenate(shares)
    return float(max(0.0, -every.min(initial=0.0), every.sum(axis=0).max(initial=0.0) - 1.0))


def label_type(n_labels: int) -> np.dtype[Any]:
    """The smallest type that holds the labels 0 .. n_labels - 1: one byte each for up to 128 of them."""
    return np.min_scalar_type(-n_labels)


def shares_of(multipliers: Any, ceiling: Vector, example: Index) -> Vector:
    """Multipliers of labellings as their shares of ``ceiling``, made >= 0 and of sums <= 1 in each example.

    multipliers (R,), of the rows of ``example`` (R,). ceiling (N,) : the largest sum of an example's multipliers.
    """
    share = np.maximum(np.asarray(multipliers, dtype=np.float64), 0.0) / ceiling[example]
    return share / np.maximum(np.bincount(example, weights=share, minlength=len(ceiling)), 1.0)[example]


def beyond_rounding(share: Vector, example: Index) -> Vector:
    """The shares (R,) without those that are no more than rounding, which a sum <= 1 allows."""
    return np.where(share < DUAL_ROUNDING / np.bincount(example)[example], 0.0, share)


def of_single_labellings(
    truth: NDArray[np.integer],
    start: Index,
    labels: Sequence[NDArray[np.integer]],
    example: Index,
    shares: Vector,
) -> Point:
    """Labellings of single examples as a dual point: row j holds the j-th labelling of each example that has a positive
    share, and the true labelling with share 0 where an example has fewer.

    truth (P,) : in the type that the labels are to have. start (N + 1,) : where each example begins in ``truth``.
    labels : n labellings, each at least as long as its example. example (n,) : the example of each, non-decreasing.
    shares (n,) : the share of each.
    """
    kept = np.flatnonzero(shares > 0)
    example = example[kept]
    rank = np.arange(len(kept)) - np.searchsorted(example, example)
    m = int(rank.max(initial=-1)) + 1
    rows, table = np.tile(truth, (m, 1)), np.zeros((m, len(start) - 1))
    table[rank, example] = shares[kept]
    for row, low, high, j in zip(rank, start[example], start[example + 1], kept.tolist()):
        rows[row, low:high] = labels[j][: high - low]
    return {"labels": rows, "label_shares": table}
