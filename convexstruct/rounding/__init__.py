"""Numbers that carry their rounding: what a bound needs to be true in real arithmetic and not only in double precision.

A computed sum is not the sum. Every ``primal`` and ``dual`` of a problem returns a `Rounded`: the computed value and an
*allowance*, a proved bound on how far the exact number lies from it. `certify` adds the allowance to an upper bound and
takes it from a lower one, so that "certified" means proved.

A formula is written once. On floats and arrays it is evaluated as it stands; on a `Rounded` number or a `RoundedArray`
each operation carries the error along (running error analysis: Higham, Accuracy and Stability of Numerical Algorithms,
chapter 3). The functions here (`product`, `adjoint`, `total`, `largest`, `exp`, ...) take both.

The model is the standard one of floating point (Higham, chapters 2-4): fl(x op y) = (x op y)(1 + delta) + eps with
|delta| <= `UNIT`, and |eps| <= `TINY` for a product, a quotient or a function that falls below the smallest normal
number, 0 for a sum or a difference. From it,

    |fl(x'y) - x'y| <= gamma(n) |x|'|y| + n TINY,    gamma(n) = n UNIT / (1 - n UNIT),

in any order of summation, so for NumPy, for every BLAS, and with or without fused multiply-add. Errors are themselves
computed in floating point, from sums and products of numbers >= 0; where one becomes an allowance (`Rounded.of`) it is
widened by a factor that covers this, and products of errors that underflow are replaced by a few `TINY`.

One assumption is not in the standard: exp, log and their relatives (NumPy, SciPy) err by at most `FUNCTION` units in
the last place. Their documented errors are at most 4.
"""

from __future__ import annotations

from convexstruct.rounding.functions import (
    BLOCK,
    adjoint,
    binned,
    compensated,
    dot,
    enclose,
    entropy,
    exp,
    gammas,
    joined,
    largest,
    largest_of,
    least_eigenvalue,
    log,
    log_sum_exp,
    longest_row,
    magnitudes,
    maximum,
    product,
    row_norms,
    square,
    summed,
    total,
    up,
)
from convexstruct.rounding.numbers import (
    EPS,
    FUNCTION,
    GREATEST,
    OUTWARD,
    SMALL,
    TINY,
    UNIT,
    Rounded,
    RoundedArray,
    exact,
    gamma,
)

__all__ = [
    "BLOCK", "EPS", "FUNCTION", "GREATEST", "OUTWARD", "SMALL", "TINY", "UNIT", "Rounded", "RoundedArray", "adjoint",
    "binned", "compensated", "dot", "enclose", "entropy", "exact", "exp", "gamma", "gammas", "joined", "largest",
    "largest_of", "least_eigenvalue", "log", "log_sum_exp", "longest_row", "magnitudes", "maximum", "product",
    "row_norms", "square", "summed", "total", "up",
]  # fmt: skip
