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

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.entropic_proximal.invariants import (
    LocalVariance,
    invariants,
    local_variance,
)
from convexstruct.features.counts.counts import Expected
from convexstruct.marginals.triplets import sums_by


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


class Space:
    """What all stages of one problem share."""

    def __init__(self, problem: GenerativeMargin) -> None:
        self._problem = problem

    @cached_property
    def invariants(self) -> tuple[sp.csr_array, sp.csr_array]:
        """The invariants of the counts as columns of Z (d, k), and Z'."""
        columns = invariants(self._problem.features)
        return columns, sp.csr_array(columns.T)

    @cached_property
    def blocks(self) -> sp.csr_array:
        """(B, d), 1 where an entry lies in a block."""
        layout = self._problem.layout
        return sums_by(layout.block_of, len(layout.block_sizes))


class Stage:
    """F for one measure and one temperature; ``c`` may be slightly below the problem's (see `method`)."""

    def __init__(
        self, problem: GenerativeMargin, measure: Measure, tau: float, c: Vector, kappa: float, space: Space
    ) -> None:
        self.space = space
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
