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

from convexstruct.oracles.breakpoints import Sorted, root_by_medians, root_by_sorting

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
#: How the root of phi is found.
Search = Literal["bracket", "medians", "sorting"]
Root = Callable[[Vector, Vector, float, float, float], float]

#: Variables in one pass' block: a few buffers of so many numbers stay in cache.
BLOCK = 1 << 15
#: Variables up to which the medians run on all breakpoints; and breakpoints that are sorted sooner than halved again.
SMALL, SORTED = 4096, 1 << 17
#: Variables in the sample, as a multiple of n^(2/3).
SAMPLE = 2.0
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
    if not np.isfinite(z):
        raise ValueError(f"z is {z}, wanted a finite number")
    if search == "bracket":
        rho = box.multiplier(z)
    else:
        rho = box.search(box.checked(z), root_by_medians if search == "medians" else root_by_sorting)
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
    return _Box(np.empty(0), _entries(lower), _entries(upper), _entries(s)).attainable(n)


class _Box(NamedTuple):
    """The arrays of a problem, or numbers where all entries are one."""

    m: Vector
    lower: Vector | float
    upper: Vector | float
    s: Vector | float
    d: Vector | float = 1.0

    @classmethod
    def read(cls, m: ArrayLike, lower: ArrayLike, upper: ArrayLike, s: ArrayLike, d: ArrayLike | None) -> _Box:
        values = np.ascontiguousarray(m, dtype=np.float64)
        return cls(values, _entries(lower), _entries(upper), _entries(s), 1.0 if d is None else _entries(d))

    @property
    def w(self) -> Vector | float:
        """s / d^2; computed block by block, so that it is never an array of its own."""
        return self.s if isinstance(self.d, float) and self.d == 1.0 else self.s / (self.d * self.d)

    def part(self, where: slice | Index) -> _Box:
        rest = (x if isinstance(x, float) else x[where] for x in self[1:])
        return _Box(self.m[where], *rest)

    def blocks(self) -> Iterator[tuple[int, _Box]]:
        for start in range(0, max(len(self.m), 1), BLOCK):
            yield start, self.part(slice(start, start + BLOCK))

    def unclipped(self, rho: float, w: Vector | float, out: Vector) -> Vector:
        """m - rho w, written to ``out``."""
        if isinstance(w, float):
            return np.subtract(self.m, rho * w, out=out)
        return np.subtract(self.m, np.multiply(w, rho, out=out), out=out)

    def at(self, rho: float, out: Vector) -> Vector:
        """a(rho), written to ``out``."""
        return np.asarray(np.clip(self.unclipped(rho, self.w, out), self.lower, self.upper, out=out))

    def weighted(self, a: Vector) -> float:
        """<s, a>."""
        return self.s * float(a.sum()) if isinstance(self.s, float) else float(self.s @ a)

    def total(self, rho: float) -> float:
        """<s, a(rho)>."""
        a = np.empty(BLOCK)
        return sum(block.weighted(block.at(rho, a[: len(block.m)])) for _, block in self.blocks())

    # -- the root ------------------------------------------------------------------------------------------------------

    def multiplier(self, z: float) -> float:
        """A root of phi, up to rounding."""
        n = len(self.m)
        if n <= SMALL:
            return self.search(self.checked(z))
        some = self.part(slice(None, None, n // int(SAMPLE * n ** (2 / 3))))
        left, right = some.likely(z * len(some.m) / n)
        at_left, at_right, active = self.bracket(left, right)
        if at_left >= z >= at_right:  # and so z can be reached
            t, bend, _ = self.part(active).breakpoints(left, right)
            slope = (at_right - at_left - float(bend @ (right - t))) / (right - left)
            return root_by_medians(t, bend, left, at_left - z, slope, SORTED)
        z = self.checked(z)
        if at_left < z:
            t, bend, slope = self.part(self.movable(left, -1.0)).breakpoints(-np.inf, left)
            first = float(t.min()) if len(t) else left
            value = at_left - z - slope * (left - first) - float(bend @ (left - t))
            return root_by_medians(t, bend, first, value, slope)
        t, bend, slope = self.part(self.movable(right, 1.0)).breakpoints(right, np.inf)
        return root_by_medians(t, bend, right, at_right - z, slope)

    def search(self, z: float, root: Root = root_by_medians) -> float:
        """The root of phi from all breakpoints."""
        t, bend, slope = self.breakpoints(-np.inf, np.inf)
        left = float(t.min()) if len(t) else 0.0
        return root(t, bend, left, self.total(left) - z, slope)

    def likely(self, z: float) -> tuple[float, float]:
        """Two numbers that probably have between them the root of the problem that this one is a sample of."""
        t, bend, slope = self.breakpoints(-np.inf, np.inf)
        left = float(t.min()) if len(t) else 0.0
        phi = Sorted(t, bend, left, self.total(left), slope)
        a = self.at(float(phi.roots(np.array([z]))[0]), np.empty(len(self.m)))
        margin = WIDTH * float(np.std(self.s * a)) * np.sqrt(len(a))
        low, high = phi.roots(np.array((z + margin, z - margin)))
        width = 1e-9 * max(abs(low), abs(high), np.finfo(float).tiny)
        return float(low - width), float(high + width)

    def bracket(self, left: float, right: float) -> tuple[float, float, Index]:
        """<s, a> at both ends, and the variables with a breakpoint between them.

        A variable has none exactly if it is the same at both ends, or unclipped at both.
        """
        at_left = at_right = 0.0
        found = []
        buffers, flags = np.empty((4, BLOCK)), np.empty((2, BLOCK), dtype=bool)
        for start, block in self.blocks():
            k = len(block.m)
            free_left, free_right, a_left, a_right = buffers[:, :k]
            bent, one = flags[:, :k]
            w = block.w
            np.clip(block.unclipped(left, w, free_left), block.lower, block.upper, out=a_left)
            np.clip(block.unclipped(right, w, free_right), block.lower, block.upper, out=a_right)
            at_left += block.weighted(a_left)
            at_right += block.weighted(a_right)
            np.not_equal(a_left, free_left, out=bent)
            np.logical_or(bent, np.not_equal(a_right, free_right, out=one), out=bent)
            np.logical_and(bent, np.not_equal(a_left, a_right, out=one), out=bent)
            found.append(np.flatnonzero(bent) + start)
        return at_left, at_right, np.concatenate(found)

    def movable(self, rho: float, direction: float) -> Index:
        """The variables that may still move as rho goes on to the right (1) or to the left (-1)."""
        found = []
        a = np.empty(BLOCK)
        for start, block in self.blocks():
            here = block.at(rho, a[: len(block.m)])
            way = np.multiply(block.s, -direction)
            end = np.where(way > 0, block.upper, np.where(way < 0, block.lower, here))
            found.append(np.flatnonzero(here != end) + start)
        return np.concatenate(found)

    def breakpoints(self, left: float, right: float) -> tuple[Vector, Vector, float]:
        """(t, bend, slope): phi's breakpoints strictly between ``left`` and ``right``, what its slope changes by at
        each, and its slope just right of ``left``."""
        found, slope = [], 0.0
        for _, block in self.blocks():
            w = block.w
            with np.errstate(divide="ignore", invalid="ignore"):
                one, other = (block.m - block.upper) / w, (block.m - block.lower) / w
            start, stop = np.minimum(one, other), np.maximum(one, other)  # free between them
            steep = np.broadcast_to(np.asarray(block.s * w), start.shape)
            moving = steep > 0
            enters = moving & (left < start) & (start < right)
            leaves = moving & (left < stop) & (stop < right)
            slope -= float(steep[moving & (start <= left) & (left < stop)].sum())
            found += [(start[enters], -steep[enters]), (stop[leaves], steep[leaves])]
        return np.concatenate([t for t, _ in found]), np.concatenate([bend for _, bend in found]), slope

    # -- feasibility ---------------------------------------------------------------------------------------------------

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

    def point(self, rho: float, z: float) -> tuple[Vector, float]:
        """a(rho) and rho, both corrected until <s, a> = z up to rounding.

        The correction goes to the free entries of a itself: rho may be too large a number to take it.
        """
        a = np.empty(len(self.m))
        cuts = [a[start : start + len(block.m)] for start, block in self.blocks()]
        total = sum(block.weighted(block.at(rho, cut)) for (_, block), cut in zip(self.blocks(), cuts))
        if abs(total - z) <= ROUNDED * abs(z):
            return a, rho
        size = sum(float(np.sum(np.abs(block.s * cut))) for (_, block), cut in zip(self.blocks(), cuts))
        for _ in range(3):
            excess = total - z
            if abs(excess) <= ROUNDED * max(size, abs(z)):
                break
            inside = [(cut > block.lower) & (cut < block.upper) for (_, block), cut in zip(self.blocks(), cuts)]
            free = np.flatnonzero(np.concatenate(inside))
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
