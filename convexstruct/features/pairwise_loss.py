"""Losses of labellings of `PairwiseFeatures`: a sum of node losses, or zero-one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convexstruct.features.loss_steps import LossSteps, number_losses
from convexstruct.features.pairwise import PairwiseFeatures
from convexstruct.features.reading import real_array
from convexstruct.graphs import Index
from convexstruct.losses import cost_matrix

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairwiseLoss:
    """E_i(y) = sum of node costs, or [y != y_i] (zero_one; then the costs are those of Hamming and not used).

    costs : (P, S) >= 0, zero on the truth. example : (P,) the example of each node. truth : (P,).
    """

    costs: Vector
    truth: Labels
    example: Index
    n_examples: int
    zero_one: bool = False

    def of(self, labels: Labels) -> Vector:
        """E_i of a labelling (P,) of all examples; shape (N,)."""
        if self.zero_one:
            wrong = np.bincount(self.example, weights=labels != self.truth, minlength=self.n_examples)
            return np.asarray(wrong > 0, dtype=np.float64)
        each = self.costs[np.arange(len(labels)), labels]
        return np.asarray(np.bincount(self.example, weights=each, minlength=self.n_examples), dtype=np.float64)

    @cached_property
    def most(self) -> Vector:
        """max_y E_i(y); shape (N,)."""
        if self.zero_one:
            return np.full(self.n_examples, 1.0 if self.costs.shape[1] > 1 else 0.0)
        most = np.bincount(self.example, weights=self.costs.max(axis=1), minlength=self.n_examples)
        return np.asarray(most, dtype=np.float64)

    @cached_property
    def numbered(self) -> LossSteps:
        """The distinct values of the loss, for oracles that decode once for each.

        Raises
        ------
        ValueError
            If an example has too many; see `number_losses`.
        """
        return number_losses(self.costs, self.example, self.n_examples)

    def some(self, features: PairwiseFeatures, nodes: Index) -> PairwiseLoss:
        """The loss of some examples: ``features`` of these, and their flat nodes among all."""
        return PairwiseLoss(self.costs[nodes], features.truth, features.example, features.n_examples, self.zero_one)


def read_loss(loss: ArrayLike | str | Sequence[ArrayLike], features: PairwiseFeatures) -> PairwiseLoss:
    """ "hamming", "zero_one", a cost matrix (S, S) cost[true, predicted], or a list of node costs (n_i, S).

    Raises
    ------
    ValueError
        If the name is unknown, or costs have the wrong shape, are negative, not finite or not zero on the truth.
    """
    truth, size = features.truth, features.n_labels

    def made(costs: Vector, zero_one: bool = False) -> PairwiseLoss:
        return PairwiseLoss(costs, truth, features.example, features.n_examples, zero_one)

    if isinstance(loss, str) and loss in ("zero_one", "hamming"):
        return made(cost_matrix("hamming", size)[truth], loss == "zero_one")
    if isinstance(loss, str):
        raise ValueError(f"loss is {loss!r}, wanted 'hamming', 'zero_one', a cost matrix or a list of node costs")
    if not _is_list_of_tables(loss):
        return made(cost_matrix(real_array("loss", loss), size)[truth])
    tables = [real_array(f"loss[{i}]", table) for i, table in enumerate(loss)]  # type: ignore[arg-type]
    if len(tables) != features.n_examples:
        raise ValueError(f"loss has {len(tables)} tables, wanted {features.n_examples}, one for each example")
    for i, (table, length) in enumerate(zip(tables, features.lengths)):
        if table.shape != (length, size):
            raise ValueError(f"loss[{i}] has shape {table.shape}, wanted ({length}, {size}): a cost for each label")
        bad = ~np.isfinite(table) | (table < 0)
        if bad.any():
            raise ValueError(f"loss[{i}] contains {table[bad][0]:g}, wanted finite costs >= 0")
    costs = np.concatenate(tables)
    on_truth = costs[np.arange(len(truth)), truth]
    if on_truth.any():
        i = int(features.example[np.flatnonzero(on_truth)[0]])
        raise ValueError(f"loss[{i}] is {on_truth.max():g} on the truth, wanted 0 there")
    return made(costs)


def _is_list_of_tables(loss: Any) -> bool:
    return isinstance(loss, (list, tuple)) and len(loss) > 0 and np.ndim(loss[0]) == 2
