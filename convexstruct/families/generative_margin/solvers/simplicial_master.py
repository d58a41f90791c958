r"""The master problem of restricted simplicial decomposition, (10)-(11) of paper 0 for the proximal dual (D_n).

    maximise    Q_n(sum_j alpha_j mu_j, sum_j alpha_j omega_j, lam)      (`solvers.proximal_dual`)
    subject to  lam >= 0, alpha >= 0, sum of alpha over each simplex = 1

by projected Newton (Bertsekas 1982): in each simplex the largest alpha is eliminated by the equality, variables at zero
with a derivative <= 0 are held there, and the rest take a Newton step, projected onto the bounds, with Armijo's test.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.core.cholesky import solver
from convexstruct.core.quasi_newton import ARMIJO, VALUE_ROUNDING
from convexstruct.families.generative_margin.solvers.proximal_dual import DualPoint, ProximalDual

#: Ridges on the Hessian, relative to its mean diagonal, tried one after another until a step increases Q_n: from
#: Newton's step nearly to the gradient's. With more points than dimensions the Hessian is singular.
RIDGES = (1e-13, 1e-9, 1e-6, 1e-3, 1.0)
#: The most trials of one line search: halved so often a step is 3e-5 of the first, and a larger ridge does better.
TRIALS = 16


@dataclass(frozen=True, eq=False)
class MasterPoint:
    """A maximiser of the master problem.

    alpha (m,) : weights of the points. dual : Q_n there. steps : Newton steps taken.
    gap : by concavity a bound on how far Q_n is below its maximum over alpha; in the joint version plus the violation
        of the optimality conditions on lam, weighted by max(lam, 1).
    """

    alpha: Vector
    dual: DualPoint
    gap: float
    steps: int


@dataclass(frozen=True, eq=False)
class Master:
    """Maximise Q_n over a convex hull of points, or over a product of hulls.

    Attributes
    ----------
    function : Q_n.
    mu (m, d), omega (m,) : the points.
    simplex (m,) : the simplex, 0 .. G - 1, that each point belongs to.
    joint : take Newton steps in (alpha, lam) together, as the paper does. Otherwise lam is maximised exactly at every
        alpha: the optimum is the same, the Newton step in alpha is that of the reduced function, and theta is feasible.
    """

    function: ProximalDual
    mu: Matrix
    omega: Vector
    simplex: Index
    joint: bool = False

    @cached_property
    def n_simplices(self) -> int:
        return int(self.simplex.max()) + 1

    def solve(
        self, alpha: Vector, lam: Vector | None = None, tolerance: float = 0.0, max_steps: int = 50
    ) -> MasterPoint:
        """Start at a feasible alpha (m,) with a guess of lam (blocks,); stop when the gap is within ``tolerance``.

        The gap is sum over simplices of (max_j g_j - alpha'g), with g = dQ_n/dalpha.
        """
        lam = self.function.best_lam(alpha @ self.mu, lam)
        point = self.function.at(alpha @ self.mu, float(alpha @ self.omega), lam)
        steps = 0
        while True:
            deadline.check()
            slope = self.omega + self.mu @ point.theta
            gap = self._gap(alpha, point, slope)
            if gap <= max(tolerance, VALUE_ROUNDING * abs(point.value)) or steps == max_steps:
                return MasterPoint(alpha, point, gap, steps)
            following = self._newton_step(alpha, point, slope)
            if following is None:
                return MasterPoint(alpha, point, gap, steps)
            alpha, point = following
            steps += 1

    def _gap(self, alpha: Vector, point: DualPoint, slope: Vector) -> float:
        best = np.full(self.n_simplices, -np.inf)
        np.maximum.at(best, self.simplex, slope)
        gap = float(best.sum() - alpha @ slope)
        if self.joint:
            lam_slope = point.mass - 1.0
            violation = np.abs(np.where(point.lam > 0, lam_slope, np.maximum(lam_slope, 0.0)))
            gap += float(violation @ np.maximum(point.lam, 1.0))
        return gap

    def _newton_step(self, alpha: Vector, point: DualPoint, slope: Vector) -> tuple[Vector, DualPoint] | None:
        """One projected Newton step; None if no step increases Q_n."""
        pivot = self._largest(alpha)
        relative = slope - slope[pivot][self.simplex]
        held = (alpha <= 0) & (relative <= 0)
        held[pivot] = True
        free = np.flatnonzero(~held)
        lam_slope = point.mass - 1.0
        lam_free = (point.lam > 0) | (lam_slope > 0)
        in_mu, mixed, in_lam = self.function.second(point)
        difference = self.mu[free] - self.mu[pivot[self.simplex[free]]]
        across = np.add.reduceat(difference * mixed, self.function.layout.block_start, axis=1)
        weight = np.where(lam_free, 1.0 / np.where(lam_free, in_lam, 1.0), 0.0)
        # minus the Hessian in the free alpha, with lam eliminated (Schur complement)
        hessian = (difference * in_mu) @ difference.T - (across * weight) @ across.T
        if not self.joint:
            lam_slope = np.zeros_like(lam_slope)  # lam is at its maximum, or at 0
        right = relative[free] - across @ (weight * lam_slope)
        scale = max(float(np.trace(hessian)) / max(len(free), 1), 1e-300)
        for ridge in RIDGES:
            step = solver(hessian + ridge * scale * np.eye(len(free)))(right) if len(free) else right
            lam_step = weight * (lam_slope - across.T @ step)
            if float(right @ step) + float(lam_slope @ (weight * lam_slope)) <= VALUE_ROUNDING * abs(point.value):
                continue
            found = self._search(alpha, point, slope, lam_slope, pivot, free, step, lam_step)
            if found is not None:
                return found
        return None

    def _search(
        self,
        alpha: Vector,
        point: DualPoint,
        slope: Vector,
        lam_slope: Vector,
        pivot: Index,
        free: Index,
        step: Vector,
        lam_step: Vector,
    ) -> tuple[Vector, DualPoint] | None:
        """Line search with Armijo's test along the step, projected onto the bounds; None if no trial passes."""
        groups = self.simplex[free]
        size = 1.0
        for _ in range(TRIALS):
            deadline.check()
            trial = np.zeros_like(alpha)
            trial[free] = np.maximum(alpha[free] + size * step, 0.0)
            rest = 1.0 - np.bincount(groups, weights=trial[free], minlength=self.n_simplices)
            if (rest < 0).any():
                size *= 0.5
                continue
            trial[pivot] = rest
            mu = trial @ self.mu
            lam = np.maximum(point.lam + size * lam_step, 0.0)
            if not self.joint:
                lam = self.function.best_lam(mu, lam)
            found = self.function.at(mu, float(trial @ self.omega), lam)
            rise = float(slope @ (trial - alpha)) + float(lam_slope @ (lam - point.lam))
            if found.value > point.value and found.value >= point.value + ARMIJO * rise:
                return trial, found
            size *= 0.5
        return None

    def _largest(self, alpha: Vector) -> Index:
        """The position of the largest alpha of each simplex."""
        order = np.lexsort((alpha, self.simplex))
        last = np.searchsorted(self.simplex[order], np.arange(self.n_simplices), side="right") - 1
        return np.asarray(order[last])
