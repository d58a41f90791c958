"""Values that carry their rounding: what a bound needs to be true in real arithmetic and not only in double precision.

A computed sum is not the sum. Every ``primal`` and ``dual`` of a problem returns a `Rounded`: the computed value and an
*allowance*, a proved bound on how far the exact number lies from it. `certify` adds the allowance to an upper bound and
takes it from a lower one, so that "certified" means proved.

The model is the standard one of floating point (Higham, Accuracy and Stability of Numerical Algorithms, chapters 2-4):
fl(x op y) = (x op y)(1 + delta) + eps with |delta| <= `UNIT`, and |eps| <= `TINY` for a product, a quotient or a
function that falls below the smallest normal number, 0 for a sum or a difference. From it,

    |fl(x'y) - x'y| <= gamma(n) |x|'|y| + n TINY,    gamma(n) = n UNIT / (1 - n UNIT),

in any order of summation, so for NumPy, for every BLAS, and with or without fused multiply-add. Allowances are
themselves computed in floating point; `Rounded.of` widens each by a factor that covers this.

One assumption is not in the standard: exp, log and their relatives (NumPy, SciPy) err by at most `FUNCTION` units in
the last place. Their documented errors are at most 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Tensor, Vector

#: Half the distance from 1 to the next number: the largest relative error of one operation.
UNIT = 2.0**-53
#: The distance from 1 to the next number, 2 UNIT: one unit in the last place.
EPS = 2.0**-52
#: The smallest positive number: no product or quotient that underflows is wrong by more.
TINY = 2.0**-1074
#: Numbers beyond this are not added up: their sums might overflow, and what they bound is infinite then.
GREATEST = 1e300
#: The error of a function such as exp or log, in units in the last place (each 2 UNIT relative to the value), at most.
FUNCTION = 8
#: `summed` adds blocks of BLOCK_TERMS terms one after the other, then the sums of the blocks in the same way; once at
#: most EXACT_TERMS numbers are left, it adds them exactly and rounds once.
BLOCK_TERMS, EXACT_TERMS = 64, 128
#: Terms that are summed before a sum is compensated or handed to math.fsum (`square`, `compensated`).
BLOCK = 256
#: Factor by which an allowance is widened because it was itself computed with rounding; enough for 1e6 operations
#: one after another.
OUTWARD = 1.0 + 1e-9


class Rounded(float):
    """A float and how far the exact number may lie from it.

    It can stand wherever a float is wanted; arithmetic with it gives plain floats, without the allowance.

    allowance : at least 0; inf where nothing is known. ``upper`` and ``lower`` enclose the exact number.
    """

    __slots__ = ("allowance",)
    allowance: float

    def __new__(cls, value: float, allowance: float = 0.0) -> Self:
        self = super().__new__(cls, value)
        self.allowance = math.inf if math.isnan(allowance) else float(allowance)
        return self

    @classmethod
    def of(cls, value: float, *allowances: float) -> Self:
        """``value`` with the sum of ``allowances``, widened for the rounding in computing them."""
        return cls(
            value, math.fsum(allowances) * OUTWARD + 4 * TINY if all(map(math.isfinite, allowances)) else math.inf
        )

    @property
    def upper(self) -> float:
        """At least the exact number."""
        return math.nextafter(float(self) + self.allowance, math.inf) if self.allowance else float(self)

    @property
    def lower(self) -> float:
        """At most the exact number."""
        return math.nextafter(float(self) - self.allowance, -math.inf) if self.allowance else float(self)

    def __reduce__(self) -> tuple[type[Rounded], tuple[float, float]]:
        return type(self), (float(self), self.allowance)

    def __repr__(self) -> str:
        return f"{float(self)!r} +- {self.allowance:.1g}"


def gamma(n: int) -> float:
    """n UNIT / (1 - n UNIT): the relative error of n operations one after another; inf where the bound is void."""
    return n * UNIT / (1.0 - n * UNIT) if n * UNIT < 1.0 else math.inf


def enclose(value: float) -> Rounded:
    """``value`` as it is, if it carries an allowance already, else as an exact number."""
    return value if isinstance(value, Rounded) else Rounded(value)


def total(terms: ArrayLike | Iterable[float], errors: float = 0.0) -> Rounded:
    """The sum of ``terms``, rounded once (math.fsum). errors : the sum of the absolute errors of the terms."""
    flat = np.asarray(terms, dtype=np.float64).ravel() if not isinstance(terms, list) else terms
    try:
        value = math.fsum(flat.tolist() if isinstance(flat, np.ndarray) else flat)
    except (OverflowError, ValueError):  # beyond the largest double, or inf - inf
        return Rounded(math.nan, math.inf)
    return Rounded.of(value, abs(value) * UNIT, errors)


def summed(terms: Any, errors: float = 0.0, operations: int = 0, positive: bool = False) -> Rounded:
    """The sum of many ``terms`` (any shape), in blocks as `BLOCK_TERMS` says.

    The bound is gamma(BLOCK_TERMS levels + operations) sum |terms| + errors, where levels is the number of digits of n
    to the base BLOCK_TERMS, less one.

    operations : roundings in the computation of each term. errors : the sum of what the terms are wrong by besides,
    absolute. positive : no term is below 0, so that sum |terms| is the sum itself.
    """
    flat = np.ascontiguousarray(terms, dtype=np.float64).ravel()
    parts, depth = flat, operations
    while parts.size > EXACT_TERMS:
        even = parts.size - parts.size % BLOCK_TERMS
        parts = np.concatenate((parts[:even].reshape(BLOCK_TERMS, -1).sum(axis=0), parts[even:]))
        depth += BLOCK_TERMS
    value = total(parts.tolist())
    size = abs(float(value)) if positive else float(np.abs(flat).sum())
    return Rounded.of(float(value), value.allowance, gamma(depth) * size, errors)


def dot(x: Any, y: Any) -> Rounded:
    """x'y of two dense vectors, with the bound gamma(n) |x|'|y| + n TINY."""
    n = np.size(x)
    return Rounded.of(float(np.vdot(x, y)), gamma(n + 2) * float(np.vdot(np.abs(x), np.abs(y))), n * TINY)


def times(*factors: float) -> float:
    """The product of numbers >= 0, with no overflow or underflow on the way; 0 where a factor is 0."""
    if min(factors) == 0.0:
        return 0.0
    if not all(map(math.isfinite, factors)):
        return math.inf
    mantissa, exponent = 1.0, 0
    for factor in factors:
        part, power = math.frexp(factor)
        mantissa, exponent = mantissa * part, exponent + power
    try:
        return math.ldexp(mantissa, exponent)
    except OverflowError:
        return math.inf


def square(x: Vector) -> Rounded:
    """|x|^2: each block of `BLOCK` terms as it comes, their sum by math.fsum."""
    whole = len(x) - len(x) % BLOCK
    body = x[:whole].reshape(-1, BLOCK)
    parts = np.append(np.einsum("ij,ij->i", body, body), x[whole:] @ x[whole:])
    rough = total(parts)
    return Rounded.of(float(rough), rough.allowance, gamma(BLOCK + 2) * float(rough), len(x) * TINY)


def compensated(parts: Iterable[Tensor], shape: tuple[int, ...]) -> Tensor:
    """The sum of arrays, each addition with its error carried along (Ogita, Rump, Oishi 2005, Sum2): wrong by at most
    UNIT |sum| + gamma(n)^2 sum |parts| for n of them."""
    high, low = np.zeros(shape), np.zeros(shape)
    for part in parts:
        new = high + part
        back = new - high
        low += (high - (new - back)) + (part - back)
        high = new
    return np.asarray(high + low)
