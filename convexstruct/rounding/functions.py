"""Sums, products with data, and functions of numbers that carry their error; of arrays, plain arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Tensor, Vector
from convexstruct.rounding.numbers import FUNCTION, OUTWARD, TINY, UNIT, Rounded, RoundedArray, gamma, split

#: `summed` adds blocks of BLOCK_TERMS terms one after the other, then the sums of the blocks in the same way; once at
#: most EXACT_TERMS numbers are left, it adds them exactly and rounds once.
BLOCK_TERMS, EXACT_TERMS = 64, 128
#: Terms that are summed before a sum is compensated or handed to math.fsum (`square`, `compensated`).
BLOCK = 256
#: `adjoint` adds up at least ROWS rows of a matrix in one product, and at most BLOCKS such products.
ROWS, BLOCKS = 64, 512
#: Blocks of a sparse matrix have at least WIDE times as many entries as columns.
WIDE = 8
#: Factorisations that `least_eigenvalue` tries, each with four times the step of the one before.
FACTORISATIONS = 12
#: Rows of a dense matrix whose magnitudes are held at once.
ROOM = 4096


def gammas(n: Any) -> Vector:
    """`gamma` of each entry."""
    return np.asarray(np.where(n * UNIT < 1.0, n * UNIT / np.maximum(1.0 - n * UNIT, TINY), np.inf))


def up(values: Tensor) -> Tensor:
    """Upper bounds on all numbers that round to ``values``."""
    return np.asarray(np.maximum(values * (1 + 4 * UNIT), values * (1 - 4 * UNIT)))


def enclose(value: float) -> Rounded:
    """``value`` as it is, if it carries an allowance already, else as an exact number."""
    return value if isinstance(value, Rounded) else Rounded(value)


def joined(*parts: Any) -> Any:
    """The entries of all parts, one after the other; (n,)."""
    if not any(isinstance(part, RoundedArray) for part in parts):
        return np.concatenate([np.ravel(part) for part in parts])
    every = [part if isinstance(part, RoundedArray) else RoundedArray(part) for part in parts]
    return RoundedArray(*(np.concatenate([x.ravel() for x in of]) for of in zip(*((e.value, e.errors) for e in every))))


# -- sums --------------------------------------------------------------------------------------------------------------


def total(terms: ArrayLike | Iterable[float], errors: float = 0.0) -> Rounded:
    """The sum of a few ``terms``, rounded once (math.fsum), those that are `Rounded` with their allowances.

    errors : the sum of other absolute errors of the terms.
    """
    flat = terms if isinstance(terms, list) else np.asarray(terms, dtype=np.float64).ravel().tolist()
    try:
        value = math.fsum(flat)
    except (OverflowError, ValueError):  # beyond the largest double, or inf - inf
        return Rounded(math.nan, math.inf)
    own = [term.allowance for term in flat if isinstance(term, Rounded)]
    return Rounded.of(value, abs(value) * UNIT, errors, *own)


def summed(terms: Any, errors: float = 0.0, operations: int = 0, positive: bool = False) -> Rounded:
    """The sum of many ``terms`` (any shape), in blocks as `BLOCK_TERMS` says.

    The bound is gamma(BLOCK_TERMS levels + operations) sum |terms| + errors, where levels is the number of digits of n
    to the base BLOCK_TERMS, less one.

    terms : an array or a `RoundedArray`, whose errors are added. operations : roundings in the computation of each
    term. errors : the sum of what the terms are wrong by besides, absolute. positive : no term is below 0, so that
    sum |terms| is the sum itself.
    """
    own = 0.0
    if isinstance(terms, RoundedArray):
        own = float(terms.errors.sum()) if np.any(terms.error) else 0.0
        terms = terms.value
    flat = np.ascontiguousarray(terms, dtype=np.float64).ravel()
    parts, depth = flat, operations
    while parts.size > EXACT_TERMS:
        even = parts.size - parts.size % BLOCK_TERMS
        parts = np.concatenate((parts[:even].reshape(BLOCK_TERMS, -1).sum(axis=0), parts[even:]))
        depth += BLOCK_TERMS
    value = total(parts.tolist())
    size = abs(float(value)) if positive else float(np.abs(flat).sum())
    return Rounded.of(float(value), value.allowance, gamma(depth) * size, errors, own)


def dot(x: Any, y: Any) -> Rounded:
    """x'y of two vectors; of arrays with the bound gamma(n) |x|'|y| + n TINY."""
    if isinstance(x, RoundedArray) or isinstance(y, RoundedArray):
        return summed(x * y)
    n = np.size(x)
    return Rounded.of(float(np.vdot(x, y)), gamma(n + 2) * float(np.vdot(np.abs(x), np.abs(y))), n * TINY)


def binned(x: Any, index: Index, size: int) -> Any:
    """Sums (size,) of the entries of x (n,) by ``index`` (n,); also of an array. A sum that is 0 exactly, of numbers
    without error and of similar sizes, has no error.

    Numbers are split at powers of two, so high that the upper parts add up without rounding; what is left after three
    splits is below 2^-140 n^3 of the largest (Rump, Ogita and Oishi, Accurate floating-point summation, part I).
    """
    if not isinstance(x, RoundedArray):
        return np.bincount(index, weights=x, minlength=size)
    value, rest = np.zeros(size), x.value
    error = np.bincount(index, weights=x.errors, minlength=size) if x.error.any() else np.zeros(size)
    for _ in range(3):
        high = _upper(rest, np.abs(rest).sum())
        part, rest = np.bincount(index, weights=high, minlength=size), rest - high
        error = error + np.where((value != 0.0) & (part != 0.0), UNIT * np.abs(value + part), 0.0)
        value = value + part
        if not rest.any():
            return RoundedArray(value, error)
    return RoundedArray(value, error + np.bincount(index, weights=np.abs(rest), minlength=size))


def _upper(x: Tensor, most: Any) -> Tensor:
    """The digits of x down to a power of 2 so high that such parts add up without rounding, where the sum of |x| is
    ``most``; NaN where that is not finite."""
    sigma = np.ldexp(1.0, np.frexp(most)[1] + 2) + np.where(most < np.inf, 0.0, np.nan)  # above 4 sum |x|
    return np.asarray((x + sigma) - sigma)


def square(x: Any, operations: int = 0) -> Rounded:
    """|x|^2: each block of `BLOCK` terms as it comes, their sum by math.fsum.

    operations : roundings, relative to the entry, in the computation of each entry of an array.
    """
    if isinstance(x, RoundedArray):
        return summed(x * x, positive=True)
    x = np.ravel(x)
    whole = len(x) - len(x) % BLOCK
    body = x[:whole].reshape(-1, BLOCK)
    parts = np.append(np.einsum("ij,ij->i", body, body), x[whole:] @ x[whole:])
    rough = total(parts)
    depth = min(len(x), BLOCK) + 2 + 2 * operations
    return Rounded.of(float(rough), rough.allowance, gamma(depth) * float(rough), len(x) * TINY)


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


# -- products with data, which are exact -------------------------------------------------------------------------------


def product(matrix: Any, x: Any, norms: Vector | None = None) -> Any:
    """matrix @ x; (n,), or (n, k) with one error a row.

    matrix : (n, m), dense or sparse. x : (m,) or (m, k); of an array the product is an array, without errors.
    norms : at least the Euclidean length of each row of ``matrix``: the errors are then bounded by Cauchy's inequality
        instead of sums of magnitudes, which take as long as the product. (n,)
    """
    if not isinstance(x, RoundedArray):
        return np.asarray(matrix @ x)
    value = np.asarray(matrix @ x.value)
    rate = gamma(longest_row(matrix) + 2)
    size, errors = np.abs(x.value), x.errors
    if size.ndim > 1:
        size, errors = size.max(axis=1), errors.max(axis=1)
    if norms is not None:
        error = norms * (rate * _length(size) + _length(errors))
    else:
        error = magnitudes(matrix, rate * size + errors)
    error = error + (matrix.shape[1] * 2.0 * TINY if size.any() or errors.any() else 0.0)
    return RoundedArray(value, error if value.ndim == 1 else error[:, None])


def adjoint(matrix: Any, x: Any, norms: Vector | None = None, counts: Index | None = None) -> Any:
    """matrix' x; (m,) or (m, k); arguments as in `product`, ``norms`` of the columns of ``matrix``. (m,)

    The sums over `ROWS` rows or more are added with their errors, so that rounding does not grow with the number of
    rows; of a sparse matrix that of a column grows with its entries.

    counts : how many entries each column of a sparse matrix stores, if known. (m,)
    """
    if not isinstance(x, RoundedArray):
        return np.asarray(matrix.T @ x)
    n, m = matrix.shape
    step = min(max(ROWS, -(-n // BLOCKS)), n)
    depth: Any = step
    if sp.issparse(matrix):
        matrix = matrix.tocsr()  # as it is where its rows are stored already
        depth = np.bincount(matrix.indices, minlength=m) if counts is None else counts
        step = max(step, WIDE * n * m // max(matrix.nnz, 1))  # adding the blocks' sums takes less than their products
        step = n if depth.max(initial=0) <= 2 * step else step  # blocks would not make sums much shorter
        depth = np.minimum(depth, step)
    value, uncertain = _by_blocks(matrix, x.value, step), bool(x.error.any())
    size, moved = np.abs(x.value), np.asarray(x.errors)
    if norms is None:
        size = _of_columns(matrix, size)
        moved = _of_columns(matrix, moved) if uncertain else np.zeros(1)
    else:
        size = np.multiply.outer(norms, _length(size))
        moved = np.multiply.outer(norms, _length(moved)) if uncertain else np.zeros(1)
    rate = gammas(depth + 5).reshape(-1, *(1,) * (value.ndim - 1))  # the sums of at most 2 BLOCKS parts included
    lost = 2.0 * n * TINY if uncertain or x.value.any() else 0.0
    return RoundedArray(value, rate * size + moved + UNIT * np.abs(value) + lost)


def _by_blocks(matrix: Any, x: Tensor, step: int) -> Tensor:
    """matrix' x, the sums over ``step`` rows each added with their errors."""
    n, m = matrix.shape
    if step >= n:
        return np.asarray(matrix.T @ x)
    whole = n - n % step
    if x.ndim == 1 and isinstance(matrix, np.ndarray) and matrix.flags.c_contiguous:  # all blocks in one call
        parts = (x[:whole].reshape(-1, 1, step) @ matrix[:whole].reshape(-1, step, m))[:, 0]
        parts = np.concatenate((parts, (matrix[whole:].T @ x[whole:])[None]))
    elif x.ndim == 1 and sp.issparse(matrix):  # one product too: SciPy cuts blocks out slower than it multiplies
        spread = sp.csr_array((x, (np.arange(n) // step, np.arange(n))))
        parts = (spread @ matrix).toarray()
    else:
        parts = np.array([matrix[low : low + step].T @ x[low : low + step] for low in range(0, n, step)])
    high = _upper(parts, np.abs(parts).sum(axis=0))
    return np.asarray(high.sum(axis=0) + (parts - high).sum(axis=0))  # the latter are UNIT as large


def _of_columns(matrix: Any, x: Tensor) -> Tensor:
    """|matrix|' x for x >= 0, with no copy of all of a dense matrix."""
    if sp.issparse(matrix):
        return magnitudes(matrix.T, x)
    found = np.zeros((matrix.shape[1], *x.shape[1:]))
    for low in range(0, len(matrix), ROOM):
        found += magnitudes(matrix[low : low + ROOM].T, x[low : low + ROOM])
    return found


def magnitudes(matrix: Any, x: Tensor) -> Tensor:
    """|matrix| x for x >= 0."""
    if sp.issparse(matrix):
        return np.asarray((matrix if matrix.data.min(initial=0.0) >= 0 else abs(matrix)) @ x)
    blocks = [np.abs(matrix[low : low + ROOM]) @ x for low in range(0, len(matrix), ROOM)]  # no copy of all of it
    return np.concatenate(blocks) if blocks else np.zeros((0, *x.shape[1:]))


def _length(x: Tensor) -> Any:
    """|x| of a vector, or of each column, scaled so that no square underflows or overflows."""
    if x.ndim > 1:
        return np.array([_length(column) for column in x.T])
    top = float(x.max(initial=0.0))
    return top * float(np.linalg.norm(x / top)) if 0.0 < top < math.inf else top


def row_norms(matrix: Any) -> Vector:
    """At least the Euclidean length of each row; inf where its squares overflow; (n,)."""
    d = matrix.shape[1]
    with np.errstate(over="ignore", under="ignore"):
        squares = matrix.power(2) @ np.ones(d) if sp.issparse(matrix) else np.einsum("ij,ij->i", matrix, matrix)
        return np.asarray(np.sqrt(squares * (1 + gamma(d + 8)) + d * TINY) * (1 + 4 * UNIT))


def longest_row(matrix: Any) -> int:
    """The most terms of a sum over a row."""
    if not sp.issparse(matrix):
        return int(matrix.shape[1])
    each = np.bincount(matrix.indices) if matrix.format == "csc" else np.diff(sp.csr_array(matrix).indptr)
    return int(each.max(initial=0))


@np.errstate(all="ignore")
def least_eigenvalue(x: RoundedArray) -> float:
    """At most the least eigenvalue of a symmetric matrix (n, n); -inf where nothing is known.

    If the Cholesky factorisation of A - s I runs to its end in floating point, in whatever order it adds, it is exact
    for A - s I + D with |D_ij| <= g sqrt(b_ii b_jj), b the diagonal of A - s I and g = gamma(n + 1) / (1 - gamma(n +
    1)) (Higham, theorem 10.3; Rump, Verification of positive definiteness, 2006). So the least eigenvalue of A is at
    least s - g (sum of b). Errors of the entries move it by at most their largest row sum.
    """
    x = 0.5 * (x + x.T)
    matrix, n, diagonal = x.value, len(x.value), np.diagonal(x.value)
    size, error = (float(each.sum(axis=1).max(initial=0.0)) * OUTWARD for each in (np.abs(matrix), x.errors))
    if not math.isfinite(n * size + error):
        return -math.inf
    if size == 0.0:
        return -error
    relative, computed = gamma(n + 1) / (1.0 - gamma(n + 1)), float(np.linalg.eigvalsh(matrix)[0])
    step = 2.0 * relative * (float(np.abs(diagonal).sum()) + n * abs(computed)) + n * UNIT * size
    for _ in range(FACTORISATIONS):
        shift, moved = computed - step, matrix.copy()
        lifted = diagonal - shift
        np.fill_diagonal(moved, lifted)
        try:
            np.linalg.cholesky(moved)
        except np.linalg.LinAlgError:
            step *= 4.0
            continue
        lost = relative * float(lifted.sum()) * OUTWARD + UNIT * float(lifted.max()) + n * n * TINY
        return math.nextafter(shift - (lost + error) * OUTWARD, -math.inf)
    return -(size + error) * OUTWARD


# -- functions ---------------------------------------------------------------------------------------------------------


def maximum(x: Any, y: Any) -> Any:
    """The larger of two, entry by entry: exact where the larger is exact and the other certainly less, as a hinge
    max(x, 0) is where x is certainly below 0."""
    (a, of_a), (b, of_b) = split(x), split(y)
    value = np.maximum(a, b)
    if not (isinstance(x, (Rounded, RoundedArray)) or isinstance(y, (Rounded, RoundedArray))):
        return value
    apart = np.subtract(a, b)
    both = (of_a + of_b) * OUTWARD + UNIT * np.abs(apart)
    error = np.where(-apart > both, of_b, of_a)
    if np.any(of_b):
        error = np.where(np.abs(apart) > both, error, np.maximum(of_a, of_b))
    return RoundedArray(value, error)


def largest(x: Any, axis: int) -> Any:
    """The largest entry along an axis: it moves no more than the entry that moves most."""
    if not isinstance(x, RoundedArray):
        return np.max(x, axis=axis)
    return RoundedArray(x.value.max(axis=axis), x.errors.max(axis=axis))


def largest_of(x: Any, start: Index) -> Any:
    """The largest of each group of entries, group g from start[g] on, none of them empty, as `largest`; (groups,)."""
    if not isinstance(x, RoundedArray):
        return np.maximum.reduceat(x, start)
    return RoundedArray(np.maximum.reduceat(x.value, start), np.maximum.reduceat(x.errors, start))


def exp(x: Any) -> Any:
    """e^x, entry by entry."""
    value = np.exp(split(x)[0])
    if not isinstance(x, RoundedArray):
        return value
    own, near = 2.0 * FUNCTION * UNIT, x.error < 0.5  # e^h - 1 < 2 h
    most = np.exp(np.where(near, 0.0, x.value + x.error))
    error = np.where(near, value * (2.0 * x.error + own), most * (1.0 + 2.0 * own))
    return RoundedArray(value, error + np.where(x.value + x.error > -np.inf, 4.0 * TINY, 0.0))


def log(x: Any) -> Any:
    """ln x, entry by entry; unknown where x may be 0."""
    value = np.log(split(x)[0])
    if not isinstance(x, RoundedArray):
        return value
    rest = (x.value - x.error) * (1.0 - 4.0 * UNIT)
    moved = np.where(rest > 0, x.error / np.where(rest > 0, rest, 1.0), np.inf)
    return RoundedArray(value, moved + 2.0 * FUNCTION * UNIT * np.abs(value))


def log_sum_exp(x: Any, axis: int) -> Any:
    """ln sum e^x along an axis; -inf where all are: it moves no more than the entry that moves most."""
    values = split(x)[0]
    top = np.max(values, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    value = np.log(np.exp(values - top).sum(axis=axis)) + np.squeeze(top, axis=axis)
    if not isinstance(x, RoundedArray):
        return value
    n, size = values.shape[axis], np.where(np.isfinite(value), np.abs(value), 0.0)
    own = (2.0 * FUNCTION * (1.0 + math.log(n)) + n + 4.0) * UNIT + 2.0 * UNIT * (size + np.abs(top).max(axis=axis))
    possible = np.where(values > -np.inf, x.errors, 0.0)
    return RoundedArray(value, possible.max(axis=axis) + own)


def entropy(x: Any) -> Any:
    """-x ln x, entry by entry, for x >= 0.

    It is concave, so that over an interval it is least at an end, and largest at an end or at 1/e.
    """
    values, error = split(x)
    value = _entropy(values)
    if not isinstance(x, RoundedArray):
        return value
    low, high = np.maximum(values - error, 0.0) * (1.0 - 4.0 * UNIT), (values + error) * (1.0 + 4.0 * UNIT)
    ends = _entropy(low), _entropy(high)
    least, most = np.minimum(*ends), np.maximum(*ends)
    most = np.where((low < math.exp(-1.0)) & (high > math.exp(-1.0)), math.exp(-1.0), most)
    size = np.maximum(np.abs(value), np.maximum(np.abs(least), np.abs(most)))
    own = (4.0 * FUNCTION + 8.0) * UNIT * size + 4.0 * TINY * (high > 0)
    return RoundedArray(value, np.where(high > 0, np.maximum(np.maximum(most - value, value - least), 0.0) + own, 0.0))


def _entropy(values: Tensor) -> Tensor:
    used = values > 0
    return np.where(used, -values * np.log(np.where(used, values, 1.0)), 0.0)
