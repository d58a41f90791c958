"""Sums over the rows and columns of X for the bounds of a regularised risk, each with its depth.

The depth of a sum is the largest number of roundings that any of its terms passes: the error is at most gamma(depth)
times the sum of the magnitudes. Long sums are taken in blocks, whose sums are then added in pairs, so that the depth is
that of a block and a few levels more, not the number of examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Index, Matrix, Tensor, Vector
from convexstruct.families.regularized_risk.losses import PiecewiseLoss
from convexstruct.rounding import TINY, UNIT, gamma

#: Rows of X, dense or sparse, in one block of a sum over rows. The rounding grows with this number; smaller blocks take
#: more time. A block of a sum over columns has at least half as many columns.
DENSE_BLOCK = SPARSE_BLOCK = 128
#: Entries of a dense X that are processed together, so that they are still in the processor's cache (256 KiB).
CACHED_NUMBERS = 1 << 15


class Risk(Protocol):
    """The members of `RegularizedRisk` that the bounds use; they are explained there."""

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
    def row_norms(self) -> Vector: ...

    @property
    def columns_in_blocks(self) -> tuple[Any, int, int]: ...

    def losses(self, values: Vector) -> Vector: ...


def row_norms(X: Any) -> Vector:
    """At least the Euclidean length of each row of X; inf where its squares overflow; (n,)."""
    n, d = X.shape
    with np.errstate(over="ignore", under="ignore"):
        if sp.issparse(X):
            squares, filled = np.zeros(n), np.diff(X.indptr) > 0
            if filled.any():
                squares[filled] = np.add.reduceat(X.data * X.data, X.indptr[:-1][filled])
        else:
            squares = np.einsum("ij,ij->i", X, X)
        return np.asarray(np.sqrt(squares * (1 + gamma(d + 8)) + d * TINY) * (1 + 4 * UNIT))


def piece_norms(problem: Risk) -> Vector:
    """R_p: at least the Euclidean length of every row of X that piece p takes; (m,)."""
    norms = problem.row_norms
    if problem.single is None:
        return np.full(len(problem.loss.offset), float(norms.max()))
    return norms if problem.single[1] is None else norms[problem.single[1]]


def largest_of_groups(problem: Risk, each: Vector) -> Vector:
    """The largest of each group's pieces; (G,)."""
    return each if problem.is_box else np.asarray(np.maximum.reduceat(each, problem.loss.start[:-1]))


def active_shares(problem: Risk, above: Vector | None) -> Vector:
    """The share of each group; 0 where ``above`` is not above 0; (G,)."""
    return problem.shares if above is None else np.where(above > 0, problem.shares, 0.0)


def columns_in_blocks(X: Any) -> tuple[Any, int, int]:
    """(tall, blocks, depth) of a sparse X.

    tall : X' of each block of rows, zero elsewhere, on top of each other: one product gives the sums of all blocks.
    depth : the most terms of such a sum.
    """
    n, d = X.shape
    step = max(SPARSE_BLOCK, int(n * d / max(X.nnz, 1)))  # no more sums than entries
    blocks = -(-n // step)
    place = X.indices.astype(X.indices.dtype if d * blocks <= np.iinfo(X.indices.dtype).max else np.int64)
    ends = [*X.indptr[::step].tolist(), X.nnz][: blocks + 1]
    for block in range(1, blocks):
        place[ends[block] : ends[block + 1]] += d * block
    return sp.csc_array((X.data, place, X.indptr), shape=(d * blocks, n)), blocks, min(step, n)


def widths(problem: Risk) -> tuple[int, float]:
    """Of the rows of M: the most entries of one, and an upper bound on the sum of magnitudes of any."""
    combine = problem.loss.combine
    widest = int(np.diff(combine.indptr).max(initial=0))
    return widest, widest * max(float(combine.data.max(initial=0.0)), -float(combine.data.min(initial=0.0)))


def piece_values(problem: Risk, scores: Matrix, positive: bool = False) -> Vector:
    """M vec S, or |M| vec S; (m,)."""
    if problem.single is None:
        combine = problem.loss.combine
        return np.asarray((abs(combine) if positive else combine) @ scores.ravel())
    factor, rows = problem.single
    own = scores.ravel() if rows is None else scores.ravel()[rows]
    return np.asarray((np.abs(factor) if positive else factor) * own)


def _in_rows(X: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """|X| of a dense X, as many rows at a time as stay in cache. Each array is overwritten by the next."""
    step = max(1, CACHED_NUMBERS // X.shape[1])
    room = np.empty((step, X.shape[1]))
    for at in range(0, len(X), step):
        rows = slice(at, min(at + step, len(X)))
        yield rows, np.abs(X[rows], out=room[: rows.stop - at])


def scores_at_once(X: Any, w: Matrix) -> tuple[Matrix, Vector, Vector]:
    """X w' (n, K) by one call; and, (n,) each, the depth and a bound on the error by underflow."""
    deadline.check()
    n, d = X.shape
    depth = np.diff(X.indptr).astype(np.float64) if sp.issparse(X) else np.full(n, float(d))
    return (X @ (w.T if len(w) > 1 else w.ravel())).reshape(n, -1), depth, 2 * depth * TINY


def scores_in_blocks(X: Matrix, w: Matrix) -> tuple[Matrix, Vector, Vector]:
    """The same of a dense X in blocks of columns, whose depth is less."""
    deadline.check()
    n, d = X.shape
    width = max(DENSE_BLOCK // 2, math.isqrt(d))
    step = max(1, CACHED_NUMBERS // min(width, d))
    scores = np.zeros((n, len(w)))
    for at in range(0, n, step):
        for j in range(0, d, width):
            scores[at : at + step] += X[at : at + step, j : j + width] @ w[:, j : j + width].T
    return scores, np.full(n, float(min(width, d) + -(-d // width))), np.full(n, 2 * d * TINY)


def piece_errors(problem: Risk, w: Matrix, b: Vector | None, depth: Vector, least: Vector, widest: int) -> Vector:
    """err_p of each piece (`bounds`), by the sums |X| |w|; (m,)."""
    deadline.check()
    X, loss = problem.X, problem.loss
    if sp.issparse(X):
        size = (abs(X) @ (np.abs(w).T if len(w) > 1 else np.abs(w).ravel())).reshape(X.shape[0], -1)
    else:
        size = np.concatenate([rows @ np.abs(w).T for _, rows in _in_rows(X)])
    errors = piece_values(problem, gammas(depth + widest + 4)[:, None] * size + least[:, None], positive=True)
    constants = np.abs(loss.offset)
    if b is not None and problem.n_biases:
        constants = constants + np.abs(b[loss.bias_of])
    return np.asarray(errors + gamma(widest + 4) * constants + 2 * widest * TINY)


def transposed(problem: Risk, alpha: Vector) -> tuple[Matrix, int, float]:
    """A' alpha (d, K), the depth, and a bound on the error by underflow."""
    deadline.check()
    X, combine, k = problem.X, problem.loss.combine, problem.loss.n_outputs
    if problem.single is not None and problem.single[1] is None:
        part, often = problem.single[0] * alpha, 1
    else:
        part, often = np.asarray(combine.T @ alpha), int(np.bincount(combine.indices).max(initial=0))
    part = part.reshape(-1, k)
    if sp.issparse(X):
        tall, blocks, adds = problem.columns_in_blocks
        a, depth = added((tall @ (part if k > 1 else part[:, 0])).reshape(blocks, X.shape[1], k))
        depth += _most_used(part, adds)
    else:
        a, depth = _dense_columns(X, part)
    lost = 2.0 * X.shape[0] * TINY
    if (np.abs(combine.data) != 1.0).any():  # else the products with M are exact
        largest = float(np.abs(X.data if sp.issparse(X) else X).max(initial=0.0))
        lost += 2.0 * X.shape[0] * often * TINY * max(largest, 1.0)
    return a, depth + often + 2, lost


def magnitudes(problem: Risk, alpha: Vector) -> Matrix:
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


def _dense_columns(X: Matrix, part: Matrix) -> tuple[Matrix, int]:
    """X' part, (d, K), and the depth of its sums."""
    n = len(X)
    found, depth = _paired(X[at : at + DENSE_BLOCK].T @ part[at : at + DENSE_BLOCK] for at in range(0, n, DENSE_BLOCK))
    return found, _most_used(part, DENSE_BLOCK) + depth


def _most_used(part: Matrix, step: int) -> int:
    """Of the blocks of ``step`` rows of ``part`` (n, K), the most rows in one that are not 0: products with the others
    are exactly 0."""
    used = part[:, 0] != 0 if part.shape[1] == 1 else (part != 0).any(axis=1)
    return int(np.add.reduceat(used.astype(np.int64), np.arange(0, len(used), step)).max(initial=0))


def added(terms: Tensor) -> tuple[Any, int]:
    """The sum over the first axis, by halves, and its depth."""
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


def _paired(terms: Iterator[Matrix]) -> tuple[Matrix, int]:
    """As `added`, of terms that come one by one: ``kept[i]`` is a sum of 2^i of them."""
    kept: list[Matrix | None] = []
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


def gammas(n: Any) -> Vector:
    """`gamma` of each entry; (n,)."""
    return np.asarray(n * UNIT / (1.0 - n * UNIT))


def matrix(combine: sp.csr_array, X: Any, n_outputs: int) -> Any:
    """A (m, dimension) of the scores' pieces ``combine``, w flattened row by row: sparse, unless X is dense and has one
    output."""
    if n_outputs == 1:
        product = combine @ X
        return sp.csr_array(product) if sp.issparse(X) else np.asarray(product)
    d = X.shape[1]
    wide = sp.kron(sp.csr_array(X), sp.identity(n_outputs), format="csr")  # column (feature, output)
    order = np.arange(d * n_outputs).reshape(d, n_outputs).T.ravel()
    return sp.csr_array((sp.csr_array(combine @ wide))[:, order])
