r"""L-BFGS in any inner product: the pairs are rows of two matrices, and two triangular solves replace the two loops.

A pair is a change s of the point and the change y of the gradient between the same two points, s'y > 0. BFGS updates a
metric H (an approximate inverse Hessian) by each pair in turn, H <- (I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y. With
the pairs as rows of S and Y, R the upper triangle of S Y' and D its diagonal, the product of the updated H with a
gradient q is

    R a = S q,    z = H_0 (q - Y'a),    R'b = D a - Y z,    H q = z + S'b.

Another inner product <a, b> may stand wherever a'b does; y is then the change of the gradient in that inner product.

Source: the two-loop recursion of Nocedal (1980), its sums written as products; ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.linalg import lapack

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector

#: A pair is kept where s'y is above this share of |s| |y|: below it s'y is rounding.
LEAST_CURVATURE = 1e-12
#: A line search accepts a step if the function falls by at least `ARMIJO` times the decrease that the slope at its
#: start predicts, and the slope at its end is at most `WOLFE` times that at its start, in magnitude: the values of
#: Nocedal and Wright. Steps tried in one line search at most: halved so often a step is a trillionth of the first.
ARMIJO, WOLFE, SEARCH_TRIALS = 1e-4, 0.9, 40
#: A change of the function below this share of its value may be rounding.
VALUE_ROUNDING = 1e-14


class Valued(Protocol):
    """A point of a line search, with the function's value there."""

    @property
    def value(self) -> float: ...


At = TypeVar("At", bound=Valued)


def wolfe_search(
    at: Callable[[float], tuple[At, float]], value: float, slope: float, noise: float
) -> tuple[At | None, int]:
    """A point along a line that satisfies Wolfe's conditions, or else the tried one of least value among those that
    satisfy Armijo's, or None; and the number of points tried.

    The function is convex. The first length is 1. Between a point where it falls and one where it rises, the next
    length is the zero of the secant of the two slopes, kept off both ends; without such a pair it is four times as
    much, or half as much where the function overflows.

    at : length -> (the point there, the slope there). value, slope : at length 0. noise : what rounding may add to a
        value.
    """
    if not slope < 0.0:
        return None, 0
    low, low_slope, high, high_slope = 0.0, slope, np.inf, np.inf
    length, best = 1.0, None
    for trial in range(1, SEARCH_TRIALS + 1):
        deadline.check()
        there, now = at(length)
        falls = there.value <= value + ARMIJO * length * slope + noise
        if falls and abs(now) <= -WOLFE * slope:
            return there, trial
        if falls and there.value < value and (best is None or there.value < best.value):
            best = there
        if falls and now < 0.0:
            low, low_slope = length, now
        else:
            high, high_slope = length, now
        if not np.isfinite(high):
            length *= 4.0
        else:
            secant = low_slope / (low_slope - high_slope) if np.isfinite(high_slope) and high_slope > 0 else 0.5
            length = low + min(max(secant, 0.1), 0.9) * (high - low)
        if not low < length < high:
            break
    return best, trial


class Pairs:
    """The last ``memory`` pairs in dimension n.

    inner : (rows (m, n), vector (n,)) -> the inner product of each row with the vector, (m,); a'b by default. Where
        products with a Gram matrix K are expensive, u and K u may be kept side by side as one vector of twice the
        length: ``inner`` is then rows[:, :half] @ vector[half:], and `solve` returns H g and K H g without a further
        product.
    single : whether pairs are kept, and multiplied, in single precision: for dimensions in which the time is that of
        reading them from memory. H is then one of pairs that are off by 1e-7, relative.
    """

    def __init__(
        self, memory: int, n: int, inner: Callable[[Matrix, Vector], Vector] = np.matmul, single: bool = False
    ) -> None:
        self._memory, self._inner = memory, inner
        self._kind: Any = np.float32 if single else np.float64
        self._change, self._bend = (np.zeros((2 * memory, n), dtype=self._kind) for _ in range(2))
        self._product = np.zeros((2 * memory, 2 * memory))
        self._low = self._high = 0  # rows in use; they move on, and at the end are copied to the start

    def __len__(self) -> int:
        return self._high - self._low

    def add(self, change: Vector, bend: Vector) -> None:
        """Keep (s, y) if s'y > `LEAST_CURVATURE` |s| |y|; the oldest pair is dropped when there are more than
        ``memory``."""
        if self._high == len(self._change):
            n = self._memory
            kept = slice(self._high - n, self._high)
            self._change[:n], self._bend[:n] = self._change[kept], self._bend[kept]
            self._product[:n, :n] = self._product[kept, kept]
            self._low, self._high = 0, n
        at = self._high
        self._change[at], self._bend[at] = change, bend
        low = max(self._low, at + 1 - self._memory)
        column = self._inner(self._change[low : at + 1], self._bend[at])
        if column.dtype != bend.dtype:
            column = np.append(column[:-1], self._inner(change[None], bend))
        squares = self._inner(change[None], change)[0] * self._inner(bend[None], bend)[0]
        if column[-1] > LEAST_CURVATURE * np.sqrt(squares):
            self._product[low : at + 1, at] = column
            self._low, self._high = low, at + 1

    def clear(self) -> None:
        self._low = self._high = 0

    def scale(self, factor: float) -> None:
        """Multiply the approximate Hessian by a positive number: every gradient change y is multiplied by it."""
        used = slice(self._low, self._high)
        self._bend[used] *= factor
        self._product[used, used] *= factor

    def solve(
        self, metric: Callable[[Vector], Vector], gradient: Vector, fit: bool, more: Vector | None = None
    ) -> Vector:
        """H times the gradient, with H_0 = ``metric``; if ``fit``, times s'y / y' H_0 y of the last pair.

        more : (k,), a diagonal that ``metric`` includes and the pairs do not, such as the curvature of a barrier at the
            present point: each y becomes y + diag(0, more) s, for the last k variables. Euclidean inner product only.
        """
        if not len(self):
            return metric(gradient)
        used, tail = slice(self._low, self._high), len(gradient) - (0 if more is None else len(more))
        change, bend, upper = self._change[used], self._bend[used], self._product[used, used]
        added = change[:, tail:] * (0.0 if more is None else more)  # what ``more`` adds to the end of each y
        if more is not None:
            upper = upper + change[:, tail:] @ added.T
        kind = self._kind
        slope: Vector = np.asarray(gradient, dtype=kind)
        first = lapack.dtrtrs(upper.T, self._inner(change, slope), lower=1, trans=1)[0]  # by columns
        z: Vector = np.asarray(first, dtype=kind) @ bend
        z[tail:] += first @ added
        z = np.asarray(metric(np.subtract(slope, z, out=z)), dtype=kind)
        if fit:
            last = bend[-1]
            if more is not None:
                last = last.copy()
                last[tail:] += added[-1]
            z *= upper[-1, -1] / self._inner(last[None], np.asarray(metric(last), dtype=kind))[0]
        right = np.diag(upper) * first - self._inner(bend, z) - added @ z[tail:]
        second = lapack.dtrtrs(upper.T, right, lower=1)[0]
        found = np.asarray(second, dtype=kind) @ change
        found += z
        return np.asarray(found, dtype=np.float64)
