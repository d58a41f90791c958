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
from typing import Any, NamedTuple

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.oracles.box.projection import Box, slack
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


def sums(box: Box, a: Any) -> Sums:
    """`Sums` at a (n,), an array or one that carries errors."""
    off = a - box.m if isinstance(box.d, float) and box.d == 1.0 else (a - box.m) * box.d
    if isinstance(box.s, float):
        positive = isinstance(a, np.ndarray) and bool(a.min() >= 0.0)
        return Sums(square(off, operations=2), box.s * summed(a, operations=1, positive=positive))
    return Sums(square(off, operations=2), summed(box.s * a, len(box.m) * TINY, operations=1))


def carried(box: Box, rho: float) -> RoundedArray:
    """a(rho) with its errors."""
    found: RoundedArray = -maximum(-maximum(box.m - exact(rho) * box.s / box.d / box.d, box.lower), -exact(box.upper))
    return found


def outside(box: Box, a: Vector) -> tuple[float, float]:
    """The most by which a lies below and above its bounds, 0 inside."""
    low = a.min() if isinstance(box.lower, float) else a
    below = float(np.max(box.lower - low, initial=0.0))
    if isinstance(box.upper, float) and box.upper == math.inf:
        return below, 0.0
    high = a.max() if isinstance(box.upper, float) else a
    return below, float(np.max(high - box.upper, initial=0.0))


class Looked(NamedTuple):
    """What one pass finds: the most by which a lies below and above its bounds, and the sums of a and of a(rho)."""

    below: float
    above: float
    sums: Sums
    least: Sums | None


def looked_at(box: Box, a: Vector, rho: float) -> Looked:
    """In most blocks a(rho) is a, so that the same sums serve both; without a finite rho there are none of a(rho)."""
    off, found, least = [], [], []
    for cut, part in box.blocks():
        some = a[cut]
        own = part.at(rho) if math.isfinite(rho) else None
        same = own is not None and np.array_equal(own, some)
        off.append((0.0, 0.0) if same else outside(part, some))
        found.append(sums(part, some))
        if own is not None:
            least.append(found[-1] if same else sums(part, own))
    below, above = np.max(off, axis=0).tolist()  # NaN stays NaN
    return Looked(below, above, Sums.of(found), Sums.of(least) if least else None)


def upper_bound(box: Box, z: float, a: Vector, looked: Looked) -> Rounded:
    """P; its allowance is infinite where a is outside its bounds."""
    value, rest = 0.5 * looked.sums.squares, looked.sums.weighted - z
    if not (math.isfinite(value) and looked.below == looked.above == 0.0):
        return Rounded(value, math.inf)
    cost = max(_cost(box, a, rest.upper, -1.0), _cost(box, a, -rest.lower, 1.0))
    return Rounded.of(value, value.allowance, cost)


def _cost(box: Box, a: Vector, eps: float, direction: float) -> float:
    """A bound on the cost of raising <s, a> (direction 1) or lowering it (-1) by at most ``eps``."""
    if eps <= 0.0:
        return 0.0
    cost = 0.0
    for cut, part in box.blocks(LOOKED_AT):
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


def lower_bound(box: Box, z: float, rho: float, least: Sums, lost: float, beyond: float) -> Rounded:
    """The least value of the Lagrangian at rho.

    least : the sums of a(rho). lost : what `lost` says. beyond : a bound on how far z lies outside what <s, a> can be;
    it is read as the nearest such value.
    """
    for again in (False, True):
        if again:
            least, lost = Sums.of([sums(part, carried(part, rho)) for _, part in box.blocks()]), 0.0
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


def beyond(box: Box, z: float, reach: tuple[float, float]) -> float:
    """A bound on how far z lies outside the values that <s, a> takes, of which the ends in ``reach`` are rounded."""
    most = 0.0
    for end, sign in zip(reach, (-1.0, 1.0)):
        if math.isfinite(end) and sign * (z - end) > -slack(z, reach):
            blocks = [np.broadcast_to(part.ends(sign), part.m.shape) * exact(part.s) for _, part in box.blocks()]
            off = sign * (z - total([summed(each) for each in blocks]))
            most = max(most, off.upper if math.isfinite(off) else math.inf)
    return most
