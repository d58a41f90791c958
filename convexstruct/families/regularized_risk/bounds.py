r"""Bounds of a regularised risk with the rounding of their own sums: true in real arithmetic.

The notation is that of `problem`, gamma(n) that of `convexstruct.rounding`, u the rounding of one operation.

**Primal.** fl(J) against J(w, b), with share_g = 1/n or omega_i / sum omega exactly. Every product m x w inside a piece
is rounded once and then added at most `depth` times, so the value of piece p errs by at most

    err_p = gamma(depth + 4) (|M| |X| |w| + |b| + |c|)_p,

and loss_g by the largest err_p of its pieces, or by nothing where v + err is below the zero piece.

**Dual.** Let alpha be the float vector at hand, a = A' alpha and a^ what is computed of it. Alpha misses Q by rounding:
1/n is no float, nor does a sum of floats balance. A member of Q in real arithmetic is

    (1 - eta) (alpha + Delta),    |Delta_p| <= delta alpha_p,

where delta is the factor that brings a group without the zero piece exactly to its share, or the heavier side of a free
offset exactly to the lighter, and eta, with the zero piece, the factor that brings every group below its share. All are
measured, by sums of a known error. With e >= |A'(alpha + Delta) - a^|,

    D >= <c, alpha> - eta |<c, alpha + Delta>| - delta <|c|, alpha> - sum_j (|a^_j| + e_j)^2 / (2 lam),
    e_j = (gamma(depth) + delta) (|X|' |M|' alpha)_j.

Long sums are taken in blocks, which are then added in pairs: the depth is that of a block and a few levels more, not
the number of examples.

**Two allowances.** The sums |X| |w| and |X|' |M|' alpha cost as much as the bounds themselves. With R at least every
|x_i| (`longest_row`) and m at least sum_k |M_pk| of every piece p, by the inequality of Cauchy and Schwarz

    (|M| |X| |w|)_p <= m R max_k |w_k|,      |(|X|' |M|' alpha)|_2 <= m R sum_p alpha_p,

so that the primal errs by one number for all pieces, and sum_j |a_j| e_j <= |a| |e|. The sums are formed only where
these numbers are too wide for the value, which they are where features differ much in size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Index, Vector
from convexstruct.families.regularized_risk.losses import PiecewiseLoss
from convexstruct.rounding import TINY, UNIT, Rounded, gamma

#: Relative error of a share in units of rounding; its absolute error by underflow, in units of the smallest number.
SHARE_UNITS = 8
#: Rows (or columns) of a dense X whose products are added one after the other before the sums of such blocks are:
#: the rounding grows with this number. More blocks than this cost time.
DENSE_BLOCK = 64
#: The same of the rows of a sparse X. It is larger because every block has a sum for each column, filled or not.
SPARSE_BLOCK = 128
#: The allowance from norms is taken if it is at most this share of the value; else the sums of magnitudes are formed.
#: With what else is rounded an allowance stays below 1e-12 of the value.
NORMS_SERVE = 8e-13
#: Entries of a dense X that are processed together, so that they are still in the processor's cache (256 KiB).
CACHED_NUMBERS = 1 << 15
#: `reason` blames a feature for large allowances if its largest entry is above this, else a small lam.
LARGE_FEATURE = 1e4
#: Groups of more pieces than this are summed by `math.fsum`, whose error does not grow with their number.
LONG_GROUP = 64


class Risk(Protocol):
    """What is asked of a regularized risk here; `RegularizedRisk` says what each is."""

    @property
    def X(self) -> Any: ...

    @property
    def loss(self) -> PiecewiseLoss: ...

    @property
    def lam(self) -> float: ...

    @property
    def shares(self) -> Vector: ...

    @property
    def n_biases(self) -> int: ...

    @property
    def is_box(self) -> bool: ...

    @property
    def group(self) -> Index: ...

    @property
    def single(self) -> tuple[Vector, Index | None] | None: ...

    @property
    def longest_row(self) -> float: ...

    @property
    def columns_in_blocks(self) -> tuple[Any, int, int]: ...

    def losses(self, values: Vector) -> Vector: ...


def shares(weights: Vector) -> Vector:
    """omega_i / sum omega, each right to `SHARE_UNITS` units, whatever the scale of the weights; (n,)."""
    scaled = np.ldexp(weights, -int(np.frexp(weights.max())[1]))  # exact, or below the smallest normal number
    return np.asarray(scaled / math.fsum(scaled.tolist()))


def member(problem: Risk, alpha: Vector) -> Vector:
    """A member of Q near ``alpha`` up to rounding, by cutting off and scaling alone; finite for every finite alpha."""
    loss, share = problem.loss, problem.shares
    clean = np.maximum(alpha, 0.0)
    if problem.is_box:
        clean = np.minimum(clean, share)
    else:
        first = loss.start[:-1]
        with np.errstate(over="ignore"):
            over = np.add.reduceat(clean, first) > share
        if not loss.floor or over.any():
            top = np.maximum.reduceat(clean, first)
            # entries relative to the largest of their group, so that no sum overflows; all alike where all are 0
            part = np.where((top > 0)[problem.group], clean, 1.0) / np.where(top > 0, top, 1.0)[problem.group]
            scaled = part * (share / np.add.reduceat(part, first))[problem.group]
            clean = np.where(over[problem.group], scaled, clean) if loss.floor else scaled
    if problem.n_biases:
        up = np.bincount(loss.bias_of, clean * (loss.bias_sign > 0), problem.n_biases)
        down = np.bincount(loss.bias_of, clean * (loss.bias_sign < 0), problem.n_biases)
        least = np.minimum(up, down)
        shrink_up = least / np.where(up > 0, up, 1.0)
        shrink_down = least / np.where(down > 0, down, 1.0)
        clean = clean * np.where(loss.bias_sign > 0, shrink_up[loss.bias_of], shrink_down[loss.bias_of])
    return np.asarray(clean)


def upper(problem: Risk, w: Vector, b: Vector | None) -> Rounded:
    """J(w, b), finite or inf, and how far the exact J may lie from it."""
    with np.errstate(all="ignore"):
        loss = problem.loss
        w = w.reshape(loss.n_outputs, -1)
        scores, depth, least = _scores(problem.X, w)
        widest, row = _width(problem)
        values = _pieces(problem, scores) + loss.offset
        constants = float(np.abs(loss.offset).max())
        if b is not None and problem.n_biases:
            values = values + loss.bias_sign * b[loss.bias_of]
            constants += float(np.abs(b).max())
        square = _square(w)
        half = 0.5 * (problem.lam * square)
        losses = problem.losses(values)
        terms = problem.shares * losses
        tiny = 2 * SHARE_UNITS * TINY
        shares = (SHARE_UNITS + 2) * UNIT * float(np.abs(terms).sum()) + tiny * float(np.abs(losses).sum())
        risk = summed(terms, shares)
        value = half + risk
        if not math.isfinite(value):
            return Rounded(math.inf)
        largest = math.sqrt(float((w * w).sum(axis=1).max()) * (1 + gamma(w.size + 2)) + w.size * TINY)
        products = gamma(int(depth.max()) + widest + 4) * row * problem.longest_row * largest + row * float(least.max())
        error = products + gamma(widest + 4) * constants + 2 * widest * TINY
        errors = float(problem.shares.sum()) * error
        if not errors <= NORMS_SERVE * abs(value):
            each = _errors(problem, w, b, depth, least, widest)
            above = problem.losses(values + each)  # at most 0, so that the loss is 0, has no rounding at all
            if not problem.is_box:
                each = np.maximum.reduceat(each, loss.start[:-1])
            if loss.floor:
                each = np.where(above > 0, each, 0.0)
            errors, error = float(problem.shares @ each), float(each.max())
        return Rounded.of(
            value, risk.allowance, errors * (1 + (SHARE_UNITS + 1) * UNIT) + tiny * (error + 1.0) * len(losses),
            0.5 * problem.lam * square.allowance, 2 * UNIT * half, UNIT * abs(value), 4 * TINY,
        )  # fmt: skip


def lower(problem: Risk, alpha: Vector) -> Rounded:
    """D at a member of Q next to ``alpha``, finite or -inf, and how far below it the exact D there may lie."""
    with np.errstate(all="ignore"):
        loss, lam = problem.loss, problem.lam
        alpha, eta, delta = enclosed(problem, member(problem, alpha))
        gains = loss.offset * alpha
        gain = float(np.abs(gains).sum())
        linear = summed(gains, UNIT * gain + len(gains) * TINY)
        a, depth, lost = _transposed(problem, alpha)
        square = _square(a)
        quadratic = 0.5 * square / lam
        value = linear - quadratic
        if not math.isfinite(value):
            return Rounded(-math.inf)
        off = gamma(depth) + delta
        error = off * _width(problem)[1] * problem.longest_row * summed(alpha, 0.0).upper + math.sqrt(a.size) * lost
        spread = error * (2.0 * math.sqrt(square.upper) + error)
        if not 0.5 * spread <= NORMS_SERVE * abs(value) * lam:
            errors = off * _magnitudes(problem, alpha) + lost
            spread = float((errors * (2.0 * np.abs(a) + errors)).sum())
        return Rounded.of(
            value, linear.allowance, eta * (abs(linear) + linear.allowance + delta * gain), delta * gain,
            0.5 * (square.allowance + spread) / lam, TINY / lam, 2 * UNIT * quadratic, UNIT * abs(value), 4 * TINY,
        )  # fmt: skip


def reason(problem: Risk) -> str:
    """One sentence on what makes the sums of ``problem`` cancel: a feature far too large, or a small lam."""
    X = problem.X
    entries = np.abs(X.data if sp.issparse(X) else X.ravel())
    entries = entries[entries > 0]
    if len(entries):
        columns = abs(X).max(axis=0).toarray().ravel() if sp.issparse(X) else np.abs(X).max(axis=0)
        j, half = int(columns.argmax()), float(np.median(entries))
        largest = float(columns[j])
        if largest > LARGE_FEATURE:
            return (
                f"feature {j} reaches {largest:.1e} where half of all entries are at most {half:.1e}: "
                "scale the features to sizes near 1"
            )
    lam, n = problem.lam, X.shape[0]
    return f"lam = {lam:.1e}, C = 1 / (lam n) = {1.0 / n / lam:.1e}, lets large terms cancel: take a larger lam"


def enclosed(problem: Risk, alpha: Vector) -> tuple[Vector, float, float]:
    """(alpha, eta, delta): alpha brought as near to Q as floats go, and the factors that bring it into Q exactly."""
    loss = problem.loss
    least = problem.shares * (1 - SHARE_UNITS * UNIT) - SHARE_UNITS * TINY
    most = problem.shares * (1 + SHARE_UNITS * UNIT) + SHARE_UNITS * TINY
    if loss.floor and (least <= 0).any():  # a share that is not known but to be tiny
        alpha = np.where((least > 0)[problem.group], alpha, 0.0)
    sums, error = _sums(problem, alpha)
    if not loss.floor:
        alpha = alpha * (problem.shares / sums)[problem.group]
        sums, error = _sums(problem, alpha)
        delta = max(
            float((most / (sums * (1 - error))).max()) - 1.0, 1.0 - float((least / (sums * (1 + error))).min()), 0.0
        )
        return alpha, 0.0, _widened(delta)
    known = least > 0
    eta = max(float((sums[known] * (1 + error) / least[known]).max(initial=0.0)) - 1.0, 0.0)
    delta = 0.0
    for j in range(problem.n_biases):
        mine = np.flatnonzero(loss.bias_of == j)
        up, down = mine[loss.bias_sign[mine] > 0], mine[loss.bias_sign[mine] < 0]
        for last in (False, True):  # `member` sums with rounding; a second time they nearly balance
            (more, first), (less, second) = _added(alpha[up]), _added(alpha[down])
            if last or not (more > 0 and less > 0):
                break
            alpha = alpha.copy()
            alpha[up if more > less else down] *= min(more, less) / max(more, less)
        if not (more > 0 and less > 0):
            alpha = np.where(loss.bias_of == j, 0.0, alpha)
            continue
        error = gamma(max(first, second) + 2)
        delta = max(delta, float(1.0 - min(more, less) * (1 - error) / (max(more, less) * (1 + error))))
    return alpha, min(_widened(eta), 1.0), _widened(delta)


def _widened(factor: float) -> float:
    """At least ``factor``, a difference of 1 and a quotient that were both rounded; NaN is read as unknown."""
    return math.inf if math.isnan(factor) else factor + 4 * UNIT if factor else 0.0


def _sums(problem: Risk, alpha: Vector) -> tuple[Vector, float]:
    """The sum of alpha >= 0 over each group, and its relative error; (G,)."""
    if problem.is_box:
        return alpha, 0.0
    start = problem.loss.start
    longest = int(np.diff(start).max())
    if longest <= LONG_GROUP:
        return np.add.reduceat(alpha, start[:-1]), gamma(longest)
    values = alpha.tolist()
    return np.array([math.fsum(values[i:j]) for i, j in zip(start[:-1].tolist(), start[1:].tolist())]), 2 * UNIT


def summed(terms: Vector, errors: float) -> Rounded:
    """The sum of ``terms``, which themselves err by ``errors`` in all."""
    value, depth = _added(terms)
    return Rounded.of(float(value), gamma(depth) * float(np.abs(terms).sum()), errors)


def _square(values: Vector) -> Rounded:
    """|values|^2."""
    squares = (values * values).ravel()
    return summed(squares, UNIT * float(squares.sum()) + len(squares) * TINY)


def gammas(n: Any) -> Vector:
    """`gamma` of each entry; (n,)."""
    return np.asarray(n * UNIT / (1.0 - n * UNIT))


# -- products with X and M, in blocks ----------------------------------------------------------------------------------


def longest_row(X: Any) -> float:
    """At least the Euclidean length of every row of X; inf where its squares overflow."""
    d = X.shape[1]
    with np.errstate(over="ignore", under="ignore"):
        if sp.issparse(X):
            filled = np.diff(X.indptr) > 0
            squares = np.add.reduceat(X.data**2, X.indptr[:-1][filled]) if filled.any() else np.zeros(1)
        else:
            squares = np.einsum("ij,ij->i", X, X)
        return math.sqrt(float(squares.max()) * (1 + gamma(d + 2)) + d * TINY) * (1 + 4 * UNIT)


def columns_in_blocks(X: Any) -> tuple[Any, int, int]:
    """(tall, blocks, depth) of a sparse X: ``tall`` is X' with a copy of its columns for each block of rows, so that
    one product gives each block sums of its own; depth: how many terms such a sum has at most."""
    n, d = X.shape
    step = max(SPARSE_BLOCK, int(n * d / max(X.nnz, 1)))  # no more sums than entries
    blocks = -(-n // step)
    place = X.indices.astype(X.indices.dtype if d * blocks <= np.iinfo(X.indices.dtype).max else np.int64)
    for block in range(1, blocks):
        place[X.indptr[block * step] : X.indptr[min((block + 1) * step, n)]] += d * block
    return sp.csc_array((X.data, place, X.indptr), shape=(d * blocks, n)), blocks, min(step, n)


def _width(problem: Risk) -> tuple[int, float]:
    """Of the rows of M: the most entries that one has, and at least the sum of the magnitudes of any."""
    combine = problem.loss.combine
    widest = int(np.diff(combine.indptr).max(initial=0))
    return widest, widest * max(float(combine.data.max(initial=0.0)), -float(combine.data.min(initial=0.0)))


def _pieces(problem: Risk, scores: Vector, positive: bool = False) -> Vector:
    """M vec S, or |M| vec S; (m,)."""
    if problem.single is None:
        combine = problem.loss.combine
        return np.asarray((abs(combine) if positive else combine) @ scores.ravel())
    factor, rows = problem.single
    own = scores.ravel() if rows is None else scores.ravel()[rows]
    return np.asarray((np.abs(factor) if positive else factor) * own)


def _in_rows(X: Vector) -> Iterator[tuple[slice, Vector]]:
    """|X| of a dense X, as many rows at a time as stay in cache; the next overwrite them."""
    step = max(1, CACHED_NUMBERS // X.shape[1])
    room = np.empty((step, X.shape[1]))
    for at in range(0, len(X), step):
        rows = slice(at, min(at + step, len(X)))
        yield rows, np.abs(X[rows], out=room[: rows.stop - at])


def _scores(X: Any, w: Vector) -> tuple[Vector, Vector, Vector]:
    """X w' (n, K), and for each row its depth and what may be lost to underflow; (n,) both."""
    deadline.check()
    n, d = X.shape
    if sp.issparse(X):
        count = np.diff(X.indptr).astype(np.float64)
        return (X @ (w.T if len(w) > 1 else w.ravel())).reshape(n, -1), count, 2 * count * TINY
    width, step = max(DENSE_BLOCK, math.isqrt(d)), max(1, CACHED_NUMBERS // d)
    scores = np.zeros((n, len(w)))
    for at in range(0, n, step):
        for j in range(0, d, width):
            scores[at : at + step] += X[at : at + step, j : j + width] @ w[:, j : j + width].T
    return scores, np.full(n, float(min(width, d) + -(-d // width))), np.full(n, 2 * d * TINY)


def _errors(problem: Risk, w: Vector, b: Vector | None, depth: Vector, least: Vector, widest: int) -> Vector:
    """err_p of each piece, by the sums |X| |w|; (m,)."""
    deadline.check()
    X, loss = problem.X, problem.loss
    if sp.issparse(X):
        size = (abs(X) @ (np.abs(w).T if len(w) > 1 else np.abs(w).ravel())).reshape(X.shape[0], -1)
    else:
        size = np.concatenate([rows @ np.abs(w).T for _, rows in _in_rows(X)])
    errors = _pieces(problem, gammas(depth + widest + 4)[:, None] * size + least[:, None], positive=True)
    constants = np.abs(loss.offset)
    if b is not None and problem.n_biases:
        constants = constants + np.abs(b[loss.bias_of])
    return np.asarray(errors + gamma(widest + 4) * constants + 2 * widest * TINY)


def _transposed(problem: Risk, alpha: Vector) -> tuple[Vector, int, float]:
    """A' alpha (d, K), the depth, and what may be lost to underflow."""
    deadline.check()
    X, combine, k = problem.X, problem.loss.combine, problem.loss.n_outputs
    if problem.single is not None and problem.single[1] is None:
        part, often = problem.single[0] * alpha, 1
    else:
        part, often = np.asarray(combine.T @ alpha), int(np.bincount(combine.indices).max(initial=0))
    part = part.reshape(-1, k)
    if sp.issparse(X):
        tall, blocks, adds = problem.columns_in_blocks
        a, depth = _added((tall @ (part if k > 1 else part[:, 0])).reshape(blocks, X.shape[1], k))
        depth += adds
    else:
        a, depth = _dense_columns(X, part)
    lost = 2.0 * X.shape[0] * TINY
    if (np.abs(combine.data) != 1.0).any():  # else the products with M are exact
        largest = float(np.abs(X.data if sp.issparse(X) else X).max(initial=0.0))
        lost += 2.0 * X.shape[0] * often * TINY * max(largest, 1.0)
    return a, depth + often + 2, lost


def _magnitudes(problem: Risk, alpha: Vector) -> Vector:
    """|X|' |M|' alpha, for alpha >= 0; (d, K)."""
    deadline.check()
    X, k = problem.X, problem.loss.n_outputs
    size = np.asarray(abs(problem.loss.combine).T @ alpha).reshape(-1, k)
    if sp.issparse(X):
        return np.asarray(abs(X).T @ (size if k > 1 else size.ravel())).reshape(-1, k)
    found = np.zeros((X.shape[1], k))
    for at, rows in _in_rows(X):
        found += rows.T @ size[at]
    return found


def _dense_columns(X: Vector, part: Vector) -> tuple[Vector, int]:
    """X' part, (d, K), and how deep its sums are."""
    n = len(X)
    found, depth = _paired(X[at : at + DENSE_BLOCK].T @ part[at : at + DENSE_BLOCK] for at in range(0, n, DENSE_BLOCK))
    return found, min(DENSE_BLOCK, n) + depth


def _added(terms: Vector) -> tuple[Any, int]:
    """The sum over the first axis, by halves, and how often a term is added to another."""
    if len(terms) == 0:
        return 0.0, 0
    depth = 0
    while len(terms) > 1:
        half, odd = divmod(len(terms), 2)
        added = terms[:half] + terms[half : 2 * half]
        if odd:
            added[0] += terms[-1]
        terms, depth = added, depth + 1 + odd
    return terms[0], depth


def _paired(terms: Iterator[Vector]) -> tuple[Vector, int]:
    """The same of terms that come one by one: what is kept at place i is a sum of 2^i of them."""
    kept: list[Vector | None] = []
    for new in terms:
        carried, i = new, 0
        while i < len(kept) and (held := kept[i]) is not None:
            carried, kept[i] = held + carried, None
            i += 1
        if i == len(kept):
            kept.append(None)
        kept[i] = carried
    rest = [held for held in kept if held is not None]
    found = rest[0]
    for held in rest[1:]:
        found = found + held
    return found, 2 * len(kept)
