"""Losses of labellings of `PairwiseFeatures`: a sum of node losses, or zero-one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.features.graphs.loss_steps import LossSteps, number_losses
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.losses import Costs, cost_matrix
from convexstruct.validation.arguments import refuse, sequence
from convexstruct.validation.arrays import is_list_of_tables, real


@dataclass(frozen=True, eq=False)
class PairwiseLoss:
    """E_i(y) = sum of node costs, or [y != y_i] (zero_one; then the costs are those of Hamming and not used).

    costs : (P, S) >= 0, zero on the truth. example : (P,) the example of each node. truth : (P,).
    """

    costs: Matrix
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
        """The distinct values of the loss, for oracles that decode once for each. ValueError if an example has too
        many; see `number_losses`."""
        return number_losses(self.costs, self.example, self.n_examples)

    def some(self, features: PairwiseFeatures, nodes: Index) -> PairwiseLoss:
        """The loss of some examples: ``features`` of these, and their flat nodes among all."""
        return PairwiseLoss(self.costs[nodes], features.truth, features.example, features.n_examples, self.zero_one)


def read_loss(loss: Costs | Sequence[ArrayLike], features: PairwiseFeatures) -> PairwiseLoss:
    """ "hamming", "zero_one", a cost matrix (S, S) cost[true, predicted], a function (true, predicted) -> cost, or a
    list of node costs (n_i, S).

    Raises
    ------
    ValueError
        If the name is unknown, or costs have the wrong shape, are negative, not finite or not zero on the truth.
    """
    truth, size = features.truth, features.n_labels

    def made(costs: Matrix, zero_one: bool = False) -> PairwiseLoss:
        return PairwiseLoss(costs, truth, features.example, features.n_examples, zero_one)

    if isinstance(loss, str) and loss in ("zero_one", "hamming"):
        return made(cost_matrix("hamming", size)[truth], loss == "zero_one")
    if isinstance(loss, str):
        refuse("loss", loss, "'hamming', 'zero_one', a cost matrix or a list of node costs")
    if not is_list_of_tables(loss):
        return made(cost_matrix(loss, size)[truth])  # type: ignore[arg-type]
    given = sequence("loss", loss, "one table of costs an example", length=features.n_examples)
    tables = [
        real(f"loss[{i}]", table, (int(n), size), what="costs", least=0, why="a cost for each label")
        for i, (table, n) in enumerate(zip(given, features.lengths))
    ]
    costs = np.concatenate(tables)
    on_truth = costs[np.arange(len(truth)), truth]
    if on_truth.any():
        i = int(features.example[np.flatnonzero(on_truth)[0]])
        raise ValueError(f"loss[{i}] is {on_truth.max():g} on the truth, wanted 0 there")
    return made(costs)
