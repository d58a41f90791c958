"""Directions along which the likelihood of a conditional random field never falls: then it has no maximum.

d is one if <d, f(x_i, y_i) - f(x_i, y)> >= 0 for every labelling y of every example, and above 0 for some.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import Inference
from convexstruct.rounding import gamma


def never_true(features: PairwiseFeatures, truth_joint: Vector, anywhere: Vector) -> Flags:
    """Flags (d,) of features >= 0 that are 0 at every truth and positive at some labelling.

    Their moments are on the boundary, and minus their indicator is such a direction: the terms of a labelling's score
    along it have one sign, so that no rounding has to be bounded. anywhere (d,) : expected features when labellings are
    uniform.
    """
    columns = features.node_features.min(axis=0)
    least = columns.toarray().ravel() if sp.issparse(columns) else np.asarray(columns).ravel()
    each: Flags = np.ones(features.n_edge_features, dtype=bool)
    if features.edge_features is not None and features.n_edges:
        each = np.asarray((features.edge_features >= 0).all(axis=0))
    positive = np.tile(least >= 0, features.n_labels), np.repeat(each, int(np.prod(features.edge_shape[1:])))
    return np.asarray((truth_joint == 0) & (anywhere > 0) & np.concatenate(positive))


def separates(
    features: PairwiseFeatures, oracle: Inference, node: Matrix, edge: Tensor, longest: int, size: float
) -> bool:
    """Whether these scores put the truth of every example above all other labellings by more than rounding.

    longest : entries of the longest row of features. size : a bound on all terms of all scores.
    """
    first, second = oracle.two_best(node, edge)
    if (first.labels != features.truth).any() or not np.isfinite(second.scores).any():
        return False
    operations = longest + 4 * int(features.lengths.max()) + 8 * features.n_edges
    return bool((first.scores - second.scores > 4.0 * gamma(operations) * size).all())
