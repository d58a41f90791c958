r"""Projection onto a box cut by one linear equality, simplices among them (paper 2, appendix B):

    minimise 1/2 sum_i d_i^2 (a_i - m_i)^2     s.t.  l_i <= a_i <= u_i,  sum_i s_i a_i = z.

The solution is a_i(rho) = clip(m_i - rho w_i, l_i, u_i), w_i = s_i / d_i^2, with rho the root of

    phi(rho) = sum_i s_i a_i(rho) - z,

which falls and is piecewise linear with at most 2n breakpoints, (m_i - u_i) / w_i and (m_i - l_i) / w_i. Appendix B
finds the root by medians of breakpoints, in linear time (`convexstruct.oracles.box.breakpoints`). The default search,
"bracket", is ours. It estimates an interval for the root from a sample of the variables, evaluates phi at both ends of
the interval in one pass over all variables, and collects the variables that have a breakpoint inside. On these few it
finds the root by Newton's method, or by medians if Newton's method has not ended after a few steps. If the interval
does not contain the root, the next interval on the root's side is wider; after a few of them the search by medians
takes over, so that the time is linear in every case. A pass works on blocks that fit into the cache, and a sample
takes whole cache lines, because with a million variables reading memory takes longer than arithmetic.

Shapes: m (n,); lower, upper, s, d (n,) or one number for all; bounds may be infinite, s may be 0 or negative, d > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Vector
from convexstruct.oracles.box.breakpoints import Sorted, root_by_medians, root_by_sorting

#: How the root of phi is found.
Search = Literal["bracket", "medians", "sorting"]
Root = Callable[[Vector, Vector, float, float, float], float]

#: Variables in one pass' block: a few buffers of so many numbers stay in cache.
BLOCK = 1 << 16
#: Variables up to which the medians run on all breakpoints; and breakpoints that are sorted sooner than halved again.
SMALL, SORTED = 4096, 1 << 17
#: Variables in the sample, as a multiple of n^(2/3), and as many neighbours in it as share a cache line.
SAMPLE, LINE = 1.0, 8
#: Half the width of the bracket, in standard errors of the sample.
WIDTH = 2.5
#: Where a bracket does not contain the root, the next one begins at its end and is wider by a factor: how many are
#: tried, the factor, and FEW: no more are tried once at most one variable in FEW has a breakpoint beyond the bracket.
TRIALS, WIDER, FEW = 3, 30.0, 8
#: How far z may be outside what can be reached before it counts as more than rounding, relative.
SUMS = 1e-12
#: The equality <s, a> = z is corrected until it holds to this accuracy, relative to its terms as a sample sizes them.
ROUNDED = 64 * float(np.finfo(float).eps)
#: Newton's steps inside the bracket before medians are taken.
STEPS = 12
#: If <s, a> differs from z by more than this, relative to its terms, the root is too inaccurate and is computed again
#: from where it is; and how often at most. Each time it gains at least the digits of a double less those of n.
FAR = 1e-6
AGAIN = 4
#: Splits a double into halves of 26 digits each, whose products are exact.
HALVES = 2.0**27 + 1.0


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


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
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
    z = float(z)
    root = root_by_sorting if search == "sorting" else root_by_medians
    rho = box.multiplier(z) if search == "bracket" else box.search(box.checked(z), root)
    a, rho, off = box.point(rho, z)
    return (a, rho) if off <= FAR else box.closer(a, rho, off, box.checked(z), root)


def product_error(x: Vector | float, y: Vector | float) -> Vector:
    """x y - fl(x y), by Dekker's halves; 0 where they overflow."""
    one, other = x * HALVES, y * HALVES
    high, tall = one - (one - x), other - (other - y)
    low, short = x - high, y - tall
    error = ((high * tall - x * y) + high * short + low * tall) + low * short
    return np.asarray(np.where(np.isfinite(error), error, 0.0))


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

    def sample(self) -> _Box:
        """Groups of neighbouring variables at irregular distances, so that periodic data do not bias the sample; all
        variables where they are few."""
        n = len(self.m)
        if n <= SMALL:
            return self
        apart = LINE * (n // int(SAMPLE * n ** (2 / 3)))
        first = np.random.default_rng(0).integers(apart // LINE, size=n // apart) * LINE
        first += np.arange(0, n // apart * apart, apart)
        return self.part((first[:, None] + np.arange(LINE)).ravel())

    def unclipped(self, rho: float, w: Vector | float, out: Vector) -> Vector:
        """m - rho w, written to ``out``."""
        if isinstance(w, float):
            return np.subtract(self.m, rho * w, out=out)
        return np.subtract(self.m, np.multiply(w, rho, out=out), out=out)

    def at(self, rho: float, out: Vector) -> Vector:
        """a(rho), written to ``out``."""
        return self.clipped(self.unclipped(rho, self.w, out), out)

    def clipped(self, a: Vector, out: Vector) -> Vector:
        """a clipped to the bounds, written to ``out``; for bounds that are arrays two operations beat np.clip."""
        if isinstance(self.lower, float) or isinstance(self.upper, float):
            return np.asarray(np.clip(a, self.lower, self.upper, out=out))
        return np.minimum(np.maximum(a, self.lower, out=out), self.upper, out=out)

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
        some = self.sample()
        left, right = some.likely(z * len(some.m) / n)
        for trial in range(TRIALS):
            at_left, at_right, active = self.bracket(left, right)
            if at_left >= z >= at_right:  # and so z can be reached
                return active.between(left, right, at_left - z, at_right - z)
            below = at_left < z
            beyond = self.movable(left, -1.0) if below else self.movable(right, 1.0)
            if len(beyond) <= n // FEW or trial == TRIALS - 1:
                break
            width = WIDER * (right - left)
            left, right = (left - width, left) if below else (right, right + width)
        z = self.checked(z)
        if below:
            t, bend, slope = self.part(beyond).breakpoints(-np.inf, left)
            first = float(t.min()) if len(t) else left
            value = at_left - z - slope * (left - first) - float(bend @ (left - t))
            return root_by_medians(t, bend, first, value, slope)
        t, bend, slope = self.part(beyond).breakpoints(right, np.inf)
        return root_by_medians(t, bend, right, at_right - z, slope)

    def search(self, z: float, root: Root = root_by_medians) -> float:
        """The root of phi from all breakpoints."""
        t, bend, slope = self.breakpoints(-np.inf, np.inf)
        left = float(t.min()) if len(t) else 0.0
        return root(t, bend, left, self.total(left) - z, slope)

    def closer(self, a: Vector, rho: float, off: float, z: float, root: Root) -> tuple[Vector, float]:
        """(a, rho) where rho, as a double, is too coarse for <s, a(rho)> = z: then m is far beyond z in size.

        m is replaced by m - rho w, computed with twice the digits, first with the breakpoint next to the root for rho.
        The multiplier of the new problem is small, and the search for it starts at 0, so that no breakpoint far from
        the root enters a sum.
        """
        if off <= FAR:
            return a, rho
        found = (off, a, rho)
        box, rho = self, self.corner(z)
        base = rho
        for _ in range(AGAIN):
            if found[0] <= FAR:
                break
            box = box._replace(m=box.shifted(rho))
            rho = box.from_zero(z, root)
            a, rho, off = box.point(rho, z)
            base += rho
            found = min(found, (off, a, base), key=lambda each: each[0])
        return found[1], found[2]

    def corner(self, z: float) -> float:
        """Of the two breakpoints between which the root lies, that at which phi is nearer to z; by bisection.

        phi is summed from the entries anew at each, so that no other breakpoint, whatever its size, enters the answer.
        """
        t = np.sort(self.breakpoints(-np.inf, np.inf)[0])
        if not len(t):
            return 0.0
        low, high = 0, len(t) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.total(float(t[middle])) >= z else (low, middle - 1)
        return float(min(t[low : low + 2], key=lambda rho: abs(self.total(float(rho)) - z)))

    def shifted(self, rho: float) -> Vector:
        """m - rho w, rounded once for the product and the difference together."""
        w = self.w
        product = rho * np.broadcast_to(np.asarray(w), self.m.shape)
        found = self.m - product
        part = self.m - found
        rest = (self.m - (found + part)) + (part - product)  # what the difference lost
        return np.asarray(found + np.where(np.isfinite(rest), rest, 0.0) - product_error(rho, w))

    def from_zero(self, z: float, root: Root) -> float:
        """The root of phi, followed from 0 on."""
        value = self.total(0.0) - z
        if value < 0.0:
            s = self.s
            return -self._replace(s=-s).from_zero(-z, root)
        t, bend, slope = self.breakpoints(0.0, np.inf)
        return root(t, bend, 0.0, value, slope)

    def likely(self, z: float) -> tuple[float, float]:
        """An interval (left, right) that probably contains the root of the problem of which this is a sample."""
        t, bend, slope = self.breakpoints(-np.inf, np.inf)
        left = float(t.min()) if len(t) else 0.0
        phi = Sorted(t, bend, left, self.total(left), slope)
        a = self.at(float(phi.roots(np.array([z]))[0]), np.empty(len(self.m)))
        each = (self.s * a).reshape(-1, LINE).sum(axis=1)  # neighbours may be alike: no more than so many are drawn
        margin = WIDTH * float(np.std(each)) * np.sqrt(len(each))
        low, high = phi.roots(np.array((z + margin, z - margin)))
        width = 1e-9 * max(abs(low), abs(high), np.finfo(float).tiny)
        return float(min(low, high) - width), float(max(low, high) + width)

    def between(self, left: float, right: float, at_left: float, at_right: float) -> float:
        """The root of a phi that is ``at_left`` and ``at_right`` at the ends and bends only in these variables.

        The others add a straight line. Newton's steps, each exact once no breakpoint lies between it and the root.
        """
        if at_left <= at_right:  # both are 0
            return left
        w, a = self.w, np.empty((2, len(self.m)))
        own_left, own_right = self.total(left), self.total(right)
        line = (at_right - own_right - at_left + own_left) / (right - left)
        low, high, rho = left, right, left + (right - left) * at_left / (at_left - at_right)
        steep = self.s * w
        for _ in range(STEPS):
            self.clipped(self.unclipped(rho, w, a[0]), a[1])
            free = a[0] == a[1]
            rest, own = at_left - own_left + line * (rho - left), self.weighted(a[1])
            value, noise = rest + own, ROUNDED * (abs(at_left) + abs(own_left) + abs(own))
            slope = line - float(np.count_nonzero(free) * steep if isinstance(steep, float) else steep @ free)
            low, high = (rho, high) if value > 0 else (low, rho)
            wanted = rho - value / slope if slope < 0 else 0.5 * (low + high)
            if abs(value) <= noise:
                return min(max(wanted, low), high)
            rho = wanted if low < wanted < high else 0.5 * (low + high)
        t, bend, slope = self.breakpoints(left, right)
        return root_by_medians(t, bend, left, at_left, line + slope, SORTED)

    def bracket(self, left: float, right: float) -> tuple[float, float, _Box]:
        """<s, a> at both ends, and the variables with a breakpoint between them.

        A variable has none exactly if it is the same at both ends, or unclipped at both.
        """
        at_left = at_right = 0.0
        found: list[_Box] = []
        buffers, flags = np.empty((4, BLOCK)), np.empty((2, BLOCK), dtype=bool)
        for _, block in self.blocks():
            k = len(block.m)
            free_left, free_right, a_left, a_right = buffers[:, :k]
            bent, one = flags[:, :k]
            w = block.w
            block.clipped(block.unclipped(left, w, free_left), a_left)
            block.clipped(block.unclipped(right, w, free_right), a_right)
            at_left += block.weighted(a_left)
            at_right += block.weighted(a_right)
            np.not_equal(a_left, free_left, out=bent)
            np.logical_or(bent, np.not_equal(a_right, free_right, out=one), out=bent)
            np.logical_and(bent, np.not_equal(a_left, a_right, out=one), out=bent)
            found.append(block.part(np.flatnonzero(bent)))  # while it is in cache
        return at_left, at_right, _joined(found)

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

    def point(self, rho: float, z: float) -> tuple[Vector, float, float]:
        """a(rho) and rho, both corrected until <s, a> = z up to rounding, if three rounds get there; and by how much it
        was missed at first, relative to its terms.

        The correction is added to the free entries of a, because a large rho cannot change by as little as is needed.
        """
        a = np.empty(len(self.m))
        cuts = [a[start : start + len(block.m)] for start, block in self.blocks()]
        last_first = zip(reversed(list(self.blocks())), reversed(cuts))  # what was read last may still be in cache
        total = sum(block.weighted(block.at(rho, cut)) for (_, block), cut in last_first)
        if abs(total - z) <= ROUNDED * abs(z):
            return a, rho, 0.0
        some = self.sample()
        each = np.abs(some.s * some.at(rho, np.empty(len(some.m))))
        size = float(each.sum()) * len(a) / max(len(each), 1)
        missed = abs(total - z) / max(size, abs(z), float(np.finfo(float).tiny))
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
        return a, rho, missed


def _joined(parts: list[_Box]) -> _Box:
    """The variables of all ``parts``."""
    m, *rest = zip(*parts)
    return _Box(np.concatenate(m), *(x[0] if isinstance(x[0], float) else np.concatenate(x) for x in rest))


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
