"""Structural SVMs whose examples lie in files."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexstruct.core.scale import Scale
from convexstruct.features.example_files import KEPT_BYTES, elsewhere, read_files
from convexstruct.features.graphs.filed import FiledFeatures
from convexstruct.features.graphs.pairwise_loss import PairwiseLoss
from convexstruct.losses import Costs, cost_matrix


def from_files(
    cls: Any,
    paths: Any,
    *,
    loss: Costs = "hamming",
    memory: int = KEPT_BYTES,
    C: float | None = None,
    C_mean: float | None = None,
    lam: float | None = None,
    beta: float | None = None,
) -> Any:
    """Chains in files, with margin scaling. `ColumnGeneration` solves it by tempering alone, first on a sample: pools
    of labellings would have to be here.

    Parameters
    ----------
    paths, memory : as `ConditionalRandomField.from_files` takes them; what is wrong with files is said as there.
    loss : "hamming", a cost matrix (S, S) cost[true, predicted], or a function (true, predicted) -> cost.
    C, C_mean, lam, beta : exactly one; see `Scale`.

    Raises
    ------
    ValueError
        If an argument is malformed; if a file is missing, damaged, changed, or holds what it must not.
    """
    features = read_files(paths, memory, FiledFeatures)
    scale = Scale.read(features.n_examples, C=C, C_mean=C_mean, lam=lam, beta=beta)
    # the costs of one node of each label: those of all nodes are their rows
    each = np.arange(features.n_labels)
    costs = PairwiseLoss(cost_matrix(loss, features.n_labels), each, np.zeros_like(each), 1)
    return cls(features, costs, scale, elsewhere(features))


def sampled(problem: Any) -> Any:
    """The `StructuredSVM` of a few of the examples, which lie in files, with weights that let them stand for all."""
    filed = problem.features
    return problem.of_file(filed.sample, filed.n_nodes / filed.sample.n_nodes * filed.sample_weights)
