r"""The penalty of a log-linear model and its conjugate, which every dual bound of the family subtracts.

    R(theta) = lam/2 |theta|^2 + l1 |theta|_1
    R*(g) = max_theta <g, theta> - R(theta) = |S(g)|^2 / (2 lam),     S(g)_j = sign(g_j) max(|g_j| - l1, 0)

For lam = 0 it is 0 where |g_j| <= l1 for every j, and infinite elsewhere. With l1 = 0 as well, g must be 0.

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
from convexstruct.rounding import TINY, UNIT, Rounded, summed
from convexstruct.validation.arguments import mapping, number
from convexstruct.validation.arrays import real

#: Halvings of the interval in which the best share t of a dual point lies: its end is known to 1e-12 then.
HALVINGS = 40


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
        parts = []
        for weight, power in ((0.5 * self.lam, 2), (self.l1, 1)):
            if weight:
                with np.errstate(over="ignore", under="ignore"):
                    terms = np.abs(theta) if power == 1 else theta * theta
                    total = summed(terms, len(theta) * TINY, 1, positive=True)
                value = weight * total
                parts.append(Rounded.of(value, weight * total.allowance, 2 * UNIT * value, 2 * TINY))
        if not parts:
            return Rounded(0.0)
        value = sum(map(float, parts))
        if not math.isfinite(value):
            return Rounded(math.inf)
        return Rounded.of(value, *(part.allowance for part in parts), 2 * UNIT * value)

    def gradient(self, theta: Vector, data: Vector) -> Vector:
        """The subgradient of L + R of least norm at theta, where ``data`` is the gradient of L: 0 at an optimum."""
        smooth = data + self.lam * theta
        if not self.l1:
            return smooth
        at_zero = np.sign(smooth) * np.maximum(np.abs(smooth) - self.l1, 0.0)
        return np.where(theta != 0, smooth + self.l1 * np.sign(theta), at_zero)

    def prox(self, theta: Vector, step: Vector | float) -> Vector:
        """argmin_x R(x) + sum_j (x_j - theta_j)^2 / (2 step_j)."""
        shrunk = np.sign(theta) * np.maximum(np.abs(theta) - step * self.l1, 0.0)
        return np.asarray(shrunk / (1.0 + step * self.lam))

    def conjugate(self, g: Vector, t: float = 1.0) -> Rounded:
        """R*(t g); the allowance covers the rounding of the sum alone, not an error of g. inf where it is infinite."""
        if self.lam == 0.0:
            inside = t == 0.0 or t * float(np.abs(g).max(initial=0.0)) <= self.l1
            return Rounded(0.0 if inside else math.inf)
        beyond = np.maximum(t * np.abs(g) - self.l1, 0.0)
        total = summed(beyond * beyond, len(g) * TINY, 1, positive=True)
        value = 0.5 * total / self.lam
        if not math.isfinite(value):
            return Rounded(math.inf)
        return Rounded.of(value, 0.5 * total.allowance / self.lam, 4 * UNIT * value, 4 * TINY)

    def share(self, entropy: float, g: Vector) -> float:
        """The t in [0, 1] that approximately maximises t H - R*(t g)."""
        if not (entropy > 0 and math.isfinite(entropy)):
            return 0.0
        largest = float(np.abs(g).max(initial=0.0))
        if self.lam == 0.0:
            return 1.0 if largest <= self.l1 else self.l1 / largest * (1.0 - 4 * UNIT)
        size = np.abs(g)
        if self.l1 == 0.0:
            square = float(size @ size) / self.lam
            return min(1.0, entropy / square) if square > 0 else 1.0

        def rises(t: float) -> bool:
            return float(np.maximum(t * size - self.l1, 0.0) @ size) <= entropy * self.lam

        if rises(1.0):
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
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
        outer = np.abs(g) + error
        outer *= 1.0 + 8 * UNIT
        if not (math.isfinite(entropy) and math.isfinite(float(outer.sum()))):
            return Rounded(-math.inf)
        t = self.share(float(entropy) - least, outer)
        inner, most = self.conjugate(g, t), self.conjugate(outer, t)  # R* is convex and even: they enclose R*(t g)
        value = t * float(entropy) + (1.0 - t) * least - inner
        if not math.isfinite(most):
            return Rounded(-math.inf)
        rounding = 4 * UNIT * (t * abs(float(entropy)) + abs(least) + abs(value))
        moved = max(most - inner, 0.0) + most.allowance + inner.allowance
        return Rounded.of(value, t * entropy.allowance, moved, rounding, 4 * TINY)


def read_theta(value: Any, dimension: int) -> Point:
    """The point {"theta": (d,)}, read from an array (d,) or a mapping with "theta"."""
    if isinstance(value, Mapping):
        value = mapping("point", value, {"theta"})["theta"]
    return {"theta": real("theta", value, (dimension,), finite=False, keep=False)}
