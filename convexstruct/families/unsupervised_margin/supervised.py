"""What is left of unsupervised learning once the labels are given: a max-margin Markov network."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.graphs import starts
from convexstruct.validation.arguments import refuse
from convexstruct.validation.arrays import wholes


def supervised(problem: UnsupervisedMargin, labels: Any) -> StructuredSVM:
    """The max-margin Markov network with these labels, one for each row of the examples; its optimum is omega(labels).
    ValueError if labels are not (p1,) whole numbers 0 .. kappa - 1."""
    if not isinstance(problem, UnsupervisedMargin):
        refuse("problem", problem, "an UnsupervisedMargin")
    y = wholes("labels", labels, (problem.n_rows,), least=0, most=problem.n_labels - 1, why="one label a row")
    return StructuredSVM.read(
        problem.features, np.split(y, starts(problem.lengths)[1:-1]), problem.n_labels,
        edges="chain" if problem.n_pairs else "none", kernel=problem.kernel, beta=problem.beta,
    )  # fmt: skip
