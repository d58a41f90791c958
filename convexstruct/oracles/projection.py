r"""Projection onto a box cut by one linear equality, and onto simplices (paper 2, appendix B):

    minimise 1/2 sum_i d_i^2 (a_i - m_i)^2     s.t.  l_i <= a_i <= u_i,  sum_i s_i a_i = z.

The solution is a_i(rho) = clip(m_i - rho w_i, l_i, u_i), w_i = s_i / d_i^2, with rho the root of

    phi(rho) = sum_i s_i a_i(rho) - z,

which falls and is piecewise linear with at most 2n breakpoints, (m_i - u_i) / w_i and (m_i - l_i) / w_i. Appendix B
finds the root by medians of breakpoints, in linear time (`convexstruct.oracles.breakpoints`). The "bracket" (ours, the
default) spends medians on few of them. The roots of two problems made of every (n/k)-th variable bracket the root; one
pass over all variables values phi at both ends and finds the breakpoints between, and the medians finish among these.
Where the bracket misses, the breakpoints beyond it are searched: linear in any case. Passes go by blocks that stay in
cache, because at a million variables memory, not arithmetic, is the cost.

Shapes: m (n,); lower, upper, s, d (n,) or one number for all; bounds may be infinite, s may be 0 or negative, d > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convexstruct.oracles.breakpoints import root_by_medians, root_by_sorting, roots_by_sorting

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
#: How the root of phi is found.
Search = Literal["bracket", "medians", "sorting"]
Root = Callable[[Vector, Vector, float, float, float], float]

#: Variables in one pass' block: a few buffers of so many numbers stay in cache.
BLOCK = 1 << 14
#: Variables up to which the medians run on all breakpoints.
SMALL = 4096
#: Variables in the sample, as a multiple of n^(2/3).
SAMPLE = 1.0
#: Half the width of the bracket, in standard errors of the sample.
WIDTH = 3.0
#: How far z may be outside what can be reached before it counts as more than rounding, relative.
SUMS = 1e-12
#: What <s, a> = z is corrected to, relative to its terms.
ROUNDED = 64 * float(np.finfo(float).eps)


def project_box_equality(
    m: ArrayLike, lower: ArrayLike, upper: ArrayLike, s: ArrayLike, z: float, d: ArrayLike | None = None
) -> Vector:
    """argmin of 1/2 sum d_i^2 (a_i - m_i)^2 over lower <= a <= upper, <s, a> = z; (n,), in linear time.

    Raises
    ------
    ValueError
        If no a in the box has <s, a> = z; the range that can be reached is given.
    """
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
    """The same, and the multiplier rho of <s, a> = z (one of them where they are many).

    search : "bracket", the default; "medians" of all breakpoints, as the paper has it; or "sorting" all of them.

    Raises
    ------
    ValueError
        As `project_box_equality` does.
    """
    box = _Box.read(m, lower, upper, s, d)
    if search == "bracket":
        rho = box.multiplier(z)
    else:
        rho = box.search(-np.inf, np.inf, box.checked(z), root_by_medians if search == "medians" else root_by_sorting)
    return box.point(rho, z)


def project_simplex(rows: ArrayLike, z: ArrayLike = 1.0) -> Vector:
    """The projection of each row onto the scaled simplex {a >= 0, sum a = z}, in the unweighted norm; batched.

    rows : (..., k), projected along the last axis. z : one number, or (...,) one a row; not negative.

    Sorts within rows: the fastest for many short rows. For one long row, `project_box_equality` with lower 0, upper
    infinity and s = 1 is linear.

    Raises
    ------
    ValueError
        If a row is empty, or some z is negative or not finite.
    """
    values = np.asarray(rows, dtype=np.float64)
    total = np.asarray(z, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError(f"rows has shape {values.shape}, wanted (..., k) with k at least 1")
    if not np.isfinite(total).all() or (total < 0).any():
        raise ValueError(f"z is {z!r}, wanted numbers that are not negative")
    shifted = values - values.max(axis=-1, keepdims=True)  # so that the sums keep their digits
    falling = -np.sort(-shifted, axis=-1)
    over = np.cumsum(falling, axis=-1) - total[..., None]
    count = np.arange(1, values.shape[-1] + 1)
    used = np.maximum(np.count_nonzero(falling * count > over, axis=-1, keepdims=True), 1)
    return np.asarray(np.maximum(shifted - np.take_along_axis(over, used - 1, axis=-1) / used, 0.0))


def attainable(lower: ArrayLike, upper: ArrayLike, s: ArrayLike, n: int) -> tuple[float, float]:
    """(least, greatest) <s, a> over lower <= a <= upper, a (n,); infinite where a bound in that direction is."""
    return _Box(np.empty(0), _entries(lower), _entries(upper), _entries(s), 0.0).attainable(n)


class _Box(NamedTuple):
    """The arrays of a problem, or numbers where all entries are one; w = s / d^2."""

    m: Vector
    lower: Vector | float
    upper: Vector | float
    s: Vector | float
    w: Vector | float

    @classmethod
    def read(cls, m: ArrayLike, lower: ArrayLike, upper: ArrayLike, s: ArrayLike, d: ArrayLike | None) -> _Box:
        values = np.ascontiguousarray(m, dtype=np.float64)
        low, high, sign = _entries(lower), _entries(upper), _entries(s)
        return cls(values, low, high, sign, sign if d is None else sign / np.square(_entries(d)))

    def part(self, where: slice | Index) -> _Box:
        rest = (x if isinstance(x, float) else x[where] for x in self[1:])
        return _Box(self.m[where], *rest)

    def blocks(self) -> Iterator[tuple[int, _Box]]:
        for start in range(0, max(len(self.m), 1), BLOCK):
            yield start, self.part(slice(start, start + BLOCK))

    def at(self, rho: float, out: Vector) -> Vector:
        """a(rho), written to ``out``."""
        if isinstance(self.w, float):
            np.subtract(self.m, rho * self.w, out=out)
        else:
            np.multiply(self.w, rho, out=out)
            np.subtract(self.m, out, out=out)
        return np.asarray(np.clip(out, self.lower, self.upper, out=out))

    def weighted(self, a: Vector) -> float:
        """<s, a>."""
        return self.s * float(a.sum()) if isinstance(self.s, float) else float(self.s @ a)

    def multiplier(self, z: float) -> float:
        """A root of phi, up to rounding."""
        n = len(self.m)
        z = self.checked(z)
        if n <= SMALL:
            return self.search(-np.inf, np.inf, z)
        some = self.part(slice(None, None, n // int(SAMPLE * n ** (2 / 3))))
        left, right = some.likely(z * len(some.m) / n)
        at_left, at_right, active = self.bracket(left, right)
        at_left, at_right = at_left - z, at_right - z
        if at_left < 0:
            return self.search(-np.inf, left, z)
        if at_right > 0:
            return self.search(right, np.inf, z)
        t, bend, _ = self.part(active).breakpoints(left, right)
        slope = (at_right - at_left - float(bend @ (right - t))) / (right - left)
        return root_by_medians(t, bend, left, at_left, slope)

    def attainable(self, n: int) -> tuple[float, float]:
        """(least, greatest) <s, a> over the box."""
        bounds = (self.lower, self.upper)
        if all(isinstance(x, float) for x in (*bounds, self.s)):
            least, greatest = _ends(self.s, *bounds)
            return n * float(least), n * float(greatest)
        least = greatest = 0.0
        for start in range(0, n, BLOCK):
            block = self.part(slice(start, start + BLOCK))
            low, high = _ends(block.s, block.lower, block.upper)
            count = 1 if np.ndim(low) else min(BLOCK, n - start)
            least += count * float(np.sum(low))
            greatest += count * float(np.sum(high))
        return least, greatest

    def checked(self, z: float) -> float:
        """z, moved by rounding at most into what can be reached."""
        least, greatest = self.attainable(len(self.m))
        slack = SUMS * max(1.0, abs(z), *(abs(x) for x in (least, greatest) if np.isfinite(x)))
        if not least - slack <= z <= greatest + slack:
            raise ValueError(f"z is {z:g}, wanted a value of <s, a> inside the bounds: from {least:g} to {greatest:g}")
        return min(max(z, least), greatest)

    def likely(self, z: float) -> tuple[float, float]:
        """Two numbers that probably have between them the root of the problem that this one is a sample of."""
        t, bend, slope = self.breakpoints(-np.inf, np.inf)
        left = float(t.min()) if len(t) else 0.0
        value = self.total(left)
        a = self.at(root_by_medians(t, bend, left, value - z, slope), np.empty(len(self.m)))
        margin = WIDTH * float(np.std(self.s * a)) * np.sqrt(len(a))
        low, high = roots_by_sorting(t, bend, left, value, slope, np.array((z + margin, z - margin)))
        width = 1e-9 * max(abs(low), abs(high), np.finfo(float).tiny)
        return float(low - width), float(high + width)

    def bracket(self, left: float, right: float) -> tuple[float, float, Index]:
        """<s, a> at both ends, and the variables with a breakpoint between them.

        A variable has none exactly if it is the same at both ends, or unclipped at both.
        """
        at_left = at_right = 0.0
        found = []
        free, ends = np.empty((2, BLOCK)), np.empty((2, BLOCK))
        bent, one = np.empty((2, BLOCK), dtype=bool)
        for start, block in self.blocks():
            k = len(block.m)
            for i, rho in enumerate((left, right)):
                if isinstance(block.w, float):
                    np.subtract(block.m, rho * block.w, out=free[i, :k])
                else:
                    np.multiply(block.w, rho, out=free[i, :k])
                    np.subtract(block.m, free[i, :k], out=free[i, :k])
                np.clip(free[i, :k], block.lower, block.upper, out=ends[i, :k])
            at_left += block.weighted(ends[0, :k])
            at_right += block.weighted(ends[1, :k])
            np.not_equal(ends[0, :k], free[0, :k], out=bent[:k])
            np.not_equal(ends[1, :k], free[1, :k], out=one[:k])
            np.logical_or(bent[:k], one[:k], out=bent[:k])
            np.not_equal(ends[0, :k], ends[1, :k], out=one[:k])
            np.logical_and(bent[:k], one[:k], out=bent[:k])
            found.append(np.flatnonzero(bent[:k]) + start)
        return at_left, at_right, np.concatenate(found)

    def breakpoints(self, left: float, right: float) -> tuple[Vector, Vector, float]:
        """(t, bend, slope): phi's breakpoints strictly between ``left`` and ``right``, what its slope changes by at
        each, and its slope just right of ``left``."""
        found, slope = [], 0.0
        for _, block in self.blocks():
            with np.errstate(divide="ignore", invalid="ignore"):
                one, other = (block.m - block.upper) / block.w, (block.m - block.lower) / block.w
            start, stop = np.minimum(one, other), np.maximum(one, other)  # free between them
            steep = np.broadcast_to(np.asarray(block.s * block.w), start.shape)
            moving = steep > 0
            enters = moving & (left < start) & (start < right)
            leaves = moving & (left < stop) & (stop < right)
            slope -= float(steep[moving & (start <= left) & (left < stop)].sum())
            found += [(start[enters], -steep[enters]), (stop[leaves], steep[leaves])]
        return np.concatenate([t for t, _ in found]), np.concatenate([bend for _, bend in found]), slope

    def search(self, left: float, right: float, z: float, root: Root = root_by_medians) -> float:
        """The root of phi between ``left`` and ``right``, which may be infinite, from all breakpoints there."""
        t, bend, slope = self.breakpoints(left, right)
        if not np.isfinite(left):
            left = float(t.min()) if len(t) else (right if np.isfinite(right) else 0.0)
        return root(t, bend, left, self.total(left) - z, slope)

    def total(self, rho: float) -> float:
        """<s, a(rho)>."""
        a = np.empty(BLOCK)
        return sum(block.weighted(block.at(rho, a[: len(block.m)])) for _, block in self.blocks())

    def point(self, rho: float, z: float) -> tuple[Vector, float]:
        """a(rho) and rho, both corrected until <s, a> = z up to rounding.

        The correction goes to the free entries of a itself: rho may be too large a number to take it.
        """
        a = np.empty(len(self.m))
        total = size = 0.0
        for start, block in self.blocks():
            here = block.at(rho, a[start : start + len(block.m)])
            total += block.weighted(here)
            size += block.weighted(np.abs(here)) if isinstance(self.s, float) else float(np.abs(block.s) @ np.abs(here))
        for _ in range(3):
            excess = total - z
            if abs(excess) <= ROUNDED * max(abs(size), abs(z)):
                break
            free = np.concatenate(
                [
                    start + np.flatnonzero((here > block.lower) & (here < block.upper))
                    for start, block in self.blocks()
                    for here in (a[start : start + len(block.m)],)
                ]
            )
            some = self.part(free)
            step = np.broadcast_to(np.asarray(some.w), free.shape)
            slope = some.weighted(step)
            if slope <= 0:
                break
            moved = np.clip(a[free] - (excess / slope) * step, some.lower, some.upper)
            total += some.weighted(moved - a[free])
            rho += excess / slope
            a[free] = moved
        return a, rho


def _ends(s: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The least and greatest s a for low <= a <= high, entry by entry; 0 where s is, even if a bound is infinite."""
    with np.errstate(invalid="ignore"):
        one, other = s * low, s * high
    if np.isnan(one).any() or np.isnan(other).any():
        one, other = np.where(np.equal(s, 0), 0.0, one), np.where(np.equal(s, 0), 0.0, other)
    return np.minimum(one, other), np.maximum(one, other)


def _entries(x: ArrayLike) -> Vector | float:
    array = np.asarray(x, dtype=np.float64)
    return float(array) if array.ndim == 0 else np.ascontiguousarray(array)
