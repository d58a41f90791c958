r"""One stage of the entropic proximal point method: a smooth convex minimisation by L-BFGS in a changing metric.

Labellings carry the weights q_k(s) ~ exp(Theta' counts_k(s) + B loss_k(s)). A stage at temperature tau minimises

    F(theta) = - c'theta + eta sum_k w_k {tau [ln Z_k(Theta + theta/tau, B + 1/tau) - ln Z_k(Theta, B)]
                                          - counts_k(s*)'theta}

over 1'e^{theta_i} <= 1. This is (P) with its maximum replaced by tau ln E_q e^{(...)/tau}: the proximal step of the
dual in Kullback-Leibler distance. Its gradient is mu - c with (mu, omega) = eta (E counts - counts(s*), E loss) under
the new weights, a member of script-D for any theta.

The constraint is removed by theta_i = phi_i - ln 1'e^{phi_i} - delta_i, delta_i >= 0 (missing mass 1 - e^{-delta_i});
with v = c - mu, V_i = sum_j v_ij and s_i = e^{phi_i} / 1'e^{phi_i}: dF/dphi_i = -v_i + V_i s_i, dF/ddelta_i = V_i.
Without delta there are stationary points with V_i < 0, which are not optimal. A barrier - kappa sum_i ln delta_i keeps
delta_i > 0, and V_i = kappa / delta_i > 0 at the minimum. There theta also minimises F + sum_i V_i ln 1'e^{theta_i},
which is convex, at most F where the constraint holds, and F - kappa B at theta: for B blocks F is at most kappa B above
its minimum.

V_i is at most 1'(c_i + eta counts_i(s*)) everywhere, so up to kappa over that, `Stage.least_delta`, a larger delta_i
only lowers F with its barrier, and no step leaves a smaller one. Steps taken where V_i < 0 would otherwise make delta
as small as 1e-27, and later ones could only double it each.

The barrier's curvature changes by orders of magnitude within a few steps, F's does not. So the metric and the pairs of
L-BFGS approximate the Hessian of F alone, and each step adds the barrier's curvature where it stands.

How far theta is from the stage's optimum is known exactly: where v >= 0, the duality gap of the stage is
sum_i V_i KL(v_i / V_i || e^{theta_i}) = -v'theta - sum_i [V_i ln V_i - sum_j v_ij ln v_ij].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector
from convexstruct.core.cholesky import solver
from convexstruct.core.quasi_newton import ARMIJO, SEARCH_TRIALS, VALUE_ROUNDING, Pairs
from convexstruct.families.generative_margin.invariants import LocalVariance, invariants, local_variance
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.features.counts.counts import Expected
from convexstruct.marginals.triplets import sums_by

#: The longest move of any phi in one step, in nats: the quadratic model does not hold further away. In a diagonal
#: metric without pairs, a tenth of this.
LONGEST_MOVE = 10.0
#: Diagonal metric: the variance of a count is this share of the count where it is not known, and at least this share
#: where it is.
VARIANCE_SHARE = 0.1
#: Diagonal metric: smaller counts are replaced by this share of the mean of their block.
LEAST_COUNT = 0.1
#: Steps between changes of a diagonal metric: the pairs of L-BFGS belong to one metric and suit a new one less.
METRIC_STEPS = 20


@dataclass(frozen=True)
class Measure:
    """The weights q_k(s) ~ exp(Theta' counts_k(s) + B loss_k(s)), and sum_k w_k ln Z_k."""

    theta: Vector
    loss: float
    log_partition: float


@dataclass(frozen=True)
class Value:
    """``f`` = F at x = (phi, delta) and its gradient ``slope``; ``merit`` = F with its barrier and its ``gradient``;
    intermediate values."""

    x: Vector
    theta: Vector
    f: float
    slope: Vector
    merit: float
    gradient: Vector
    softmax: Vector
    v: Vector
    mu: Vector
    omega: float
    expected: Expected


class Stage:
    """F for one measure and one temperature; ``c`` may be slightly below the problem's (see `entropic_proximal`)."""

    def __init__(self, problem: GenerativeMargin, measure: Measure, tau: float, c: Vector, kappa: float) -> None:
        self.problem, self.measure, self.tau, self.c, self.kappa = problem, measure, tau, c, kappa
        self.layout = problem.layout
        largest = self.layout.block_sum(c + problem.eta * problem.truth_counts)
        self.least_delta = kappa / np.maximum(largest, largest.mean())
        self.evaluations = 0

    def natural(self, value: Value) -> tuple[Vector, float]:
        """Parameters of the weights at ``value``: theta and the weight of the loss in the exponent."""
        return self.measure.theta + value.theta / self.tau, self.measure.loss + 1.0 / self.tau

    def local_variance(self, value: Value) -> LocalVariance | None:
        """The variances of the counts under the measure at ``value``, as if steps were independent."""
        local = local_variance(self.problem.features, *self.natural(value))
        self.evaluations += local is not None
        return local

    @cached_property
    def invariants(self) -> tuple[sp.csr_array, sp.csr_array]:
        """The invariants of the counts as columns of Z (d, k), and Z'."""
        columns = invariants(self.problem.features)
        return columns, sp.csr_array(columns.T)

    @cached_property
    def blocks(self) -> sp.csr_array:
        """(B, d), 1 where an entry lies in a block."""
        return sums_by(self.layout.block_of, len(self.layout.block_sizes))

    def at(self, x: Vector) -> Value:
        p, layout, d = self.problem, self.layout, self.problem.dimension
        self.evaluations += 1
        theta = x[:d] - (layout.block_logsumexp(x[:d]) + x[d:])[layout.block_of]
        new = self.measure.theta + theta / self.tau
        expected = p.oracle.expected(new, self.measure.loss + 1.0 / self.tau)
        mu = p.eta * (expected.counts - p.truth_counts)
        rise = self.tau * (p.examples.weights @ expected.log_partition - self.measure.log_partition)
        f = float(-self.c @ theta + p.eta * (rise - p.truth_counts @ theta))
        v = self.c - mu
        total = layout.block_sum(v)
        softmax = np.exp(theta + x[d:][layout.block_of])
        slope = np.concatenate((total[layout.block_of] * softmax - v, total))
        gradient = slope.copy()
        gradient[d:] -= self.kappa / x[d:]
        merit = f - self.kappa * float(np.log(x[d:]).sum())
        return Value(x, theta, f, slope, merit, gradient, softmax, v, mu, p.eta * expected.loss, expected)

    def after(self, value: Value) -> Measure:
        """The measure of the next stage, if this one ends at ``value``."""
        log_partition = float(self.problem.examples.weights @ value.expected.log_partition)
        return Measure(*self.natural(value), log_partition)

    def barrier_curvature(self, value: Value) -> Vector:
        """The barrier's curvature in delta (B,), primal-dual: max(V, kappa / delta) / delta."""
        delta = value.x[self.problem.dimension :]
        return np.asarray(np.maximum(self.layout.block_sum(value.v), self.kappa / delta) / delta)


def stage_gap(problem: GenerativeMargin, value: Value) -> float:
    """The duality gap of the stage with the problem's own c: sum_i V_i KL(v_i / V_i || e^theta_i); inf where v < 0."""
    entropy = problem.dual_value(value.mu, value.omega) - value.omega
    return float((value.mu - problem.c) @ value.theta - entropy)


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
        spread = p.eta / stage.tau * share * np.maximum(counts, least)
        curvature = np.maximum(layout.block_sum(value.v), 0.0)
        own = curvature[layout.block_of] * value.softmax
        self._diagonal = np.concatenate((spread + own, p.eta / stage.tau * block_share * total)) + 1e-6
        self._matrix: Matrix | None = None  # Z'HZ without the barrier
        if local is not None and local.invariants.size:
            columns, rows = stage.invariants
            weighted = columns.multiply(value.softmax[:, None])
            self._shift = np.asarray((stage.blocks @ weighted).todense())
            matrix = (rows @ weighted.multiply(curvature[layout.block_of][:, None])).toarray()
            matrix -= self._shift.T @ (curvature[:, None] * self._shift)
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
        columns, rows = self._stage.invariants
        along = solver(self._matrix + self._shift.T @ (barrier[:, None] * self._shift))

        def solve(gradient: Vector) -> Vector:
            direction = gradient / diagonal
            part = along(rows @ gradient[:d] - self._shift.T @ gradient[d:])
            direction[:d] += columns @ part
            direction[d:] -= self._shift @ part
            return np.asarray(direction)

        return solve

    def moved(self, value: Value) -> DiagonalMetric:
        """The metric at another point of the stage: this one, until METRIC_STEPS steps have been taken with it."""
        self._age += 1
        return self if self._age < METRIC_STEPS else DiagonalMetric(self._stage, value)


class NewtonMetric:
    """The Hessian of F in (phi, delta), from the covariance of the counts: J' (eta/tau Cov) J + V (diag s - s s').

    Moving phi along 1 in a block does not change F; a small multiple of 11' there makes the matrix definite. The part
    in phi is factored once; its Schur complement in delta, to which the barrier is added, is small.
    """

    def __init__(self, stage: Stage, value: Value, covariance: Matrix, ridge: float) -> None:
        p, layout = stage.problem, stage.layout
        d = p.dimension
        curvature = p.eta / stage.tau * covariance
        curvature[np.arange(d), np.arange(d)] += ridge * p.eta / stage.tau * value.expected.counts

        sums = stage.blocks @ curvature  # 1'C, one row a block
        corner = stage.blocks @ sums.T
        some = [slice(first, first + size) for first, size in zip(layout.block_start, layout.block_sizes)]
        phi = curvature
        for each, row in zip(some, sums):
            phi[:, each] -= row[:, None] * value.softmax[each]  # C (I - 1 s')
        right = stage.blocks @ phi
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

    def moved(self, value: Value) -> NewtonMetric:
        """The same metric: a new one costs as much as many evaluations of F, so `entropic_proximal` decides when."""
        return self


Metric = DiagonalMetric | NewtonMetric


class Descent:
    """L-BFGS steps on a stage; the metric is the approximate Hessian that the pairs correct.

    slope : gradient times direction of the last step; twice the decrease it predicts, if the metric is the Hessian.
    """

    def __init__(self, stage: Stage, value: Value, metric: Metric, pairs: Pairs) -> None:
        self.stage, self.value, self.pairs = stage, value, pairs
        self.exhausted = False
        self.slope = np.inf
        self._metric = metric

    def use(self, metric: Metric) -> None:
        """Change to a better metric, and drop the pairs."""
        self._metric = metric
        self.pairs.clear()

    def step(self) -> None:
        """One step with a backtracking line search; sets ``exhausted`` if rounding hides any further decrease."""
        stage, old = self.stage, self.value
        direction = self._direction(old.gradient)
        slope = float(old.gradient @ direction)
        if not slope > 0:
            self.pairs.clear()
            direction = self._direction(old.gradient)
            slope = float(old.gradient @ direction)
        self.slope = slope
        d = stage.problem.dimension
        reach = LONGEST_MOVE if len(self.pairs) or isinstance(self._metric, NewtonMetric) else 0.1 * LONGEST_MOVE
        # moves along 1 in a block change no softmax and are in no pair, so they may be large: they are not counted
        moved = direction[:d] - stage.layout.block_sum(old.softmax * direction[:d])[stage.layout.block_of]
        size = min(1.0, reach / max(float(np.abs(moved).max(initial=0.0)), 1e-12))
        for _ in range(SEARCH_TRIALS):
            deadline.check()
            x = old.x - size * direction
            x[d:] = np.maximum(x[d:], stage.least_delta)
            new = stage.at(x)
            expected = float(old.gradient @ (old.x - x))
            if new.merit <= old.merit - ARMIJO * expected + VALUE_ROUNDING * abs(old.merit):
                break
            fall = new.merit - old.merit + size * slope
            size *= float(np.clip(0.5 * size * slope / fall, 0.1, 0.5)) if fall > 0 else 0.5
        else:
            self.exhausted = True
            return
        self.exhausted = not new.merit < old.merit and not np.abs(new.gradient).max() < np.abs(old.gradient).max()
        self.pairs.add(new.x - old.x, new.slope - old.slope)
        self.value = new
        self._metric = self._metric.moved(new)

    def _direction(self, gradient: Vector) -> Vector:
        barrier = self.stage.barrier_curvature(self.value)
        fit = isinstance(self._metric, DiagonalMetric)
        return self.pairs.solve(self._metric.inverse(barrier), gradient, fit, barrier)
