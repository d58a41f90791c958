"""Brute force over all labellings: the reference that every other oracle is tested against.

A model is a list of factors (scope, table): ``scope`` names variables by position, ``table`` holds a score for each of
their joint labels, in the order of the scope. The score of a labelling is the sum over the factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from convexstruct.arrays import Labels, Matrix, Tensor, Vector

Factor = tuple[tuple[int, ...], Tensor]

#: The largest number of labellings that are listed.
MOST_LABELLINGS = 2_000_000


def labellings(cards: Sequence[int]) -> Labels:
    """All labellings, shape (prod cards, n), in colexicographic order: the first variable changes fastest.

    Raises
    ------
    ValueError
        If there are more than `MOST_LABELLINGS`.
    """
    total = math.prod(int(card) for card in cards)
    if total > MOST_LABELLINGS:
        raise ValueError(f"cards allow {total} labellings, brute force holds at most {MOST_LABELLINGS}")
    axes = np.indices(tuple(cards)[::-1]).reshape(len(cards), total)
    return np.asarray(axes[::-1].T, dtype=np.int64)


def chain_factors(node: Matrix, edge: Tensor) -> tuple[list[int], list[Factor]]:
    """(cards, factors) of one chain with node scores (T, S) and edge scores (S, S), or a table a step (T - 1, S, S)."""
    factors: list[Factor] = []
    for t, scores in enumerate(node):
        if t:
            factors.append(((t - 1, t), edge if edge.ndim == 2 else edge[t - 1]))
        factors.append(((t,), scores))
    return [node.shape[1]] * len(node), factors


def scores(cards: Sequence[int], factors: Sequence[Factor]) -> Vector:
    """The score of each labelling, in the order of `labellings`."""
    labels = labellings(cards)
    total = np.zeros(len(labels))
    for scope, table in factors:
        total += table[tuple(labels[:, v] for v in scope)]
    return total


def best(cards: Sequence[int], factors: Sequence[Factor]) -> tuple[float, Labels]:
    """The greatest score, and the colexicographically smallest labelling that attains it."""
    values = scores(cards, factors)
    at = int(values.argmax())
    return float(values[at]), labellings(cards)[at]


def log_partition(cards: Sequence[int], factors: Sequence[Factor]) -> float:
    """ln sum over labellings of e^score; -inf if every labelling is forbidden."""
    values = scores(cards, factors)
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum())) if math.isfinite(top) else -math.inf


def posterior(cards: Sequence[int], factors: Sequence[Factor]) -> Vector:
    """The probability of each labelling, proportional to e^score, in the order of `labellings`."""
    values = scores(cards, factors)
    weights = np.exp(values - values.max())
    return np.asarray(weights / weights.sum())


def marginal(cards: Sequence[int], factors: Sequence[Factor], scope: Sequence[int]) -> Tensor:
    """The distribution of the variables in ``scope``, its axes in that order."""
    labels = labellings(cards)
    table = np.zeros([cards[v] for v in scope])
    np.add.at(table, tuple(labels[:, v] for v in scope), posterior(cards, factors))
    return table
