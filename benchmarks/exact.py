"""Exact arithmetic for `benchmarks/rounding.py`: fractions in arrays of objects, of which sums and products are exact,
and numbers of `DIGITS` digits where there are logarithms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector

#: An array of fractions: what NumPy's stubs do not know.
Exactly = Any

#: Digits of numbers that are not rational, and what a sum of them may be wrong by, relative to its terms.
DIGITS = 60
ERROR = mpmath.mpf(10) ** (10 - DIGITS)
ZERO: Any = Fraction(0)


def exactly(values: Any) -> Exactly:
    """The floats of an array, list or sparse matrix as fractions, in an array of the same shape."""
    given = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=float)
    return np.array([Fraction(x) for x in given.ravel().tolist()], dtype=object).reshape(given.shape)


def number(x: Any) -> Any:
    """To `DIGITS` digits."""
    with mpmath.workdps(DIGITS):
        return mpmath.mpf(x.numerator) / x.denominator


def fraction(x: Any) -> Fraction:
    """An mpmath number as it is."""
    sign, man, exponent, _ = x._mpf_
    return Fraction(int(-man if sign else man)) * (Fraction(2) ** int(exponent))


def floats(values: Exactly) -> Vector:
    """The nearest floats; beyond the largest, the largest."""
    largest = Fraction(np.finfo(float).max)
    return np.array([float(max(min(x, largest), -largest)) for x in values], dtype=float)


def exp(score: Fraction) -> Fraction:
    """e^score, 0 below e^-700."""
    with mpmath.workdps(DIGITS):
        return ZERO if score < -700 else fraction(mpmath.exp(number(score)))


def root(value: Fraction) -> Fraction:
    """The square root."""
    with mpmath.workdps(DIGITS):
        return fraction(mpmath.sqrt(number(value)))


def log_sum(scores: Exactly) -> Any:
    """ln sum e^score less the largest score, which is in (0, ln of their number]."""
    with mpmath.workdps(DIGITS):
        return mpmath.log(mpmath.fsum(mpmath.exp(number(score - scores.max())) for score in scores))


def solved(matrix: Exactly, right: Exactly) -> Exactly | None:
    """x of matrix x = right by elimination; None where the matrix is singular."""
    n = len(right)
    rows = np.column_stack((matrix, right))
    for j in range(n):
        pivot = next((i for i in range(j, n) if rows[i, j] != 0), None)
        if pivot is None:
            return None
        rows[[j, pivot]] = rows[[pivot, j]]
        rows[j] = rows[j] / rows[j, j]
        for i in range(n):
            if i != j and rows[i, j] != 0:
                rows[i] = rows[i] - rows[i, j] * rows[j]
    return np.asarray(rows[:, n])
