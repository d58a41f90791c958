r"""Projection onto a box cut by one linear equality, simplices among them (paper 2, appendix B):

    minimise 1/2 sum_i d_i^2 (a_i - m_i)^2     s.t.  l_i <= a_i <= u_i,  sum_i s_i a_i = z.

The solution is a_i(rho) = clip(m_i - rho w_i, l_i, u_i), w_i = s_i / d_i^2, with rho the root of

    phi(rho) = sum_i s_i a_i(rho) - z,

which falls and is piecewise linear with at most 2n breakpoints, (m_i - u_i) / w_i and (m_i - l_i) / w_i. Appendix B
finds the root by medians of breakpoints, in linear time (`convexstruct.oracles.box.breakpoints`). The default search,
"bracket", is ours. It starts at the root of phi for a random sample of the variables, and takes Newton's steps inside
the bracket, whose ends are the nearest points found with phi > 0 and with phi < 0. Each step costs one pass over the
variables; three to six are usual. A step that leaves the bracket is replaced by the double halfway between its ends in
the order of all doubles. After `NEWTON_STEPS` steps every second step is replaced in this way; at most 64 of these are
needed, so the time is linear in n in the worst case too.

Where m is far larger than z, no double is close enough to the root. Then m is replaced by m - rho w, computed with
twice the digits, and the search continues from rho = 0.

Shapes: m (n,); lower, upper, s, d (n,) or one number for all; bounds may be infinite, s may be 0 or negative, d > 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dasum

from convexstruct import deadline
from convexstruct.arrays import Index, Tensor, Vector
from convexstruct.oracles.box.breakpoints import root_by_medians, root_by_sorting
from convexstruct.rounding import EPS

#: How the root of phi is found.
Search = Literal["bracket", "medians", "sorting"]

#: Entries of a block of one pass. Eight arrays of so many, 2 MiB, stay in a core's second-level cache; half as many and
#: four times as many take up to 15% longer.
BLOCK = 1 << 15
#: The sample holds one variable in SAMPLE_ONE_IN, but at least SMALLEST_SAMPLE. Its problem is solved in the same way,
#: from a sample of the sample, at a small part of the cost of one pass. With at most SMALLEST_SAMPLE variables the
#: breakpoints are sorted instead: Newton's steps from 0 are as fast there, but where z is the end of what <s, a> is,
#: phi is flat, and halving ends at a multiplier near 1e139, whose rounding leaves no lower bound.
SAMPLE_ONE_IN, SMALLEST_SAMPLE = 64, 512
#: Newton's steps after which every second step halves the bracket. Only adversarial data need more.
NEWTON_STEPS = 12
#: The equality <s, a> = z is solved to this accuracy, relative to the sum of |s_i a_i|: 64 roundings.
EQUALITY_ROUNDING = 64 * EPS
#: The largest number of shifts of m. Each adds 16 digits to the root, and the range of doubles is 600 digits. Few
#: problems need one.
MOST_SHIFTS = 40
#: By how much, relative, z may lie outside the range of <s, a> over the box; this much is taken for rounding.
REACH_ROUNDING = 1e-12
#: Splits a double into halves of 26 digits each, whose products are exact (Dekker).
DEKKER = 2.0**27 + 1.0


def project_box_equality(
    m: ArrayLike, lower: ArrayLike, upper: ArrayLike, s: ArrayLike, z: float, d: ArrayLike | None = None
) -> Vector:
    """argmin of 1/2 sum d_i^2 (a_i - m_i)^2 over lower <= a <= upper, <s, a> = z; (n,), in linear time. ValueError if
    no a in the box has <s, a> = z; the range that can be reached is given."""
    return project_with_multiplier(m, lower, upper, s, z, d)[0]


def project_with_multiplier(
    m: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    s: ArrayLike,
    z: float,
    d: ArrayLike | None = None,
    search: Search = "bracket",
) -> tuple[Vector, float]:
    """The projection as by `project_box_equality`, and the multiplier rho of <s, a> = z (one of them where there are
    several). ValueError as `project_box_equality` does.

    search : where Newton's steps start: at the root of a sample's problem ("bracket"), or at the root found by
        "medians" of all breakpoints, as in the paper, or by "sorting" them.
    """
    if not np.isfinite(z):
        raise ValueError(f"z is {z}, wanted a finite number")
    return Box.read(m, lower, upper, s, d).project(float(z), search)


def product_error(x: Tensor | float, y: Tensor | float) -> Tensor:
    """x y - fl(x y), by Dekker's halves; 0 where they overflow."""
    one, other = x * DEKKER, y * DEKKER
    high, tall = one - (one - x), other - (other - y)
    low, short = x - high, y - tall
    error = ((high * tall - x * y) + high * short + low * tall) + low * short
    return np.asarray(np.where(np.isfinite(error), error, 0.0))


def slack(z: float, reach: tuple[float, float]) -> float:
    """How far z may lie outside of ``reach``, `Box.attainable`, and still be accepted: this is taken for rounding."""
    return REACH_ROUNDING * max(1.0, abs(z), *(abs(x) for x in reach if np.isfinite(x)))


def checked(z: float, reach: tuple[float, float]) -> float:
    """z, or the nearest attainable value where z misses it by rounding; ValueError where z misses it by more."""
    (least, greatest), rounding = reach, slack(z, reach)
    if not least - rounding <= z <= greatest + rounding:
        raise ValueError(
            f"z is {z:g}, wanted a value that <s, a> takes inside the bounds: from {least:g} to {greatest:g}"
        )
    return min(max(z, least), greatest)


class Box(NamedTuple):
    """The data of a projection but z: arrays (n,), or one number where all entries are equal; w = s / d^2."""

    m: Vector
    lower: Vector | float
    upper: Vector | float
    s: Vector | float
    d: Vector | float
    w: Vector | float

    @classmethod
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def read(cls, m: ArrayLike, lower: ArrayLike, upper: ArrayLike, s: ArrayLike, d: ArrayLike | None) -> Box:
        values, signs = np.ascontiguousarray(m, dtype=np.float64), _entries(s)
        weights = 1.0 if d is None else _entries(d)
        if isinstance(weights, float):
            w = signs if weights == 1.0 else signs / np.square(weights)
        else:
            w = np.square(weights)
            np.divide(signs, w, out=w)  # in place: fresh memory takes longer than the division
        return cls(values, _entries(lower), _entries(upper), signs, weights, w)

    def part(self, where: slice | Index) -> Box:
        rest = (x if isinstance(x, float) else x[where] for x in self[1:])
        return Box(self.m[where], *rest)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Box]]:
        for start in range(0, max(len(self.m), 1), size):
            deadline.check()
            cut = slice(start, start + size)
            yield cut, self.part(cut)

    def clip(self, x: Vector, out: Vector) -> Vector:
        """x (n,) moved inside its bounds, written to ``out``, which may be x."""
        if isinstance(self.lower, float) or isinstance(self.upper, float):  # np.clip is faster with numbers only
            return np.clip(x, self.lower, self.upper, out=out)
        return np.minimum(np.maximum(x, self.lower, out=out), self.upper, out=out)

    def at(self, rho: float) -> Vector:
        """a(rho) = clip(m - rho w, lower, upper); (n,)."""
        found = self.m - rho * self.w
        return self.clip(found, found)

    def ends(self, direction: float, a: Vector | float = 0.0) -> Vector | float:
        """The bounds at which <s, a> is greatest (direction 1) or least (-1), a where s is 0; (n,), or one for all."""
        if isinstance(self.s, float):
            return a if self.s == 0.0 else self.upper if direction * self.s > 0.0 else self.lower
        goal = np.where(direction * self.s > 0.0, self.upper, self.lower)
        return goal if self.s.all() else np.where(self.s == 0.0, a, goal)

    def attainable(self) -> tuple[float, float]:
        """(least, greatest) <s, a> inside the bounds, infinite where a bound in that direction is."""
        if all(isinstance(x, float) for x in (self.lower, self.upper, self.s)):
            least, greatest = (len(self.m) * float(self.ends(side) * self.s) for side in (-1.0, 1.0))
        else:
            blocks = [part for _, part in self.blocks()]
            least, greatest = (
                float(sum(np.sum(np.broadcast_to(part.ends(side) * part.s, part.m.shape)) for part in blocks))
                for side in (-1.0, 1.0)
            )
        return least, greatest

    def sums(self, rho: float, a: Vector) -> tuple[float, float, float]:
        """(<s, a>, -phi'(rho), sum |s_i a_i|) of a(rho), which is written to ``a``."""
        total = slope = size = 0.0
        most = min(BLOCK, len(a))
        buffer, flags = np.empty(most), np.empty(most, dtype=bool)
        for cut, part in self.blocks():
            x, y, w, s = buffer[: len(part.m)], a[cut], part.w, part.s
            np.subtract(part.m, rho * w if isinstance(w, float) else np.multiply(w, rho, out=x), out=x)
            part.clip(x, y)
            if isinstance(w, float) and isinstance(s, float):
                slope += s * w * np.count_nonzero(np.equal(x, y, out=flags[: len(x)]))
            else:
                steep = np.multiply(np.equal(x, y, out=x), w, out=x)  # w where it is free
                slope += s * float(steep.sum()) if isinstance(s, float) else float(s @ steep)
            terms = y if isinstance(s, float) else np.multiply(s, y, out=x)
            scale = s if isinstance(s, float) else 1.0
            total += scale * float(terms.sum())
            size += abs(scale) * float(dasum(terms))
        return total, slope, size

    # -- the root ------------------------------------------------------------------------------------------------------

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def project(self, z: float, search: Search = "bracket") -> tuple[Vector, float]:
        """The projection and the multiplier, as `project_with_multiplier`."""
        box = self
        if search == "bracket":
            start = box.likely(z)
        else:
            root = root_by_sorting if search == "sorting" else root_by_medians
            start = box.search(checked(z, box.attainable()), root)
        a = np.empty(len(box.m))
        rho, off, near = box.newton(z, start, a)
        if not near:  # z is out of reach: `checked` moves it into reach, or raises
            rho, off, near = box.newton(checked(z, box.attainable()), start, a)
        multiplier = base = rho
        for _ in range(MOST_SHIFTS if near else 0):
            if not off or rho == 0.0:
                break
            box, other = box._replace(m=box.shifted(rho)), np.empty_like(a)
            rho, now, _ = box.newton(z, 0.0, other)
            base += rho
            if now < off:
                a, multiplier, off = other, base, now
        return a, multiplier

    def likely(self, z: float) -> float:
        """The root of phi for a sample of the variables, with z scaled by the share of variables in the sample."""
        n = len(self.m)
        size = max(SMALLEST_SAMPLE, n // SAMPLE_ONE_IN)
        if size >= n:
            return self.search(z, root_by_sorting)
        some = self.part(np.sort(np.random.default_rng(0).integers(n, size=size)))
        return some.newton(z * size / n, some.likely(z * size / n), np.empty(size))[0]

    def newton(self, z: float, rho: float, a: Vector) -> tuple[float, float, bool]:
        """(rho, |phi(rho)|, near): a root of phi from a guess; a(rho) is written to ``a``.

        |phi| counts as 0 where it is within rounding. Where no double is a root, the end of the last bracket with the
        smaller |phi| is returned. near : whether phi changes its sign; if not, it has no root. A guess that is not
        finite, where sums over breakpoints overflow, is taken for 0. Of a level stretch of roots one near its begin is
        taken (`begin`): a lower bound is wrong by |rho| times the rounding of z.
        """
        rho, largest = rho if np.isfinite(rho) else 0.0, float(np.finfo(float).max)
        low, high, above, below = -largest, largest, np.inf, np.inf
        for step in count():
            deadline.check()
            total, slope, size = self.sums(rho, a)
            value = total - z
            if abs(value) <= EQUALITY_ROUNDING * max(size, abs(z)) < np.inf:
                return rho if slope > 0 else self.begin(z, rho, min(low, high, key=abs), a), 0.0, True
            if value > 0:
                low, above = rho, value
            else:
                high, below = rho, -value
            wanted = rho + value / slope if slope > 0 else np.nan
            if wanted == rho:  # the root is between two doubles, or the slope is wrong by rounding
                wanted = float(np.nextafter(rho, value * np.inf))
            if not low < wanted < high or (step > NEWTON_STEPS and step % 2):
                wanted = _middle(low, high)
                if wanted in (low, high):
                    break
            rho = wanted
        nearer, off = (low, above) if above < below else (high, below)
        if nearer != rho:
            self.sums(nearer, a)
        return nearer, off, low > -largest and high < largest

    def begin(self, z: float, rho: float, short: float, a: Vector) -> float:
        """A root like ``rho``, where phi is level, at most twice as large as where it is none; a(rho) is written to
        ``a``. short : no root, of smaller size; the largest double if none is known."""
        while abs(rho) > 2.0 * abs(short):
            middle = _middle(*sorted((rho, short)))
            total, _, size = self.sums(middle, a)
            good = abs(total - z) <= EQUALITY_ROUNDING * max(size, abs(z)) < np.inf
            rho, short = (middle, short) if good else (rho, middle)
            if not good:
                self.sums(rho, a)
        return rho

    def search(self, z: float, root: Any) -> float:
        """The root of phi from all breakpoints, by one of `convexstruct.oracles.box.breakpoints`."""
        t, bend, slope = self.breakpoints()
        left = float(t.min()) if len(t) else 0.0
        return float(root(t, bend, left, self.sums(left, np.empty(len(self.m)))[0] - z, slope))

    def shifted(self, rho: float) -> Vector:
        """m - rho w with one rounding, not one for the product and one for the difference."""
        w = self.w
        product = rho * np.broadcast_to(np.asarray(w), self.m.shape)
        found = self.m - product
        part = self.m - found
        rest = (self.m - (found + part)) + (part - product)  # what the difference lost
        return np.nan_to_num(found + np.where(np.isfinite(rest), rest, 0.0) - product_error(rho, w))

    def breakpoints(self) -> tuple[Vector, Vector, float]:
        """(t, bend, slope): phi's breakpoints, the change of its slope at each, and its slope left of all of them."""
        found, slope = [], 0.0
        for _, block in self.blocks():
            one, other = (block.m - block.upper) / block.w, (block.m - block.lower) / block.w
            start, stop = np.minimum(one, other), np.maximum(one, other)  # free between them
            steep = np.broadcast_to(np.asarray(block.s * block.w), start.shape)
            enters, leaves = (steep > 0) & (start > -np.inf), (steep > 0) & (stop < np.inf)
            slope -= float(steep[(steep > 0) & (start == -np.inf)].sum())
            found += [(start[enters], -steep[enters]), (stop[leaves], steep[leaves])]
        return np.concatenate([t for t, _ in found]), np.concatenate([bend for _, bend in found]), slope


def _middle(low: float, high: float) -> float:
    """The double halfway between two in the order of all doubles."""
    ends = np.array([low, high]).view(np.int64)
    ranks = [int(each) if each >= 0 else -(int(each) + 2**63) for each in ends]  # rising, 0 at 0
    rank = sum(ranks) // 2
    return float(np.copysign(np.array(abs(rank)).view(np.float64), rank))


def _entries(x: ArrayLike) -> Vector | float:
    array = np.asarray(x, dtype=np.float64)
    return float(array) if array.ndim == 0 else np.ascontiguousarray(array)
