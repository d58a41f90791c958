r"""The dual function Q_n of the proximal problem (P_n), (18)-(19) of paper 0, in closed form with two derivatives.

    Q_n(mu, omega, lam) = omega - sum_i lam_i + sum_i q_i^n(mu_i, lam_i)
    q_i^n(mu_i, lam_i) = min_theta_i (mu_i - c_i)'theta_i + lam_i 1'e^theta_i + gamma/2 |theta_i - theta^n_i|^2     (19)

**Corrected.** The paper prints e^theta / (lam + gamma e^theta) in (23), (25), (26), where e^theta / (lam e^theta +
gamma) is right; (24) is right as printed. ``tests/families/generative_margin/solvers/test_proximal_rsd.py`` shows it by
finite differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.families.generative_margin.objectives import proximal_theta
from convexstruct.graphs import TableLayout

#: theta is clipped here before e^theta: as lam -> 0 theta grows without bound, and e^{2 theta} must stay finite.
LARGEST_THETA = 300.0


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Q_n at (mu, omega, lam), and what its derivatives need.

    value : Q_n (18). theta (d,) : the minimiser in (19), the gradient of Q_n in mu by (21).
    y (d,) : lam e^theta / gamma. mass (blocks,) : 1'e^theta_i (clipped), so the gradient in lam is mass - 1.
    """

    mu: Vector
    omega: float
    lam: Vector
    value: float
    theta: Vector
    y: Vector
    mass: Vector


@dataclass(frozen=True, eq=False)
class ProximalDual:
    """The dual function Q_n of (D_n): prior c (d,), blocks, centre theta^n (d,) and gamma > 0."""

    c: Vector
    layout: TableLayout
    centre: Vector
    gamma: float

    def at(self, mu: Vector, omega: float, lam: Vector) -> DualPoint:
        """Q_n at a point; lam (blocks,) >= 0."""
        theta, y = proximal_theta(self.c - mu, lam[self.layout.block_of], self.centre, self.gamma)
        away = theta - self.centre
        value = omega - lam.sum() + (mu - self.c) @ theta + self.gamma * (y.sum() + 0.5 * (away @ away))
        mass = self.layout.block_sum(np.exp(np.minimum(theta, LARGEST_THETA)))
        return DualPoint(mu, omega, lam, float(value), theta, y, mass)

    def best_lam(self, mu: Vector, lam: Vector | None = None) -> Vector:
        """The lam >= 0 that maximises Q_n at mu; ``lam`` is a first guess.

        It is 0 where 1'e^{a_i} <= 1. Elsewhere 1'e^theta_i = 1, a root in u = ln lam_i of a function that falls with
        slope between -1 and 0, inside gamma max(a_i) <= lam_i <= gamma d_i (max(a_i) + ln d_i): Newton, bracketed.
        """
        layout = self.layout
        a = self.centre + (self.c - mu) / self.gamma
        tight = layout.block_logsumexp(a) > 0
        if not tight.any():
            return np.zeros(len(tight))
        top = np.maximum.reduceat(a, layout.block_start)
        size = layout.block_sizes
        high = np.log(np.where(tight, self.gamma * size * (top + np.log(size)), 1.0))
        low = np.where(top > 0, np.log(self.gamma * np.where(top > 0, top, 1.0)), high - 60.0)
        low = np.minimum(low, high)
        u = 0.5 * (np.maximum(low, high - 5.0) + high)
        if lam is not None:
            u = np.where(lam > 0, np.log(np.where(lam > 0, lam, 1.0)), u)
        u = np.clip(u, low, high)
        for _ in range(60):
            theta, y = proximal_theta(self.c - mu, np.exp(u)[layout.block_of], self.centre, self.gamma)
            excess = layout.block_logsumexp(theta)
            if np.abs(excess[tight]).max() <= 1e-13:
                break
            share = np.exp(theta - excess[layout.block_of])
            slope = layout.block_sum(share * (y / (1.0 + y)))
            low = np.where(excess > 0, u, low)
            high = np.where(excess < 0, u, high)
            step = u + excess / np.maximum(slope, 1e-300)
            inside = (step >= low) & (step <= high)
            following = np.where(inside, step, 0.5 * (low + high))
            if (np.abs(following - u)[tight] <= 1e-15 * np.maximum(1.0, np.abs(u[tight]))).all():
                break
            u = following
        return np.where(tight, np.exp(u), 0.0)

    def second(self, point: DualPoint) -> tuple[Vector, Vector, Vector]:
        """Minus the second derivatives: in mu (24) (d,), mixed (25) (d,) and in lam (26) (blocks,), corrected.

        -d2q/dmu2 = 1 / (lam e^theta + gamma)
        -d2q/dmu dlam = e^theta / (lam e^theta + gamma)
        -d2q/dlam2 = sum_j e^{2 theta} / (lam e^theta + gamma)
        """
        grown = np.exp(np.minimum(point.theta, LARGEST_THETA))
        in_mu = 1.0 / (self.gamma * (1.0 + point.y))
        mixed = grown * in_mu
        return in_mu, mixed, self.layout.block_sum(grown * mixed)
