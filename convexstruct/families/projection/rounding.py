r"""Proved bounds on the rounding of P and D of `BoxProjection`, computed block by block.

An upper bound needs a feasible point, and <s, a> = z holds up to rounding only. So the allowance includes the rise of P
(below: the cost) where a is moved inside its bounds until the equality is exact. Let eps bound |<s, a> - z|, and
g_i = d_i^2 (a_i - m_i). Moving one entry by eps / |s_i| costs |g_i| eps / |s_i| + d_i^2 (eps / s_i)^2 / 2; of some
entries whose bounds allow it the cheapest is taken. Where there is none, all entries move the same share of the way to
their bounds, at most the whole way (z is then replaced by the nearest value that can be reached, see `BoxProjection`).

A lower bound needs the least value of the Lagrangian, and a(rho) attains it up to rounding only. Let x_i = m_i -
rho s_i / d_i^2, and e_i its rounding error. In each entry the Lagrangian is d_i^2 (a_i - x_i)^2 / 2 and a constant, and
a_i is x_i + e_i, clipped. So its value there is too large by at most d_i^2 e_i^2 / 2, and right where x_i and x_i + e_i
are clipped to the same bound. With |e_i| <= gamma(6) (|m_i| + |rho s_i| / d_i^2), but for underflow, the sum is at most
2 gamma(6)^2 sum ((d_i m_i)^2 + (rho s_i / d_i)^2) (`lost_at_most`). For ordinary data that is far below one unit in the
last place of the value. Where it is not, the loss is bounded entry by entry (`_lost`), with the derivative
g_i = d_i^2 (a_i - m_i) + rho s_i: by 0 where a_i is at a bound and g_i does not point inwards, else by
g_i^2 / (2 d_i^2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.oracles.box.projection import BLOCK, product_error
from convexstruct.rounding import TINY, UNIT, Rounded, gamma, square, summed, total

#: d^2 does not underflow where d is at least this, nor overflow where d is at most its inverse.
SAFE = 1e-150
#: The cheapest move is taken among the first CANDIDATES entries with room, searched for LOOKED_AT entries at a time.
CANDIDATES, LOOKED_AT = 64, 1 << 12


class Data(NamedTuple):
    """The data of a box: arrays (n,), or one number for all entries."""

    m: Vector
    lower: Any
    upper: Any
    s: Any
    d: Any
    z: float

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Data]]:
        for low in range(0, len(self.m), size):
            deadline.check()
            cut = slice(low, low + size)
            yield cut, self.part(cut)

    def part(self, where: Any) -> Data:
        lower, upper, s, d = (x if isinstance(x, float) else x[where] for x in self[1:5])
        return Data(self.m[where], lower, upper, s, d, self.z)

    @property
    def unweighted(self) -> bool:
        return isinstance(self.d, float) and self.d == 1.0

    @property
    def positive(self) -> bool:
        """Whether no entry inside the bounds is negative, as one number for all lower bounds says."""
        return isinstance(self.lower, float) and self.lower >= 0.0

    def at(self, rho: float) -> Vector:
        """a(rho) = clip(m - rho s / d^2, lower, upper)."""
        step = np.asarray(rho * (self.s if self.unweighted else self.s / (self.d * self.d)))
        found = np.subtract(self.m, step, out=step if step.ndim else None)
        if isinstance(self.lower, float) or isinstance(self.upper, float):  # np.clip is faster with numbers only
            return np.asarray(np.clip(found, self.lower, self.upper, out=found))
        return np.asarray(np.minimum(np.maximum(found, self.lower, out=found), self.upper, out=found))

    def outside(self, a: Vector) -> tuple[float, float]:
        """The most by which a lies below and above its bounds; at most 0 inside."""
        low = a.min() if isinstance(self.lower, float) else a
        below = float(np.max(self.lower - low))
        if isinstance(self.upper, float) and self.upper == math.inf:
            return below, 0.0
        high = a.max() if isinstance(self.upper, float) else a
        return below, float(np.max(high - self.upper))

    def weighted(self, a: Vector, positive: bool = False) -> tuple[Rounded, float]:
        """(<s, a>, at least sum |s_i a_i|). positive : no entry of a is negative.

        The computed sum of n numbers that are not negative is at least (1 - UNIT)^n of the exact one, in any order, so
        that 1 + gamma(n) times it is no less than that: with one s, no second sum is needed where ``positive``.
        """
        alone = isinstance(self.s, float)
        terms, positive = (a, positive) if alone else (self.s * a, False)
        underflow = len(a) * TINY
        plain = summed(terms, 0.0 if alone else underflow, operations=0 if alone else 1, positive=positive)
        value = self.s * plain if alone else plain
        size = (abs(self.s) if alone else 1.0) * (float(plain) if positive else float(np.abs(terms).sum()))
        return value, size * (1.0 + gamma(len(a) + 4)) + underflow

    def squares(self, a: Vector) -> Rounded:
        """sum d_i^2 (a_i - m_i)^2, of terms with three roundings before they are squared, at most."""
        off = a - self.m
        if not self.unweighted:
            off *= self.d
        found = square(off)
        return Rounded.of(found, found.allowance, gamma(6) * found)


class Looked(NamedTuple):
    """What one pass over a finds: 1/2 sum d_i^2 (a_i - m_i)^2 with its allowance; the most by which a lies below and
    above its bounds; <s, a>, and at least sum |s_i a_i|."""

    value: Rounded
    below: float
    above: float
    total: float
    size: float


class _Terms:
    """The sums of P or D over the blocks of one pass: sum d_i^2 (a_i - m_i)^2 and <s, a>; at least sum |s_i a_i|."""

    def __init__(self) -> None:
        self.squares: list[Rounded] = []
        self.weighted: list[Rounded] = []
        self.size = 0.0

    def add(self, part: Data, a: Vector, positive: bool) -> None:
        """Those of one block's entries ``a``. positive : none of them is negative."""
        one, size = part.weighted(a, positive)
        self.squares.append(part.squares(a))
        self.weighted.append(one)
        self.size += size

    def copy_last(self, other: _Terms) -> None:
        """Those of the block that ``other`` has added last, whose entries are the same."""
        self.squares.append(other.squares[-1])
        self.weighted.append(other.weighted[-1])


def looked_at(data: Data, a: Vector, dual: tuple[float, Below] | None = None) -> tuple[Looked, Rounded]:
    """What a pass over a finds, and, where ``dual`` gives its arguments, `lower_bound` from the same pass (else -inf):
    in most blocks a(rho) is a, so that the same sums serve both. The allowance of P includes the cost of an exactly
    feasible point near a; it is infinite if a is outside its bounds."""
    terms, least = _Terms(), _Terms()
    under, over = [0.0], [0.0]
    for cut, part in data.blocks():
        some = a[cut]
        own = None if dual is None else part.at(dual[0])
        same = own is not None and np.array_equal(own, some)
        low, high = (0.0, 0.0) if same else part.outside(some)  # a(rho) is inside
        under.append(low)
        over.append(high)
        terms.add(part, some, low <= 0.0 and part.positive)
        if same:
            least.copy_last(terms)
        elif own is not None:
            least.add(part, own, part.positive)
    squares, weighted = total(terms.squares), total(terms.weighted)
    far = float(np.max(under)), float(np.max(over))  # NaN stays NaN
    value, allowance = 0.5 * squares, math.inf
    if math.isfinite(value) and far == (0.0, 0.0):
        rest = total([*terms.weighted, -data.z])
        cost = max(_cost(data, a, rest.upper, -1.0), _cost(data, a, -rest.lower, 1.0))
        allowance = Rounded.of(value, value.allowance, cost).allowance
    looked = Looked(Rounded(value, allowance), *far, weighted, terms.size)
    return looked, Rounded(-math.inf) if dual is None else _least_value(data, least, *dual)


def _cost(data: Data, a: Vector, eps: float, direction: float) -> float:
    """A bound on the cost of raising <s, a> (direction 1) or lowering it (-1) by at most ``eps``."""
    if eps <= 0.0:
        return 0.0
    for cut, part in data.blocks(LOOKED_AT):
        some = a[cut]
        rows = np.flatnonzero(_room(some, part, direction) > 2.0 * eps)[:CANDIDATES]
        if len(rows):
            few, own = some[rows], part.part(rows)
            step = eps / np.abs(own.s)
            pull = np.abs(own.d * (few - own.m))
            return float(np.min((pull + 0.5 * own.d * step) * own.d * step)) * (1.0 + 1e-9)
    reach = first = second = 0.0
    for cut, part in data.blocks():
        some = a[cut]
        goal = np.where(_way(part, direction) > 0, part.upper, part.lower)
        step = np.where(np.broadcast_to(np.not_equal(part.s, 0.0), some.shape), np.abs(goal - some), 0.0)
        reach += float(np.sum(np.abs(part.s) * step))
        pull = np.abs(part.d * (some - part.m))
        first += float(np.sum(pull * part.d * step))
        second += float(np.sum(np.square(part.d * step)))
    share = min(1.0, eps / reach * (1.0 + 1e-9)) if reach else 1.0
    return (share * first + 0.5 * share * share * second) * (1.0 + 1e-9) if math.isfinite(reach) else math.inf


def _way(part: Data, direction: float) -> Any:
    return direction * part.s


def _room(a: Vector, part: Data, direction: float) -> Vector:
    """By how much each entry alone can move <s, a> in the direction; 0 where it cannot."""
    way = _way(part, direction)
    if isinstance(way, float):
        return np.asarray(way * (part.upper - a) if way > 0 else -way * (a - part.lower) if way < 0 else 0.0 * a)
    move = np.where(way > 0, part.upper - a, a - part.lower)
    return np.asarray(np.where(way == 0, 0.0, np.abs(way) * np.where(way == 0, 0.0, move)))


class Below(NamedTuple):
    """What the lower bound needs of the data: sum (d_i m_i)^2, sum (s_i / d_i)^2, the least and the greatest d, and by
    how much z may lie outside what <s, a> can be; z is read as the nearest such value."""

    size: float
    reach: float
    ends: tuple[float, float]
    beyond: float


def lower_bound(data: Data, rho: float, below: Below) -> Rounded:
    """The least value of the Lagrangian at rho, from a(rho), which is its minimiser up to rounding."""
    least = _Terms()
    for _, part in data.blocks():
        least.add(part, part.at(rho), part.positive)
    return _least_value(data, least, rho, below)


def _least_value(data: Data, least: _Terms, rho: float, below: Below) -> Rounded:
    """`lower_bound`. least : the sums of a(rho)."""
    value = 0.5 * total(least.squares) + rho * total([*least.weighted, -data.z])
    if not math.isfinite(value):
        return Rounded(-math.inf)
    lost = lost_at_most(len(data.m), rho, below.size, below.reach, below.ends)
    if not lost <= UNIT * abs(value):
        lost = _lost(data, rho)
    return Rounded.of(value, value.allowance, abs(rho) * below.beyond, lost)


def lost_at_most(n: int, rho: float, size: float, reach: float, ends: tuple[float, float]) -> float:
    """A bound on how much too large the Lagrangian is because a(rho) is rounded; inf where d^2 may underflow.

    size, reach : sum (d_i m_i)^2 and sum (s_i / d_i)^2, as computed, d^2 perhaps after the sum; so a square that
    underflows may have lost `TINY` times d^2, or divided by it. ends : the least and the greatest d.
    """
    least, greatest = ends
    if not SAFE <= least <= greatest <= 1.0 / SAFE:
        return math.inf
    size, reach = size + n * TINY * (1.0 + greatest) ** 2, reach + n * TINY * (1.0 + 1.0 / least) ** 2
    step, tiny = abs(rho) * math.sqrt(reach), greatest * 4.0 * TINY * (1.0 + abs(rho))
    return 2.0 * (gamma(6) ** 2 * (size + step * step) + n * (tiny * tiny + TINY))


def _lost(data: Data, rho: float) -> float:
    """The sum of g_i^2 / d_i^2, as above, entry by entry."""
    lost = 0.0
    for _, part in data.blocks():
        some = part.at(rho)
        pull, push = part.d * (part.d * (some - part.m)), rho * part.s
        slope = pull + push
        error = gamma(6) * (np.abs(pull) + np.abs(push)) + 4 * TINY * (1.0 + part.d)
        inwards = np.where(some == part.lower, -slope, np.where(some == part.upper, slope, np.abs(slope))) + error
        inwards = np.where(np.equal(part.lower, part.upper), 0.0, np.maximum(inwards, 0.0)) / part.d
        lost += float(inwards @ inwards)
    return lost + len(data.m) * TINY


def reachable(data: Data, least: float, greatest: float, size: float) -> float:
    """A bound on how far z lies outside [least, greatest], sums with an error of at most ``size``; 0 if inside."""
    beyond = 0.0
    for end, sign in ((least, -1.0), (greatest, 1.0)):
        if math.isfinite(end) and sign * (data.z - end) > -size:
            lower, upper, s = (np.broadcast_to(np.asarray(x, dtype=np.float64), data.m.shape) for x in data[1:4])
            counts = s != 0
            at = np.where(s * sign > 0, upper, lower)[counts]
            with np.errstate(all="ignore"):
                terms = [*(s[counts] * at).tolist(), *product_error(s[counts], at).tolist(), -data.z]
            beyond = max(beyond, -sign * total(terms) * (1.0 + 1e-9) + len(terms) * TINY)
    return beyond
