"""The covariance of the counts under the Gibbs distributions: the Hessian of sum_k w_k ln Z_k.

By a backward recursion on chains (`HMMCounts.covariance`), by listing all labellings where that can be done. It serves
as the metric of Newton's method, so its rounding costs iterations, never correctness.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Matrix, Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.part import part
from convexstruct.marginals.enumeration import enumerate_counts, n_assignments

#: Labellings of all examples together up to which they are listed.
MOST_LISTED = 300_000
#: Numbers in the transition kernels of one block of chains (40 MB). Every block adds to its own sums over pairs of
#: counts at every step, so few large blocks are faster.
KERNEL_BLOCK = 5_000_000


class CountCovariance:
    """sum_k w_k Cov counts_k for one feature map; call it with (theta, loss_weight).

    kind : "recursion", "listing", or "" where the labellings are too many to be listed: then there is none.
    """

    def __init__(self, features: Counts) -> None:
        self.features = features
        chain = isinstance(features, HMMCounts)
        self.kind = "recursion" if chain else "listing" if n_assignments(features) <= MOST_LISTED else ""
        self._rows = cache(lambda: enumerate_counts(features, MOST_LISTED))
        self._blocks = cache(lambda: _blocks(features))

    @property
    def operations(self) -> float:
        """Multiplications that one call costs, roughly."""
        d = self.features.tables.dimension
        if isinstance(self.features, HMMCounts):
            return 6.0 * self.features.chains.n_positions * self.features.n_states**2 * d
        return 1.0 * d * d + MOST_LISTED * 100.0

    def __call__(self, theta: Vector, loss_weight: float) -> Matrix:
        if isinstance(self.features, HMMCounts):
            return sum((block.covariance(theta, loss_weight) for block in self._blocks()), start=np.zeros(()))
        return self._listed(theta, loss_weight)

    def _listed(self, theta: Vector, loss_weight: float) -> Matrix:
        rows = self._rows()
        score = np.asarray(rows.counts @ theta) + loss_weight * rows.loss
        top = np.full(len(self.features.examples), -np.inf)
        np.maximum.at(top, rows.example, score)
        weight = np.exp(score - top[rows.example])
        total = np.bincount(rows.example, weights=weight, minlength=len(self.features.examples))
        weight /= total[rows.example]
        by_example = sp.csr_array(
            sp.coo_array((weight, (rows.example, np.arange(len(weight)))), shape=(len(total), len(weight)))
        )
        mean = (by_example @ rows.counts).toarray()
        share = self.features.examples.weights
        second = rows.counts.T @ (rows.counts.multiply((weight * share[rows.example])[:, None]))
        return np.asarray(second.toarray() - mean.T @ (share[:, None] * mean))


def _blocks(features: Counts) -> list[HMMCounts]:
    """The examples in runs whose transition kernels together are at most `KERNEL_BLOCK` numbers."""
    assert isinstance(features, HMMCounts)
    each = features.chains.n_steps * features.n_states**2
    size = max(1, KERNEL_BLOCK // each)
    if size >= len(features.weights):
        return [features]
    cuts = range(0, len(features.weights), size)
    return [part(features, low, min(low + size, len(features.weights))) for low in cuts]  # type: ignore[misc]
