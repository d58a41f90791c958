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

**General objectives** (`families.generative_margin.general`). The part of example k is h of its m_k, the term in
braces, in place of m_k, continued below 0 with the slope h'(0): so its weight is B_k = eta w_k h'(m_k). A limit
a_r'theta <= g_r has a multiplier kap_r > 0 and adds tau kap_r (e^{(a_r'theta - g_r) / tau} - 1), the exponential method
of multipliers: as for labellings, a proximal step of the dual in Kullback-Leibler distance, and kap_r times the
exponential is the next kap_r. A cap m_k <= m (`Capped`) is such a limit of example k: its multiplier is the part of b_k
above 1. Then dF/dtheta = -v with v = c - mu - f'(theta) - sum_r kap_r a_r. Below a
floor, where theta is on its way only, f goes on along its tangent: the reverse divergence is not convex there.

How far theta is from the stage's optimum is known exactly: where v >= 0, the duality gap of the stage is
sum_i V_i KL(v_i / V_i || e^{theta_i}) = -v'theta - sum_i [V_i ln V_i - sum_j v_ij ln v_ij].
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.families.generative_margin.in_files import CountsInFiles
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Capped
from convexstruct.families.generative_margin.solvers.entropic_proximal.invariants import (
    LocalVariance,
    invariants,
    local_variance,
)
from convexstruct.features.counts.counts import Expected
from convexstruct.marginals.triplets import sums_by


@dataclass(frozen=True)
class Measure:
    """The weights q_k(s) ~ exp(Theta' counts_k(s) + B loss_k(s)), ln Z_k (K,), kap of the limits, and of a cap (K,)."""

    theta: Vector
    loss: float
    log_partition: Vector
    kap: Vector
    cap: Vector = field(default_factory=lambda: np.zeros(0))


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
    b: Vector  # (K,) h'(m_k), 1 where h is linear
    kap: Vector
    own: Vector  # (d,) f''
    curvature: Vector  # (d,) the diagonal of the second derivatives of f, of the limits' terms and of h
    bend: Vector | None  # (K,) w_k h''(m_k), None where h is linear
    cap: Vector  # (K,) multipliers of a cap


def sample(problem: GenerativeMargin) -> Any:
    """The feature map; of examples in files some of them, which have the weight of all: metrics need no more."""
    return problem.counts.sample if isinstance(problem.counts, CountsInFiles) else problem.features


class Space:
    """What all stages of one problem share."""

    def __init__(self, problem: GenerativeMargin) -> None:
        self._problem = problem

    @cached_property
    def invariants(self) -> tuple[sp.csr_array, sp.csr_array]:
        """The invariants of the counts as columns of Z (d, k), and Z'."""
        columns = invariants(sample(self._problem))
        return columns, sp.csr_array(columns.T)

    @cached_property
    def limits(self) -> tuple[sp.csr_array, Vector]:
        """The limits as rows A theta <= a."""
        if self._problem.general is None:
            return sp.csr_array((0, self._problem.dimension)), np.zeros(0)
        return self._problem.general.parameters.limits.inequalities

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
        self.least_delta = kappa / np.maximum(largest, largest.mean()) * (1.0 if problem.general is None else 1e-3)
        self.evaluations = 0
        self._ones = np.ones(problem.n_examples)

    def natural(self, value: Value) -> tuple[Vector, float]:
        """Parameters of the weights at ``value``: theta and the weight of the loss in the exponent."""
        return self.measure.theta + value.theta / self.tau, self.measure.loss + 1.0 / self.tau

    def local_variance(self, value: Value) -> LocalVariance | None:
        """The variances of the counts under the measure at ``value``, as if steps were independent."""
        local = local_variance(self._weighted(value.b), *self.natural(value))
        self.evaluations += local is not None
        return local

    def _weighted(self, b: Vector) -> Any:
        """The features with the weights w_k b_k."""
        p = self.problem
        return sample(p) if p.h is None else replace(p.features, weights=p.examples.weights * b)  # type: ignore[type-var]

    def at(self, x: Vector) -> Value:
        p, layout, d = self.problem, self.layout, self.problem.dimension
        self.evaluations += 1
        theta = x[:d] - (layout.block_logsumexp(x[:d]) + x[d:])[layout.block_of]
        new = self.measure.theta + theta / self.tau
        expected = p.oracle.expected(new, self.measure.loss + 1.0 / self.tau)
        rise = self.tau * (expected.log_partition - self.measure.log_partition)
        (A, a), b, truth, weights = self.space.limits, self._ones, p.truth_counts, p.examples.weights
        bend, cap = None, self.measure.cap
        if p.h is None:
            f = float(-self.c @ theta + p.eta * (weights @ rise - truth @ theta))
        else:
            m = rise - np.asarray(p.truth_each @ theta)
            slack = np.maximum(m, 0.0)
            bend = weights * np.where(m > 0, p.h.curvature(slack), 0.0)
            b = np.asarray(p.h.slope(slack))
            paid = p.h.value(slack) + p.h.slope(0.0 * m) * np.minimum(m, 0.0)
            if isinstance(p.h, Capped):
                cap = cap * np.exp(np.minimum((m - p.h.most) / self.tau, 700.0))
                b, bend = b + cap, bend + weights * cap / self.tau
                paid = m + self.tau * (cap - self.measure.cap)
            f = float(-self.c @ theta + p.eta * (weights @ paid))
            expected = p.oracle.expected(new, self.measure.loss + 1.0 / self.tau, b)
            self.evaluations += 1
            truth = p.truth_each.T @ (weights * b)
        mu = p.eta * (expected.counts - truth)
        kap = self.measure.kap
        pull, curvature, own = np.zeros(d), np.zeros(d), np.zeros(d)
        if len(a):
            with np.errstate(over="ignore", invalid="ignore"):
                kap = kap * np.exp(np.minimum((A @ theta - a) / self.tau, 700.0))  # no overflow
                f += self.tau * float(kap.sum() - self.measure.kap.sum())
                pull, curvature = A.T @ kap, A.power(2).T @ (kap / self.tau)
        if p.f is not None and p.general is not None:
            each, slope_f, own = p.general.parameters.extended(theta)
            f += float(each.sum())
            pull, curvature = pull + slope_f, curvature + own
        if bend is not None:  # of h'' m m', as if the examples' gradients were equal
            mean = mu / max(p.eta * float(weights @ b), 1e-300)
            curvature = curvature + p.eta * float(bend.sum()) * mean * mean
        v = self.c - mu - pull
        total = layout.block_sum(v)
        softmax = np.exp(theta + x[d:][layout.block_of])
        slope = np.concatenate((total[layout.block_of] * softmax - v, total))
        gradient = slope.copy()
        gradient[d:] -= self.kappa / x[d:]
        merit = f - self.kappa * float(np.log(x[d:]).sum())
        omega = p.eta * expected.loss
        return Value(
            x, theta, f, slope, merit, gradient, softmax, v, mu, omega, expected, b, kap, own, curvature, bend, cap
        )  # fmt: skip

    def after(self, value: Value) -> Measure:
        """The measure of the next stage, if this one ends at ``value``."""
        return Measure(*self.natural(value), value.expected.log_partition, value.kap, value.cap)

    def barrier_curvature(self, value: Value) -> Vector:
        """The barrier's curvature in delta (B,), primal-dual: max(V, kappa / delta) / delta."""
        delta = value.x[self.problem.dimension :]
        return np.asarray(np.maximum(self.layout.block_sum(value.v), self.kappa / delta) / delta)


def stage_gap(problem: GenerativeMargin, value: Value, space: Space) -> float:
    """The duality gap of the stage with the problem's own c: sum_i V_i KL(v_i / V_i || e^theta_i).

    Where v < 0 the dual point is t (mu, omega), with the largest t for which v >= 0; its divergence from the measure is
    taken as that of t = 1. A few v_ij that are slightly negative cost little, and take many steps to remove.

    With f or limits: f(theta) - u'theta less its least value over 1'e^theta_i <= 1, u = c - mu - sum_r kap_r a_r.
    """
    if problem.general is None:
        above = value.mu > problem.c
        t = float(np.min(problem.c[above] / value.mu[above], initial=1.0))
        bound = problem.dual_value(np.minimum(t * value.mu, problem.c), t * value.omega)
        return float(value.omega + (value.mu - problem.c) @ value.theta - bound)
    u = problem.c - value.mu - space.limits[0].T @ value.kap
    own = problem.general.parameters.extended(value.theta)[0].sum()
    return float(own - u @ value.theta - problem.general.parameters.least(u, within=False)[0])
