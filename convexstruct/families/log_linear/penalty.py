r"""The penalty of a log-linear model and its conjugate, which every dual bound of the family subtracts.

    R(theta) = lam/2 |theta|^2 + l1 |theta|_1
    R*(g) = max_theta <g, theta> - R(theta) = |S(g)|^2 / (2 lam),     S(g)_j = sign(g_j) max(|g_j| - l1, 0)

For lam = 0 it is 0 where |g_j| <= l1 for every j, and infinite elsewhere. With l1 = 0 as well, g must be 0.

**Erratum.** The slides say that a convex prior makes the objective strictly convex, with one solution. With L2 it does;
with L1 alone there can be many, as where two indicators always sum to 1.

**Dual.** A log-linear model minimises P(theta) = L(theta) + R(theta), L a weighted sum of ln Z minus the score of the
truth. Distributions mu_i over the labellings with entropies H_i give D(mu) = H - R*(g), where H is the weighted sum of
the H_i and g that of f_i - E_mu f. A mixture t mu + (1 - t) truth has an entropy of at least t H, for entropy is
concave, and t g in place of g. So t H - R*(t g) is a lower bound for every 0 <= t <= 1 (`Penalty.lower_bound`). It is
needed where lam = 0, since at the Gibbs marginals of a computed theta g is a little outside the box |g_j| <= l1. Where
the truth of each example is one labelling, its entropy is 0; where it is a distribution (moments), that entropy is
``least``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.rounding import UNIT, Rounded, RoundedArray, maximum, square, summed, up
from convexstruct.validation.arguments import mapping, number
from convexstruct.validation.arrays import real


@dataclass(frozen=True)
class Penalty:
    """R(theta) = lam/2 |theta|^2 + l1 |theta|_1; lam, l1 >= 0."""

    lam: float = 0.0
    l1: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", number("lam", self.lam, least=0))
        object.__setattr__(self, "l1", number("l1", self.l1, least=0))

    def value(self, theta: Vector) -> Rounded:
        """R(theta) with its allowance; infinite where squares overflow."""
        found = Rounded(0.0)
        with np.errstate(over="ignore", under="ignore"):
            if self.lam:
                found = found + 0.5 * self.lam * square(theta)
            if self.l1:
                found = found + self.l1 * summed(np.abs(theta), positive=True)
        return found if math.isfinite(found) else Rounded(math.inf)

    def gradient(self, theta: Vector, data: Vector) -> Vector:
        """The subgradient of L + R of least norm at theta, where ``data`` is the gradient of L: 0 at an optimum."""
        smooth = self.lam * theta
        smooth += data
        if not self.l1:
            return smooth
        at_zero = np.sign(smooth) * np.maximum(np.abs(smooth) - self.l1, 0.0)
        return np.where(theta != 0, smooth + self.l1 * np.sign(theta), at_zero)

    def prox(self, theta: Vector, step: Vector | float) -> Vector:
        """argmin_x R(x) + sum_j (x_j - theta_j)^2 / (2 step_j)."""
        shrunk = np.sign(theta) * np.maximum(np.abs(theta) - step * self.l1, 0.0)
        return np.asarray(shrunk / (1.0 + step * self.lam))

    def conjugate(self, g: RoundedArray, t: float = 1.0) -> Rounded:
        """R*(t g); inf where it may be infinite."""
        size = t * abs(g)
        if self.lam == 0.0:
            inside = t == 0.0 or up(size.value + size.error).max(initial=0.0) <= self.l1
            return Rounded(0.0 if inside else math.inf)
        value: Rounded = 0.5 * square(maximum(size - self.l1, 0.0)) / self.lam
        return value if math.isfinite(value) else Rounded(math.inf)

    def share(self, entropy: float, g: Vector) -> float:
        """The t in [0, 1] that approximately maximises t H - R*(t g)."""
        if not (entropy > 0 and math.isfinite(entropy)):
            return 0.0
        largest = float(np.abs(g).max(initial=0.0))
        if self.lam == 0.0:
            return 1.0 if largest <= self.l1 else self.l1 / largest * (1.0 - 16 * UNIT)
        size = np.abs(g)
        if self.l1 == 0.0:
            square = float(size @ size) / self.lam
            return min(1.0, entropy / square) if square > 0 else 1.0

        def rises(t: float) -> bool:
            return float(np.maximum(t * size - self.l1, 0.0) @ size) <= entropy * self.lam

        if rises(1.0):
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(40):  # halvings: the end of the interval is known to 1e-12 then
            middle = 0.5 * (low + high)
            low, high = (middle, high) if rises(middle) else (low, middle)
        return low

    def lower_bound(
        self,
        entropy: Rounded,
        g: Vector,
        error: Vector | float = 0.0,
        least: float = 0.0,
    ) -> Rounded:
        """max over t of t H + (1 - t) least - R*(t g) with its allowance, where the exact g is within ``error`` of the
        computed one, entry by entry; -inf where ``entropy`` or g is not finite.

        least : a lower bound on the entropy of the truth where the truth is a distribution; 0 for a single labelling.
        Without a penalty g must be 0, which no computed g is: see `Reach.lower_bound` of `basis`.
        """
        outer = up(np.abs(g) + error)
        if not (math.isfinite(entropy) and math.isfinite(float(outer.sum()))):
            return Rounded(-math.inf)
        t = self.share(float(entropy) - least, outer)
        value: Rounded = t * entropy + (Rounded(1.0) - t) * least - self.conjugate(RoundedArray(g, error), t)
        return value if math.isfinite(value.allowance) else Rounded(-math.inf)


#: Of the maximum likelihood itself.
NO_PENALTY = Penalty()


def read_theta(value: Any, dimension: int) -> Point:
    """The point {"theta": (d,)}, read from an array (d,) or a mapping with "theta"."""
    if isinstance(value, Mapping):
        value = mapping("point", value, {"theta"})["theta"]
    return {"theta": real("theta", value, (dimension,), finite=False, keep=False)}
