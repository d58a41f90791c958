r"""The part of (28)-(30) that knows theta alone, F = - c'theta + f(theta) + limits, and a bound on its conjugate.

A dual point of (28)-(30) has u = c - mu - G'kap, kap >= 0 the multipliers of the affine rows, and enters by

    phi(u) = inf { f(theta) - u'theta : 1'e^theta_i <= 1, low <= theta <= high }
           = max over lam_i > 0 of  sum_j min { f_j(t) - u_j t + lam_i e^t : low_j <= t <= min(high_j, 0) } - lam_i.

`Parameters.least` finds lam by bisection: the sum of e^t falls in lam. `Parameters.bound` proves a value: any lam gives
a lower bound, and each entry's minimum is bounded from one point t and the slope s there, by convexity alone, so that a
piece needs no conjugate:

    a floor          >= value(t) - s_+ (t - low) - s_- (min(high, 0) - t)
    modulus rho > 0  >= value(t) - s_+^2 / (2 rho) - s_- (min(high, 0) - t)
    neither          = v - v ln(v / lam) - kap min(high, 0),  v = u - kap >= 0, for any kap >= 0; -inf where u < 0.

Where there is no f and no limit, lam_i = sum_j u_ij gives phi in closed form, as `GenerativeMargin` uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from convexstruct.arrays import Flags, Vector
from convexstruct.families.generative_margin.constraints import Limits
from convexstruct.families.generative_margin.objectives import Objective
from convexstruct.graphs import TableLayout
from convexstruct.rounding import (
    FUNCTION,
    OUTWARD,
    UNIT,
    Rounded,
    RoundedArray,
    entropy,
    exact,
    exp,
    log,
    product,
    summed,
)

#: lam is looked for between these, as logarithms: phi changes by e^-460 below the first.
LEAST_LOG, MOST_LOG = -460.0, 700.0
#: Bisections of ln lam and of a repair: each adds a binary digit.
BISECTIONS = 64


@dataclass(frozen=True, eq=False)
class Parameters:
    """f (None where there is none) and the limits, in a layout."""

    layout: TableLayout
    f: Objective | None
    limits: Limits

    @cached_property
    def modulus(self) -> Vector:
        return np.zeros(self.layout.dimension) if self.f is None else self.f.modulus

    @cached_property
    def bounded(self) -> Flags:
        """Entries with a floor."""
        return np.asarray(np.isfinite(self.limits.low))

    @cached_property
    def free(self) -> Flags:
        """Entries with no floor and no modulus: u >= 0 must hold there; (d,)."""
        return np.asarray(~self.bounded & (self.modulus == 0))

    def value(self, theta: Any) -> Rounded:
        """f(theta) of an array, or of one with errors; 0 where there is no f."""
        return Rounded(0.0) if self.f is None else summed(self.f.value(theta))

    def extended(self, theta: Vector) -> tuple[Vector, Vector, Vector]:
        """f with its slope and curvature by entries (d,), continued below its floor along its tangent, where it may not
        be convex itself."""
        if self.f is None:
            return np.zeros_like(theta), np.zeros_like(theta), np.zeros_like(theta)
        at = np.maximum(theta, self.limits.low)
        under, slope = theta - at, self.f.slope(at)
        curvature = np.where(under < 0, 0.0, np.maximum(self.f.curvature(at), 0.0))
        return self.f.value(at) + slope * under, slope, curvature

    def least(self, u: Vector, within: bool = True) -> tuple[float, Vector, Vector]:
        """(phi(u), its theta (d,), ln lam of each entry's block); phi is -inf where some free u is below 0.

        within : with the bounds; else over 1'e^theta_i <= 1 alone, with f `extended`. Where u is 0 in a free entry the
        infimum is not attained: theta is -inf there.
        """
        layout, of, n = self.layout, self.layout.block_of, len(self.layout.block_sizes)
        some = self.free if within else self.modulus == 0
        least = 0.0 if within else self.extended(np.where(self.bounded, self.limits.low, 0.0))[1] * self.bounded
        if (u < least)[some].any():
            return -np.inf, np.zeros_like(u), np.zeros_like(u)
        low, high = np.full(n, LEAST_LOG), np.full(n, MOST_LOG)
        if self.f is None and not (within and self.limited):  # the sum is 1 at lam_i = sum_j u_ij
            low = high = np.log(np.maximum(layout.block_sum(u), np.exp(LEAST_LOG)))
        for _ in range(BISECTIONS if low is not high else 0):
            middle = 0.5 * (low + high)
            much = layout.block_sum(np.exp(self._theta(u, middle[of], within))) > 1.0
            low, high = np.where(much, middle, low), np.where(much, high, middle)
        theta = self._theta(u, high[of], within)
        used = theta > -np.inf
        terms = -u[used] * theta[used]
        if self.f is not None:
            terms = terms + self.f.value(theta)[used]
        return float(terms.sum()), theta, high[of]

    def _theta(self, u: Vector, log_lam: Vector, within: bool) -> Vector:
        """The minimisers of all entries, for lam by entries; (d,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.f is None:
                found = np.where(u > 0, np.log(np.maximum(u, 1e-300)) - log_lam, -np.inf)
            else:
                found = self.f.least(u, np.exp(log_lam))
        return np.clip(found, self.limits.low, self.limits.ceiling) if within else np.minimum(found, 0.0)

    def bound(self, u: RoundedArray) -> Rounded:
        """A lower bound of phi(u) with its rounding, by the rules at the head of this file; -inf where free u may be
        below 0."""
        free, ceiling = self.free, self.limits.ceiling
        if (u.value - u.errors * OUTWARD < 0)[free].any() or not np.isfinite(u.value).all():
            return Rounded(-np.inf)
        _, theta, log_lam = self.least(u.value)
        lam = np.exp(log_lam)
        found = -summed(exact(lam[self.layout.block_start]))
        if free.any():
            mine, top = u[free], ceiling[free]
            kap = np.maximum(mine.value - mine.errors * OUTWARD - lam[free] * np.exp(top), 0.0) * (1.0 - 8.0 * UNIT)
            v = mine - kap
            found = found + summed(entropy(v)) + summed(v * (log(exact(lam[free])) + 1.0)) - summed(exact(kap) * top)
        rest = ~free
        if rest.any():
            t = np.where(rest, theta, 0.0)  # some finite number where no f is asked
            at, rise = exact(t), lam * exp(exact(t))
            psi, s = rise - u * at, rise - u
            if self.f is not None:
                psi, s = psi + self.f.value(at), s + self.f.slope(at)
            up, down = (np.maximum(sign * s.value + s.errors * OUTWARD, 0.0) for sign in (1.0, -1.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                by_floor = np.where(self.bounded, up * (t - self.limits.low), np.inf)
                by_modulus = np.where(self.modulus > 0, up * up / (2.0 * self.modulus), np.inf)
                away = np.minimum(by_floor, by_modulus) + down * (ceiling - t)
            found = found + summed(psi[rest]) - summed(exact(away[rest] * OUTWARD))
        return found

    @cached_property
    def limited(self) -> bool:
        """Whether some entry has a bound."""
        return bool(self.bounded.any() or np.isfinite(self.limits.high).any())

    def repair(self, theta: Vector) -> Vector:
        """A theta that certainly meets every limit: clipped, shifted into (4) block by block, and moved towards the
        interior as far as is needed, all of it where rows or groups may join blocks."""
        limits, of = self.limits, self.layout.block_of
        inside = limits.interior
        theta = np.where(np.isfinite(theta), theta, inside)
        theta = np.clip(limits.together(theta), limits.low, limits.ceiling)
        level = self.layout.block_logsumexp(theta)
        theta = limits.together(np.maximum(theta - np.maximum(level, 0.0)[of], limits.low))
        high = np.where(self.violations(theta) > 0, 1.0, 0.0)  # the share of the interior point
        low = np.zeros_like(high)
        for _ in range(BISECTIONS if high.any() else 0):
            share = 0.5 * (low + high)
            bad = self.violations((1.0 - share[of]) * theta + share[of] * inside) > 0
            low, high = np.where(bad, share, low), np.where(bad, high, share)
        return np.asarray((1.0 - high[of]) * theta + high[of] * inside)  # at 1 the interior point, not near it

    def violations(self, theta: Vector) -> Vector:
        """How far each block may violate a limit, (4) included; 0 where it certainly violates none. (blocks,); the same
        in all where rows or groups may join them."""
        limits, layout = self.limits, self.layout
        at = np.maximum(np.maximum(limits.low - theta, theta - limits.high), 0.0)
        worst = np.maximum.reduceat(at, layout.block_start)
        level, margin = sum_level(layout, theta)
        worst = np.maximum(worst, np.maximum(level + margin, 0.0))
        if limits.coupled:
            G, g = limits.G, limits.g
            rows = product(G, exact(theta)) - g
            worst = np.full_like(worst, max(float(worst.max()), float(np.max(rows.value + rows.errors, initial=0.0))))
            if (theta != theta[limits.of]).any():
                worst = np.maximum(worst, float(np.abs(theta - theta[limits.of]).max()))
        return np.where(np.isnan(worst), np.inf, worst)


def sum_level(layout: TableLayout, theta: Vector) -> tuple[Vector, Vector]:
    """(ln 1'e^theta_i of each block, a margin of at least twice its error and that of taking it from theta)."""
    top, sizes = np.maximum.reduceat(theta, layout.block_start), layout.block_sizes
    operations = sizes + 4 * FUNCTION + 8 * np.log1p(sizes) + 4 * np.where(np.isfinite(top), np.abs(top), 0.0)
    return layout.block_logsumexp(theta), 4 * UNIT * operations


def shifted(layout: TableLayout, theta: Vector) -> Vector:
    """The nearest point of (4) along each block: theta_i - max(0, ln 1'e^theta_i) (paper 0, section 2.3.3).

    The formula is the paper's; its sentence, "a scale of e^theta by" the sum, should say divided. The shift is a few
    units in the last place larger, so that 1'e^theta_i <= 1 holds in exact arithmetic.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        level, margin = sum_level(layout, theta)
        return np.asarray(theta - np.where(level + margin > 0, level + 2 * margin, 0.0)[layout.block_of])
