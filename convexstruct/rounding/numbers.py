"""`Rounded` and `RoundedArray`: numbers with a bound on their error, and their arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import Tensor

#: Half the distance from 1 to the next number: the largest relative error of one operation.
UNIT = 2.0**-53
#: The distance from 1 to the next number, 2 UNIT: one unit in the last place.
EPS = 2.0**-52
#: The smallest positive number: no product or quotient that underflows is wrong by more.
TINY = 2.0**-1074
#: Products of numbers above this neither underflow nor does a share `UNIT` of them.
SMALL = 1e-290
#: Numbers beyond this are not added up: their sums might overflow, and what they bound is infinite then.
GREATEST = 1e300
#: The error of a function such as exp or log, in units in the last place (each 2 UNIT relative to the value), at most.
FUNCTION = 8
#: Factor by which an allowance is widened because it was itself computed with rounding; enough for 1e6 operations
#: one after another.
OUTWARD = 1.0 + 1e-9


def gamma(n: float) -> float:
    """n UNIT / (1 - n UNIT): the relative error of n operations one after another; inf where the bound is void."""
    return n * UNIT / (1.0 - n * UNIT) if n * UNIT < 1.0 else math.inf


class Rounded(float):
    """A float and how far the exact number may lie from it.

    It can stand wherever a float is wanted. Sums, differences, products and quotients with floats and with others of
    its kind carry the allowance, those with an array give a `RoundedArray`; a function such as math.sqrt or np.exp
    sees the float alone.

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
        return cls(value, sum(allowances) * OUTWARD + 4 * TINY)

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

    def __add__(self, other: Any) -> Any:
        return _operated(_add, self, other)

    def __sub__(self, other: Any) -> Any:
        return _operated(_subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _operated(_subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return _operated(_multiply, self, other)

    def __truediv__(self, other: Any) -> Any:
        return _operated(_divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _operated(_divide, other, self)

    def __neg__(self) -> Rounded:
        return Rounded(-float(self), self.allowance)

    def __abs__(self) -> Rounded:
        return Rounded(abs(float(self)), self.allowance)

    __radd__, __rmul__ = __add__, __mul__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Arithmetic with NumPy's numbers and arrays carries the allowance; any other function sees the float."""
        if method == "__call__" and ufunc in _ARITHMETIC and not options:
            return _operated(_ARITHMETIC[ufunc], *inputs)
        return getattr(ufunc, method)(*(float(x) if isinstance(x, Rounded) else x for x in inputs), **options)


# -- arithmetic --------------------------------------------------------------------------------------------------------


def split(x: Any) -> tuple[Any, Any]:
    """(value, error) of anything that stands in a formula."""
    if isinstance(x, RoundedArray):
        return x.value, x.error
    return (float(x), x.allowance) if isinstance(x, Rounded) else (x, 0.0)


def _add(x: Any, y: Any) -> RoundedArray:
    (a, of_a), (b, of_b) = split(x), split(y)
    value = np.add(a, b)
    return RoundedArray(value, _own(value, of_a, of_b))


def _subtract(x: Any, y: Any) -> RoundedArray:
    (a, of_a), (b, of_b) = split(x), split(y)
    value = np.subtract(a, b)
    return RoundedArray(value, _own(value, of_a, of_b))


def _own(value: Tensor, *errors: Any) -> Tensor:
    """The rounding of ``value`` itself and the ``errors``, added in place: a new array costs more than an addition."""
    error = np.abs(value)
    error *= UNIT
    for each in errors:
        error += each
    return error


def _multiply(x: Any, y: Any) -> RoundedArray:
    (a, of_a), (b, of_b) = split(x), split(y)
    value = np.multiply(a, b)
    error = _own(value)
    if np.any(of_b):
        error += np.abs(a) * of_b
    if np.any(of_a):
        error += (np.abs(b) + of_b) * of_a
    return RoundedArray(value, _underflow(error, value, (a, of_a), (b, of_b)))


def _divide(x: Any, y: Any) -> RoundedArray:
    """Unknown where the divisor may be 0."""
    (a, of_a), (b, of_b) = split(x), split(y)
    value = np.divide(a, b)
    error = UNIT * np.abs(value)
    if np.any(of_a) or np.any(of_b):
        rest = (np.abs(b) - of_b) * (1.0 - 4.0 * UNIT)
        error = error + np.where(rest > 0, (of_a + np.abs(value) * of_b) / np.where(rest > 0, rest, 1.0), np.inf)
    return RoundedArray(value, _underflow(error, value, (a, of_a), (np.isfinite(b), 0.0)))


def _matmul(x: Any, y: Any) -> RoundedArray:
    """Dense or sparse; either, or both, with errors."""
    a, b = (z.value if isinstance(z, RoundedArray) else z for z in (x, y))
    size, rate = abs(b), gamma(b.shape[0] + 2)
    error, zero = abs(a) @ (rate * size), not size.sum()
    if isinstance(y, RoundedArray):
        error, size, zero = error + abs(a) @ y.errors, size + y.errors, zero and not y.error.any()
    if isinstance(x, RoundedArray):
        error = error + x.errors @ size
    return RoundedArray(a @ b, error + (0.0 if zero else b.shape[0] * 4.0 * TINY))


def _underflow(error: Tensor, value: Tensor, *factors: tuple[Any, Any]) -> Tensor:
    """``error``, and a few `TINY` where a product of numbers other than 0 may have fallen below the normal numbers: it
    is exact where a factor (value, error) is 0 exactly."""
    low = np.abs(value) < SMALL
    if not low.any():
        return error
    for x, of_x in factors:
        low = low & ~(np.equal(x, 0.0) & np.equal(of_x, 0.0))
    return np.asarray(error + np.where(low, 4.0 * TINY, 0.0))


# -- arrays ------------------------------------------------------------------------------------------------------------


class RoundedArray:
    """An array and, entry by entry, how far the exact numbers may lie from it.

    value : any shape. error : at least 0, of a shape that broadcasts to that of ``value``, so that one number may serve
    a row or the whole; inf or NaN where nothing is known. What is 0 exactly has the error 0, and keeps it.

    Each new one asks for the deadline (`convexstruct.deadline`), so that bounds do between any two operations.
    """

    __slots__ = ("error", "value")
    __array_ufunc__ = None  # so that `array * self` comes here

    def __init__(self, value: ArrayLike, error: ArrayLike = 0.0) -> None:
        deadline.check()
        self.value: Tensor = np.asarray(value, dtype=np.float64)
        self.error: Tensor = np.asarray(error, dtype=np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def errors(self) -> Tensor:
        """``error`` in the shape of ``value``, not to be written to."""
        return self.error if self.error.shape == self.value.shape else np.broadcast_to(self.error, self.value.shape)

    def __getitem__(self, at: Any) -> RoundedArray:
        return RoundedArray(self.value[at], self.errors[at] if self.error.ndim else self.error)

    def reshape(self, *shape: int) -> RoundedArray:
        return RoundedArray(self.value.reshape(*shape), self.errors.reshape(*shape) if self.error.ndim else self.error)

    @property
    def T(self) -> RoundedArray:
        return RoundedArray(self.value.T, self.errors.T if self.error.ndim else self.error)

    __add__ = __radd__ = _add
    __mul__ = __rmul__ = _multiply
    __sub__, __truediv__, __matmul__ = _subtract, _divide, _matmul

    def __rsub__(self, other: Any) -> RoundedArray:
        return _subtract(other, self)

    def __rtruediv__(self, other: Any) -> RoundedArray:
        return _divide(other, self)

    def __rmatmul__(self, other: Any) -> RoundedArray:
        return _matmul(other, self)

    def __neg__(self) -> RoundedArray:
        return RoundedArray(-self.value, self.error)

    def __abs__(self) -> RoundedArray:
        return RoundedArray(np.abs(self.value), self.error)

    def sum(self, axis: int) -> RoundedArray:
        """Along one axis; `summed` is the sum of all entries."""
        value = self.value.sum(axis=axis)
        size = gamma(self.value.shape[axis]) * np.abs(self.value).sum(axis=axis)
        return RoundedArray(value, size + self.errors.sum(axis=axis) if self.error.any() else size)

    def __repr__(self) -> str:
        return f"{self.value!r} +- {self.error!r}"


def exact(values: ArrayLike) -> RoundedArray:
    """``values`` as numbers without error, so that a formula carries its rounding from here on."""
    return RoundedArray(values)


def _operated(operation: Callable[[Any, Any], RoundedArray], x: Any, y: Any) -> Any:
    """``operation`` where one of the two is a `Rounded`."""
    if (isinstance(x, float) and isinstance(y, (float, int))) or (isinstance(x, int) and isinstance(y, float)):
        return _of_numbers(operation, x, y)
    if not all(isinstance(z, (int, float, np.number, np.ndarray, RoundedArray)) for z in (x, y)):
        return NotImplemented
    with np.errstate(all="ignore"):
        found = operation(x, y)
    if found.value.ndim:
        return found
    return Rounded.of(float(found.value), float(found.error)) if found.error else Rounded(float(found.value))


def _of_numbers(operation: Callable[[Any, Any], RoundedArray], x: float, y: float) -> Rounded:
    """The operation without NumPy, which takes ten times as long for single numbers."""
    (a, of_a), (b, of_b) = ((float(z), z.allowance if isinstance(z, Rounded) else 0.0) for z in (x, y))
    underflows = False
    if operation is _multiply:
        value = a * b
        error = (abs(a) * of_b if of_b else 0.0) + ((abs(b) + of_b) * of_a if of_a else 0.0)
        underflows = bool((a or of_a) and (b or of_b))
    elif operation is _divide:
        rest = (abs(b) - of_b) * (1.0 - 4.0 * UNIT)
        if not rest > 0.0:
            return Rounded(math.nan, math.inf)
        value = a / b
        error = (of_a + (abs(value) * of_b if of_b else 0.0)) / rest
        underflows = bool(a or of_a) and not math.isinf(b)
    else:
        value, error = a + b if operation is _add else a - b, of_a + of_b
    error += UNIT * abs(value) + (4.0 * TINY if underflows and abs(value) < SMALL else 0.0)
    return Rounded.of(value, error) if error else Rounded(value)


_ARITHMETIC: dict[np.ufunc, Callable[[Any, Any], RoundedArray]] = {
    np.add: _add,
    np.subtract: _subtract,
    np.multiply: _multiply,
    np.divide: _divide,
}
