"""Directions along which the likelihood of a conditional random field never falls: then it has no maximum.

d is one if <d, f(x_i, y_i) - f(x_i, y)> >= 0 for every labelling y of every example, and above 0 for some.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Matrix, Tensor, Vector
from convexstruct.families.log_linear.existence import ZERO, rising
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import Inference, best_other
from convexstruct.rounding import gamma

#: The most examples times parameters for which all directions are searched by linear programs, in up to ten seconds.
LARGEST_SEARCHED = 20_000


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
    features: PairwiseFeatures, oracle: Inference, node: Matrix, edge: Tensor, size: Matrix, error: Matrix
) -> bool:
    """Whether these scores put the truth of every example above all other labellings by more than rounding.

    size, error : of the scores, as `convexstruct.features.graphs.score_errors` gives them.
    """
    second = best_other(oracle, features, node, edge, features.truth).scores
    if not np.isfinite(second).any():
        return False
    operations = 4 * int(features.lengths.max()) + 8 * features.n_edges
    doubt = 4.0 * (error + gamma(operations) * size).sum(axis=0)
    return bool((features.score(node, edge, features.truth) - second > doubt).all())


def never_falling(
    features: PairwiseFeatures, oracle: Inference, scores: Callable[[Vector], tuple[Matrix, Tensor]]
) -> Vector | None:
    """A direction (d,), largest entry 1, as at the head of this file, by cutting planes; None where there is none, and
    where the problem is larger than `LARGEST_SEARCHED` or 60 rounds do not decide.

    A linear program maximises the sum of the gains <d, f(x_i, y_i) - f(x_i, y)> over the labellings y found so far,
    with none below 0. Where it is above 0 the oracle finds each example's best labelling along d: the truth, or one
    that d has to take into account. Where it is 0 the oracle looks for a labelling whose difference is not in the span
    of those found, along a random direction orthogonal to it; if there is none, no direction exists. All this holds to
    `ZERO`, relative to the largest entry of each difference, in units of the features: a direction is not proved.
    """
    size = features.dimension
    if size * features.n_examples > LARGEST_SEARCHED:
        return None
    rng = np.random.default_rng(0)
    truth = features.joint_each(features.truth)

    def apart(d: Vector) -> Matrix:
        """f(x_i, y_i) - f(x_i, y) of the best labelling y of each example along d; (N, d)."""
        found = truth - features.joint_each(oracle.best(*scores(d)).labels)
        return np.asarray(sp.csr_array(found).toarray())

    rows = np.unique(np.concatenate([apart(d) for d in rng.normal(size=(8, size))]), axis=0)
    unit = np.abs(rows).max(axis=0)
    # parameters in units of their feature; below the normal numbers these overflow
    unit = 1.0 / np.where(unit >= np.finfo(np.float64).tiny, unit, 1.0)

    def even(found: Matrix) -> Matrix:
        """The differences in units of the features, each with a largest entry of 1; 0 where none is above 1e-12: the
        rounding of sums of features."""
        found = found * unit
        largest = np.abs(found).max(axis=1, keepdims=True)
        return np.asarray(np.where(largest > 1e-12, found / np.where(largest > 0, largest, 1.0), 0.0))

    for _ in range(60):
        deadline.check()
        d = rising(even(rows))
        if d is not None:
            new = apart(d * unit)
            new = new[even(new) @ d < -ZERO]
            if not len(new):
                return np.asarray(d * unit / np.abs(d * unit).max())
        else:
            values, basis = np.linalg.svd(even(rows))[1:]
            outside = basis[int((values > ZERO * max(1.0, float(values.max(initial=0.0)))).sum()) :]
            d = rng.normal(size=len(outside)) @ outside
            new = np.concatenate((apart(d * unit), apart(-d * unit)))
            new = new[np.abs(even(new) @ d) > ZERO]
            if not len(new):
                return None
        rows = np.unique(np.concatenate((rows, new)), axis=0)
    return None
