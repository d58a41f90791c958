"""Newton's metric for a stage: its Hessian, from the covariance of the counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.cholesky import solver
from convexstruct.families.generative_margin.solvers.entropic_proximal.stage import Stage, Value

#: Added to the diagonal of the covariance, as a share of the counts: the covariance is singular along the invariants.
RIDGE = 1e-5


class NewtonMetric:
    """The Hessian of F in (phi, delta), from the covariance of the counts:

        J' (eta/tau Cov + eta Outer) J + V (diag s - s s').

    covariance : Cov (d, d), and Outer = sum_k w_k h''(m_k) g_k g_k' (d, d), or () where h is linear (`covariance`).

    Moving phi along 1 in a block does not change F; a small multiple of 11' there makes the matrix definite. The part
    in phi is factored once; its Schur complement in delta, to which the barrier is added, is small.
    """

    def __init__(self, stage: Stage, value: Value, covariance: tuple[Matrix, Matrix]) -> None:
        p, layout = stage.problem, stage.layout
        d = p.dimension
        curvature = p.eta / stage.tau * covariance[0] + p.eta * covariance[1]
        curvature[np.arange(d), np.arange(d)] += RIDGE * p.eta / stage.tau * value.expected.counts
        if p.general is not None:
            A = stage.space.limits[0]
            curvature += (A.T @ (A * (value.kap / stage.tau)[:, None])).toarray()
            curvature[np.arange(d), np.arange(d)] += value.own

        sums = stage.space.blocks @ curvature  # 1'C, one row a block
        corner = stage.space.blocks @ sums.T
        some = [slice(first, first + size) for first, size in zip(layout.block_start, layout.block_sizes)]
        phi = curvature
        for each, row in zip(some, sums):
            phi[:, each] -= row[:, None] * value.softmax[each]  # C (I - 1 s')
        right = stage.space.blocks @ phi
        for each, row, total in zip(some, right, np.maximum(layout.block_sum(value.v), 0.0)):
            share = value.softmax[each]
            phi[each] -= share[:, None] * row
            inside = phi[each, each]
            inside += total * (np.diag(share) - np.outer(share, share))
            inside += np.abs(np.diag(inside)).sum() / len(share) ** 2 + 1e-8
        cross = -right.T
        for matrix in (phi, corner):
            diagonal = np.arange(len(matrix))
            matrix[diagonal, diagonal] += 1e-8 + 1e-9 * np.abs(matrix[diagonal, diagonal])
        self._of_phi = solver(phi)
        self._follows = self._of_phi(cross)
        self._schur = corner - cross.T @ self._follows

    def inverse(self, barrier: Vector) -> Callable[[Vector], Vector]:
        """gradient -> H^-1 gradient, for a barrier of this curvature (B,)."""
        of_delta, d = solver(self._schur + np.diag(barrier)), len(self._follows)

        def solve(gradient: Vector) -> Vector:
            delta = of_delta(gradient[d:] - self._follows.T @ gradient[:d])
            return np.concatenate((self._of_phi(gradient[:d]) - self._follows @ delta, delta))

        return solve

    def moved(self, stage: Stage, value: Value) -> NewtonMetric:
        """The same metric: a new one costs as much as many evaluations of F, so `method` decides when."""
        return self
