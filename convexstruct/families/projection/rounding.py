r"""Both bounds of `BoxProjection`, from one pass over blocks of entries.

**Above.** An upper bound needs a feasible point, and <s, a> = z holds up to rounding only. So the allowance of P
includes its rise where a is moved inside its bounds until the equality is exact. Let eps bound |<s, a> - z|. Moving one
entry by h = eps / |s_i| costs at most d_i^2 (|a_i - m_i| h + h^2 / 2); of the entries of a block whose bounds allow it
the cheapest is taken. Where none does, all go to their bounds: P is convex, so that it is no larger where <s, a> is z
on the way than by the rise of them all (a z beyond the end is read as the end, see `BoxProjection`).

**Below.** A lower bound needs the least value of the Lagrangian, and a(rho) attains it up to rounding only. In each
entry the Lagrangian is d_i^2 (a_i - x_i)^2 / 2 and a constant, x_i = m_i - rho s_i / d_i^2, and a_i is x_i + e_i,
clipped: its value is too large by at most d_i^2 e_i^2 / 2. With |e_i| <= gamma(6) (|m_i| + |rho s_i| / d_i^2) that is
in all at most gamma(6)^2 (sum (d_i m_i)^2 + rho^2 sum (s_i / d_i)^2), far below the rounding of the sums. Where it is
not, or squares may underflow, the Lagrangian is evaluated at an a(rho) that carries its errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.oracles.box.projection import BLOCK
from convexstruct.rounding import TINY, UNIT, Rounded, RoundedArray, exact, gamma, maximum, square, summed, total

#: Between these, squares and their products neither underflow nor overflow.
LEAST, GREATEST = 1e-70, 1e70
#: Entries among which the cheapest move is taken.
LOOKED_AT = 1 << 12


class Sums(NamedTuple):
    """sum d_i^2 (a_i - m_i)^2 and <s, a>."""

    squares: Rounded
    weighted: Rounded

    @classmethod
    def of(cls, parts: list[Sums]) -> Sums:
        return cls(*(total(list(each)) for each in zip(*parts)))


class Data(NamedTuple):
    """The data of a box: arrays (n,), or one number for all entries."""

    m: Vector
    lower: Any
    upper: Any
    s: Any
    d: Any

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Data]]:
        for low in range(0, len(self.m), size):
            deadline.check()
            cut = slice(low, low + size)
            yield cut, Data(self.m[cut], *(x if isinstance(x, float) else x[cut] for x in self[1:]))

    @property
    def unweighted(self) -> bool:
        return isinstance(self.d, float) and self.d == 1.0

    def at(self, rho: float) -> Vector:
        """a(rho) = clip(m - rho s / d^2, lower, upper)."""
        step = np.asarray(rho * (self.s if self.unweighted else self.s / (self.d * self.d)))
        found = np.subtract(self.m, step, out=step if step.ndim else None)
        if isinstance(self.lower, float) or isinstance(self.upper, float):  # np.clip is faster with numbers only
            return np.asarray(np.clip(found, self.lower, self.upper, out=found))
        return np.asarray(np.minimum(np.maximum(found, self.lower, out=found), self.upper, out=found))

    def carried(self, rho: float) -> RoundedArray:
        """The same with its errors."""
        found: RoundedArray = self.m - exact(rho) * self.s / self.d / self.d
        clipped: RoundedArray = -maximum(-maximum(found, self.lower), -np.asarray(self.upper))
        return clipped

    def ends(self, direction: float, a: Vector | float = 0.0) -> Vector:
        """The bounds at which <s, a> is greatest (direction 1) or least (-1); a where s is 0; (n,)."""
        goal = np.where(np.greater(np.multiply(direction, self.s), 0.0), self.upper, self.lower)
        return np.broadcast_to(goal if np.all(self.s) else np.where(np.equal(self.s, 0.0), a, goal), self.m.shape)

    def outside(self, a: Vector) -> tuple[float, float]:
        """The most by which a lies below and above its bounds, 0 inside."""
        low = a.min() if isinstance(self.lower, float) else a
        below = float(np.max(self.lower - low, initial=0.0))
        if isinstance(self.upper, float) and self.upper == math.inf:
            return below, 0.0
        high = a.max() if isinstance(self.upper, float) else a
        return below, float(np.max(high - self.upper, initial=0.0))

    def sums(self, a: Any) -> Sums:
        """`Sums` at a (n,), an array or one that carries errors."""
        off = a - self.m if self.unweighted else (a - self.m) * self.d
        if isinstance(self.s, float):
            positive = isinstance(a, np.ndarray) and bool(a.min() >= 0.0)
            return Sums(square(off, operations=2), self.s * summed(a, operations=1, positive=positive))
        return Sums(square(off, operations=2), summed(self.s * a, len(self.m) * TINY, operations=1))


class Looked(NamedTuple):
    """What one pass finds: the most by which a lies below and above its bounds, and the sums of a and of a(rho)."""

    below: float
    above: float
    sums: Sums
    least: Sums | None


def looked_at(data: Data, a: Vector, rho: float) -> Looked:
    """In most blocks a(rho) is a, so that the same sums serve both; without a finite rho there are none of a(rho)."""
    off, found, least = [], [], []
    for cut, part in data.blocks():
        some = a[cut]
        own = part.at(rho) if math.isfinite(rho) else None
        same = own is not None and np.array_equal(own, some)
        off.append((0.0, 0.0) if same else part.outside(some))
        found.append(part.sums(some))
        if own is not None:
            least.append(found[-1] if same else part.sums(own))
    below, above = np.max(off, axis=0).tolist()  # NaN stays NaN
    return Looked(below, above, Sums.of(found), Sums.of(least) if least else None)


def upper_bound(data: Data, z: float, a: Vector, looked: Looked) -> Rounded:
    """P; its allowance is infinite where a is outside its bounds."""
    value, rest = 0.5 * looked.sums.squares, looked.sums.weighted - z
    if not (math.isfinite(value) and looked.below == looked.above == 0.0):
        return Rounded(value, math.inf)
    cost = max(_cost(data, a, rest.upper, -1.0), _cost(data, a, -rest.lower, 1.0))
    return Rounded.of(value, value.allowance, cost)


def _cost(data: Data, a: Vector, eps: float, direction: float) -> float:
    """A bound on the cost of raising <s, a> (direction 1) or lowering it (-1) by at most ``eps``."""
    if eps <= 0.0:
        return 0.0
    cost = 0.0
    for cut, part in data.blocks(LOOKED_AT):
        some = a[cut]
        way = np.abs(part.ends(direction, some) - some)
        if not way.any():
            continue
        enough = eps / np.abs(part.s) * (1.0 + 1e-9) + TINY
        step = np.minimum(way, enough)
        rise = ((part.d * (np.abs(some - part.m) + 0.5 * step) + TINY) * part.d + TINY) * step
        if (way > enough).any():
            return float(np.min(rise[way > enough])) * (1.0 + 1e-9)
        cost += float(rise.sum()) * (1.0 + 1e-9)
    return cost


def lower_bound(data: Data, z: float, rho: float, least: Sums, lost: float, beyond: float) -> Rounded:
    """The least value of the Lagrangian at rho.

    least : the sums of a(rho). lost : what `lost` says. beyond : a bound on how far z lies outside what <s, a> can be;
    it is read as the nearest such value.
    """
    for carried in (False, True):
        if carried:
            least, lost = Sums.of([part.sums(part.carried(rho)) for _, part in data.blocks()]), 0.0
        value = 0.5 * least.squares + rho * (least.weighted - z)
        if math.isfinite(value) and lost <= UNIT * abs(value):
            return Rounded.of(value, value.allowance, lost, abs(rho) * beyond)
    return Rounded(-math.inf)


def lost(rho: float, size: float, reach: float, ends: tuple[float, float]) -> float:
    """A bound on how much too large the Lagrangian is because a(rho) is rounded; inf where squares may underflow.

    size, reach : sum (d_i m_i)^2 and sum (s_i / d_i)^2, as computed. ends : the least and the greatest d.
    """
    if not all(LEAST < x < GREATEST for x in (size, reach, *ends)) or abs(rho) > GREATEST:
        return math.inf
    return 2.0 * gamma(6) ** 2 * (size + rho * rho * reach)


def outside(data: Data, z: float, ends: tuple[float, float], slack: float) -> float:
    """A bound on how far z lies outside of ``ends``, sums with an error of at most ``slack``; 0 if inside."""
    beyond = 0.0
    for end, sign in zip(ends, (-1.0, 1.0)):
        if math.isfinite(end) and sign * (z - end) > -slack:
            off = sign * (z - total([summed(exact(part.ends(sign)) * part.s) for _, part in data.blocks()]))
            beyond = max(beyond, off.upper if math.isfinite(off) else math.inf)
    return beyond
