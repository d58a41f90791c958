"""Decomposable losses: a cost for each pair (true label, predicted label), summed over hidden variables.

A loss is a square array ``cost[true, predicted]``, non-negative, zero on the diagonal. The loss of a labelling is the
sum over its hidden positions, so loss-augmented decoding is decoding with other node scores. A function
``loss(true, predicted)`` of two labels stands for the table of its values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Matrix
from convexstruct.validation.arguments import choice, number, sentence, sized, whole
from convexstruct.validation.arrays import real

#: A name, a matrix cost[true, predicted], or a function of the two labels (whole numbers from 0) that returns the cost.
Costs = ArrayLike | str | Callable[[int, int], float]


def hamming(n_labels: int) -> Matrix:
    """cost[y, z] = [y != z]; shape (n_labels, n_labels)."""
    return np.asarray(1.0 - np.eye(_size(n_labels)))


def ring(n_labels: int) -> Matrix:
    """cost[y, z] = steps between y and z along a ring of ``n_labels`` places (paper 0, section 4)."""
    n_labels = _size(n_labels)
    apart = np.abs(np.subtract.outer(np.arange(n_labels), np.arange(n_labels)))
    return np.asarray(np.minimum(apart, n_labels - apart), dtype=np.float64)


def named(name: str, n_labels: int) -> Matrix:
    """The loss called ``name`` ("hamming" or "ring") on ``n_labels`` labels; ValueError for any other name."""
    known = {"hamming": hamming, "ring": ring}
    return known[choice("loss", name, known, "or a cost matrix")](n_labels)


def _size(n_labels: int) -> int:
    size = whole("n_labels", n_labels, least=1)
    return sized("n_labels", size, size * size)


def cost_matrix(cost: Costs, n_labels: int) -> Matrix:
    """Validate a cost matrix, or make the one called by name, or that of a function's values, cost[y, z] = cost(y, z).
    ValueError if the matrix is not (n_labels, n_labels), not finite, negative, or not zero on the truth; or if the
    function raises, or returns anything but one number."""
    if isinstance(cost, str):
        return named(cost, n_labels)
    n_labels = _size(n_labels)
    if callable(cost):
        labels = range(n_labels)
        cost = [[_value(cost, true, predicted) for predicted in labels] for true in labels]
    matrix = real("loss", cost, (n_labels, n_labels), what="costs", least=0, why="cost[true, predicted]")
    if np.diag(matrix).any():
        label = int(np.flatnonzero(np.diag(matrix))[0])
        raise sentence(f"loss of label {label} on itself is {matrix[label, label]:g}, wanted 0 on the truth")
    return matrix


def _value(loss: Callable[[int, int], float], true: int, predicted: int) -> float:
    """loss(true, predicted); ValueError if that is no number, or raises."""
    name = f"loss({true}, {predicted})"
    try:
        value = loss(true, predicted)
    except Exception as error:  # any: foreign code
        raise sentence(f"{name} raised {type(error).__name__}: {error}, wanted a cost") from error
    return number(name, value, least=0)
