r"""The master problem of restricted simplicial decomposition, (10)-(11) of paper 0 for the proximal dual (D_n).

    maximise    sum_j alpha_j omega_j - sum_i lam_i + sum_i q_i^n(sum_j alpha_j mu_j, lam_i)
    subject to  lam >= 0, alpha >= 0, sum of alpha over each simplex = 1

with q_i^n(mu_i, lam_i) = min_theta_i (mu_i - c_i)' theta_i + lam_i 1'e^theta_i + gamma/2 |theta_i - theta^n_i|^2   (19).

Solved by projected Newton (Bertsekas 1982): in each simplex the largest alpha is eliminated by the equality, variables
at or near zero that want to fall are held, the rest take a Newton step bent along the bounds, with Armijo's test.

**Corrected.** The paper prints e^theta / (lam + gamma e^theta) in (23), (25), (26), where e^theta / (lam e^theta +
gamma) is right; (24) is right as printed. ``tests/solvers/test_proximal_rsd.py`` shows it by finite differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import wrightomega

from convexstruct.graphs import Index, TableLayout

Vector = NDArray[np.float64]

#: e^theta is taken of theta clipped here: as lam -> 0 theta grows without bound, and its square must stay finite.
CLIP = 300.0
#: Coordinates within this of zero count as at their bound, where they want to fall.
AT_BOUND = 1e-12
#: Ridges on the Hessian, relative to its mean diagonal, tried one after another until a step rises: from Newton's step
#: nearly to the gradient's. Points outnumber dimensions at times, and then the Hessian is singular.
RIDGES = (1e-13, 1e-9, 1e-6, 1e-3, 1.0)
#: Armijo's fraction of the predicted rise.
ARMIJO = 1e-4


def proximal_theta(mu: Vector, lam: Vector, c: Vector, centre: Vector, gamma: float) -> tuple[Vector, Vector]:
    r"""The root x of (20), mu - c - gamma theta^n + lam e^x + gamma x = 0, in closed form; and y = lam e^x / gamma.

    With a = theta^n + (c - mu) / gamma and z = ln(lam / gamma) + a,

        y = wrightomega(z),   x = a - y if z <= 1,   x = ln(gamma / lam) + ln y if z > 1,   x = a if lam = 0.

    The paper's Newton iteration needs hundreds of steps, or overflows, at extreme arguments.

    Parameters
    ----------
    mu, lam, c, centre : (d,) each; lam >= 0 already spread over the entries of its block.
    gamma : positive.
    """
    a = centre + (c - mu) / gamma
    positive = lam > 0
    log_ratio = np.where(positive, np.log(np.where(positive, lam, 1.0)) - np.log(gamma), -np.inf)
    z = log_ratio + a
    y = np.asarray(wrightomega(z))
    low = z <= 1
    x = np.where(low, a - y, np.log(np.where(low, 1.0, y)) - np.where(low, 0.0, log_ratio))
    return x, y


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
        theta, y = proximal_theta(mu, lam[self.layout.block_of], self.c, self.centre, self.gamma)
        away = theta - self.centre
        value = omega - lam.sum() + (mu - self.c) @ theta + self.gamma * (y.sum() + 0.5 * (away @ away))
        mass = self.layout.block_sum(np.exp(np.minimum(theta, CLIP)))
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
            theta, y = proximal_theta(mu, np.exp(u)[layout.block_of], self.c, self.centre, self.gamma)
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
        grown = np.exp(np.minimum(point.theta, CLIP))
        in_mu = 1.0 / (self.gamma * (1.0 + point.y))
        mixed = grown * in_mu
        return in_mu, mixed, self.layout.block_sum(grown * mixed)


@dataclass(frozen=True, eq=False)
class MasterPoint:
    """A maximiser of the master problem.

    alpha (m,) : weights of the points. dual : Q_n there. gap : by concavity, at most so much is missing to the
    master's optimum over alpha (plus |lam gradient| terms in the joint version). steps : Newton steps taken.
    """

    alpha: Vector
    dual: DualPoint
    gap: float
    steps: int


def solve_master(
    function: ProximalDual,
    mu: Vector,
    omega: Vector,
    simplex: Index,
    alpha: Vector,
    lam: Vector | None = None,
    tolerance: float = 0.0,
    joint: bool = False,
    max_steps: int = 50,
) -> MasterPoint:
    """Maximise Q_n over the convex hull of points, or over a product of hulls.

    Parameters
    ----------
    function : Q_n.
    mu (m, d), omega (m,) : the points. simplex (m,) : the simplex, 0 .. G - 1, each belongs to.
    alpha (m,) : feasible start. lam (blocks,) : a first guess.
    tolerance : stop when the gap is no larger; the gap is sum over simplices of (max_j g_j - alpha'g), g = dQ/dalpha.
    joint : take Newton steps in (alpha, lam) together, as the paper does; otherwise lam is maximised exactly at every
        alpha (same optimum; the Newton step in alpha is then that of the reduced function, and theta is feasible).
    """
    n_simplices = int(simplex.max()) + 1
    lam = function.best_lam(alpha @ mu, lam)
    point = function.at(alpha @ mu, float(alpha @ omega), lam)
    gap, steps = np.inf, 0
    for steps in range(max_steps + 1):
        slope = omega + mu @ point.theta
        lam_slope = point.mass - 1.0
        best = np.full(n_simplices, -np.inf)
        np.maximum.at(best, simplex, slope)
        gap = float(best.sum() - alpha @ slope)
        if joint:
            gap += float(np.abs(np.where(lam > 0, lam_slope, np.maximum(lam_slope, 0.0))) @ np.maximum(lam, 1.0))
        if gap <= max(tolerance, 1e-14 * abs(point.value)) or steps == max_steps:
            break
        following = _newton_step(function, mu, omega, simplex, n_simplices, alpha, point, slope, lam_slope, joint)
        if following is None:
            break
        alpha, point = following
        lam = point.lam
    return MasterPoint(alpha, point, gap, steps)


def _newton_step(
    function: ProximalDual,
    mu: Vector,
    omega: Vector,
    simplex: Index,
    n_simplices: int,
    alpha: Vector,
    point: DualPoint,
    slope: Vector,
    lam_slope: Vector,
    joint: bool,
) -> tuple[Vector, DualPoint] | None:
    """One projected Newton step with Armijo's test along the bent path; None if nothing rises any more."""
    lam = point.lam
    pivot = _largest(alpha, simplex, n_simplices)
    relative = slope - slope[pivot][simplex]
    held = (alpha <= AT_BOUND) & (relative <= 0)
    held[pivot] = True
    free = np.flatnonzero(~held)
    lam_free = (lam > 0) | (lam_slope > 0)
    in_mu, mixed, in_lam = function.second(point)
    difference = mu[free] - mu[pivot[simplex[free]]]
    across = np.add.reduceat(difference * mixed, function.layout.block_start, axis=1)
    weight = np.where(lam_free, 1.0 / np.where(lam_free, in_lam, 1.0), 0.0)
    hessian = (difference * in_mu) @ difference.T - (across * weight) @ across.T
    right = relative[free] - (across @ (weight * lam_slope) if joint else 0.0)
    size = max(float(np.trace(hessian)) / max(len(hessian), 1), 1e-300)
    for ridge in RIDGES:
        step = _solve(hessian, right, ridge * size)
        if not float(right @ step) > 1e-14 * abs(point.value):
            continue
        lam_step = weight * ((lam_slope if joint else 0.0) - across.T @ step)
        found = _search(
            function, mu, omega, simplex, n_simplices, alpha, point, slope, lam_slope, joint, pivot, free, step, lam_step
        )
        if found is not None:
            return found
    return None


def _search(
    function: ProximalDual,
    mu: Vector,
    omega: Vector,
    simplex: Index,
    n_simplices: int,
    alpha: Vector,
    point: DualPoint,
    slope: Vector,
    lam_slope: Vector,
    joint: bool,
    pivot: Index,
    free: Index,
    step: Vector,
    lam_step: Vector,
) -> tuple[Vector, DualPoint] | None:
    """Armijo's test along the path bent at the bounds; None if nothing rises."""
    lam = point.lam
    falling = step < 0
    first = float(np.min(alpha[free][falling] / -step[falling], initial=1.0))  # where the path meets its first bound
    sinking = np.bincount(simplex[free], weights=step, minlength=n_simplices)
    first = min(first, float(np.min(alpha[pivot][sinking > 0] / sinking[sinking > 0], initial=1.0)))
    size = 1.0
    for attempt in range(16):
        if attempt == 3 and 0 < first < size:
            size = first  # many points, few dimensions: along null directions only a bound ends the rise
        trial = np.zeros_like(alpha)
        trial[free] = np.maximum(alpha[free] + size * step, 0.0)
        rest = 1.0 - np.bincount(simplex, weights=trial, minlength=n_simplices)
        if (rest < 0).any():
            size *= 0.5
            continue
        trial[pivot] = rest
        new_mu = trial @ mu
        new_lam = np.maximum(lam + size * lam_step, 0.0)
        if not joint:
            new_lam = function.best_lam(new_mu, new_lam)
        found = function.at(new_mu, float(trial @ omega), new_lam)
        rise = float(slope @ (trial - alpha)) + (float(lam_slope @ (new_lam - lam)) if joint else 0.0)
        if found.value >= point.value + ARMIJO * max(rise, 0.0) and found.value > point.value:
            return trial, found
        size *= 0.5
    return None


def _largest(alpha: Vector, simplex: Index, n_simplices: int) -> Index:
    """The position of the largest alpha of each simplex."""
    if n_simplices == 1:
        return np.array([int(alpha.argmax())], dtype=np.intp)
    order = np.lexsort((alpha, simplex))
    last = np.searchsorted(simplex[order], np.arange(n_simplices), side="right") - 1
    return np.asarray(order[last])


def _solve(hessian: Vector, right: Vector, ridge: float) -> Vector:
    """Newton's direction with ``ridge`` on the diagonal, more where rounding asks for it (points may nearly repeat)."""
    diagonal = np.arange(len(hessian))
    while len(right):
        regular = hessian.copy()
        regular[diagonal, diagonal] += ridge
        factor, info = lapack.dpotrf(regular, lower=1)
        if info == 0:
            solution, _ = lapack.dpotrs(factor, right, lower=1)
            return np.asarray(solution)
        ridge *= 100.0
    return right
