"""A diagonal metric for a stage, corrected along the invariants of the counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.cholesky import solver
from convexstruct.families.generative_margin.solvers.entropic_proximal.stage import Stage, Value

#: The variance of a count is this share of the count where it is not known, and at least this share
#: where it is.
VARIANCE_SHARE = 0.1
#: Smaller counts are replaced by this share of the mean of their block.
LEAST_COUNT = 0.1
#: Steps between changes of a diagonal metric: the pairs of L-BFGS belong to one metric and suit a new one less. Small
#: problems, whose stages are short, need a new one sooner than long stages of thousands of parameters would.
METRIC_STEPS = 40


class DiagonalMetric:
    """An approximate Hessian of F: a diagonal, and the exact curvature along the invariants of the counts.

    The diagonal is eta / tau times the variance of the counts as if steps were independent (`local_variance`; a share
    of the counts where it is not known), + V e^theta. A count enters as at least a share of its block's mean, because a
    parameter that is hardly used now may be used after the step. Along an invariant z (`invariants`) the covariance
    vanishes and the diagonal is wrong by orders of magnitude, but Z'HZ is known: (P)'s own curvature and the barrier's.
    The inverse is D^-1 + Z (Z'HZ)^-1 Z', a two-level preconditioner. For theta to move along z, delta goes with -s'z.
    """

    def __init__(self, stage: Stage, value: Value) -> None:
        p, layout = stage.problem, stage.layout
        self._stage, self._age = stage, 0
        counts = value.expected.counts
        total = layout.block_sum(counts)
        local = stage.local_variance(value)
        share = block_share = np.full(1, VARIANCE_SHARE)
        if local is not None:
            share = np.clip(local.counts / np.maximum(counts, 1e-300), VARIANCE_SHARE, 1.0)
            block_share = np.clip(local.blocks / np.maximum(total, 1e-300), VARIANCE_SHARE, 1.0)
        least = LEAST_COUNT * (total / layout.block_sizes)[layout.block_of]
        spread = p.eta / stage.tau * share * np.maximum(counts, least) + value.curvature
        curvature = np.maximum(layout.block_sum(value.v), 0.0)
        own = curvature[layout.block_of] * value.softmax
        of_delta = p.eta / stage.tau * block_share * total + layout.block_sum(value.curvature)
        self._diagonal = np.concatenate((spread + own, of_delta)) + 1e-6
        self._matrix: Matrix | None = None  # Z'HZ without the barrier
        if local is not None and local.invariants.size:
            columns, rows = stage.space.invariants
            weighted = columns.multiply(value.softmax[:, None])
            self._shift = np.asarray((stage.space.blocks @ weighted).todense())
            matrix = (rows @ weighted.multiply(curvature[layout.block_of][:, None])).toarray()
            matrix -= self._shift.T @ (curvature[:, None] * self._shift)
            if value.curvature.any():
                matrix += (rows @ columns.multiply(value.curvature[:, None])).toarray()
            at = np.arange(len(matrix))
            matrix[at, at] += p.eta / stage.tau * local.invariants
            matrix[at, at] += 1e-8 * matrix[at, at].mean() + 1e-12  # the invariants depend on each other
            self._matrix = matrix

    def inverse(self, barrier: Vector) -> Callable[[Vector], Vector]:
        """gradient -> H^-1 gradient, for a barrier of this curvature (B,)."""
        diagonal, d = self._diagonal.copy(), self._stage.problem.dimension
        diagonal[d:] += barrier
        if self._matrix is None:
            return lambda gradient: gradient / diagonal
        columns, rows = self._stage.space.invariants
        along = solver(self._matrix + self._shift.T @ (barrier[:, None] * self._shift))

        def solve(gradient: Vector) -> Vector:
            direction = gradient / diagonal
            part = along(rows @ gradient[:d] - self._shift.T @ gradient[d:])
            direction[:d] += columns @ part
            direction[d:] -= self._shift @ part
            return np.asarray(direction)

        return solve

    def moved(self, stage: Stage, value: Value) -> DiagonalMetric:
        """The metric at another point: this one, until METRIC_STEPS steps have been taken with it."""
        self._age += 1
        return self if self._age < METRIC_STEPS else DiagonalMetric(stage, value)
