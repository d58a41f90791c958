r"""Newton's matrix of groups of several pieces, as a matrix, by its rows or by its products, and a preconditioner.

    lam I + sum_g (p_g / tau) A_g' P_g A_g

P_g takes the free pieces of group g, less their mean where the group is tight. A product leaves out the pieces that
are not free where they are many, and the scores without curvature: that of the label cancels in a tight group, for each
piece takes it once. Conjugate gradients are preconditioned

* by the block of each output, where X is dense and has few features: near an optimum the blocks differ, for each output
  has its own rows;
* there by one block for all outputs where nearly all rows take part in every output, as at the start: its rows'
  weights are the means over the outputs;
* else by the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.families.regularized_risk.solvers.semismooth_newton.cells import Cells
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import Smoothed, SmoothedRisk

#: Features up to which conjugate gradients on several outputs are preconditioned by the block of each output: to make
#: the blocks takes as long as a quarter as many steps.
LARGEST_BLOCK = 200
#: One block serves all outputs where at least this share of all pairs of a row and an output takes part.
SHARED_BLOCK = 0.75
#: Ridge on the blocks of the preconditioner, scaled to a diagonal of ones. The curvature of a score counts as 0 below
#: this share of that without the means: both are above the rounding of sums.
BLOCK_RIDGE = 1e-9


def grouped_matrix(risk: SmoothedRisk, point: Smoothed, free: Index, tau: float) -> Matrix:
    """sum_g (p_g / tau) A_g' P_g A_g for groups of several pieces, (dimension, dimension), by pairs of outputs."""
    k = risk.n_outputs
    if risk.table is not None:
        centred = _centring(point, risk.group[free])
        B = centred(risk.table[free]) * np.sqrt(risk.share[free] / tau)[:, None]
        return np.asarray(B.T @ B)
    picked, group, share, sums = _free_pieces(risk, point, free)
    each = risk.share_each / tau * share
    weighted = sp.csr_array(picked.multiply((risk.share[free] / tau)[:, None]))
    score = sp.coo_array(picked.T @ weighted - sums.T @ sp.csr_array(sums.multiply(each[:, None])))
    example, left = np.divmod(score.row, k)
    other, right = np.divmod(score.col, k)
    if k == 1 and (example != other).any():  # some group takes several rows of X
        B, total = (part.toarray() if sp.issparse(part) else part for part in (picked @ risk.X, sums @ risk.X))
        B = (B - (total * share[:, None])[group]) * np.sqrt(risk.share[free] / tau)[:, None]
        return np.asarray(B.T @ B)
    d = risk.X.shape[1]
    whole = np.zeros((k, d, k, d))
    for i in range(k):
        for j in range(i, k):
            at = np.flatnonzero((left == i) & (right == j) & (score.data != 0))
            if len(at) == 0:
                continue
            X = risk.X[example[at]]
            part = X.multiply(score.data[at, None]) if sp.issparse(X) else X * score.data[at, None]
            product = X.T @ part
            whole[i, :, j, :] = product.toarray() if sp.issparse(product) else product
            if i != j:
                whole[j, :, i, :] = whole[i, :, j, :].T
    return whole.reshape(k * d, k * d)


def grouped_rows(
    risk: SmoothedRisk, point: Smoothed, free: Index, tau: float
) -> tuple[Matrix, Callable[[Vector], Vector], Callable[[Vector], Vector]]:
    """(B B', r -> B r, u -> B' u) with B'B the sum of `grouped_matrix`: B = (p / tau)^(1/2) P A, (m, dimension).

    Each piece takes outputs of one row of X, so that an entry of A A' is a product of two inner products: that of the
    rows, and that of the factors of the outputs.
    """
    k, group = risk.n_outputs, risk.group[free]
    picked = _combined(risk, free)
    example, output = np.divmod(picked.indices, k)
    used, place = np.unique(example, return_inverse=True)
    X = risk.X if len(used) == risk.X.shape[0] else risk.X[used]
    picked = sp.csr_array((picked.data, place * k + output, picked.indptr), shape=(len(free), len(used) * k))
    outputs = sp.csr_array((picked.data, output, picked.indptr), shape=(len(free), k)).toarray()
    row = place[picked.indptr[:-1]]
    root, centred = np.sqrt(risk.share[free] / tau), _centring(point, group)
    product = X @ X.T
    product = np.asarray(product.toarray() if sp.issparse(product) else product)
    square = product[row[:, None], row]
    square *= outputs @ outputs.T
    square = centred(centred(square).T) * root
    square *= root[:, None]
    back = sp.csr_array(picked.T)

    def forward(right: Vector) -> Vector:
        values = picked @ np.asarray(X @ right.reshape(k, -1).T).ravel()
        return root * centred(values[:, None])[:, 0]

    def adjoint(u: Vector) -> Vector:
        part = back @ centred((root * u)[:, None])[:, 0]
        return np.asarray(X.T @ part.reshape(-1, k)).T.ravel()

    return square, forward, adjoint


def _centring(point: Smoothed, group: Index) -> Callable[[Matrix], Matrix]:
    """rows -> P rows: a row a free piece, of the groups ``group``, less their mean where the group is tight."""
    first = np.flatnonzero(np.diff(group, prepend=-1))
    sizes = np.diff(first, append=len(group))
    share = np.zeros(len(first)) if point.tight is None else point.tight[group[first]] / sizes
    share, member = share[:, None], np.repeat(np.arange(len(first)), sizes)
    return lambda rows: np.asarray(rows - (share * np.add.reduceat(rows, first))[member])


def _free_pieces(risk: SmoothedRisk, point: Smoothed, free: Index) -> tuple[sp.csr_array, Index, Vector, sp.csr_array]:
    """(rows of M, their groups, 1 / the number of free pieces of each tight group or 0, the sums of rows by group)."""
    m, groups = len(free), len(risk.first)
    picked, group = _combined(risk, free), risk.group[free]
    count = np.maximum(np.bincount(group, minlength=groups), 1.0)
    share = np.zeros(groups) if point.tight is None else np.where(point.tight, 1.0 / count, 0.0)
    ends = np.searchsorted(group, np.arange(groups + 1))
    sums = sp.csr_array((np.ones(m), np.arange(m), ends), shape=(groups, m)) @ picked
    return picked, group, share, sums


def grouped_product(
    risk: SmoothedRisk, point: Smoothed, free: Index, tau: float
) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector]]:
    """p -> (lam I + sum_g (p_g / tau) A_g' P_g A_g) p, and a preconditioner."""
    k, lam = risk.n_outputs, risk.lam
    pieces = free if 2 * len(free) <= len(point.free) else np.arange(len(point.free))  # those not free get weight 0
    forward, adjoint, combine, X = _map(risk, pieces)
    moving = point.free[pieces].astype(np.float64)
    group = risk.group[pieces]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    used, group = group[starts], np.repeat(np.arange(len(starts)), np.diff(starts, append=len(pieces)))
    share = np.zeros(len(used))
    if point.tight is not None:
        share = point.tight[used] / np.maximum(np.add.reduceat(moving, starts), 1.0)
    weight = risk.share[pieces] / tau * moving

    squared = sp.csr_array((combine.data**2, combine.indices, combine.indptr), shape=combine.shape).T
    whole_squares = squared @ weight
    # all pieces that take a score are of one group: the mean over them of what a group has is that of this group
    means = squared @ (risk.share_each[used] / tau * share)[group]
    means /= np.where(means > 0, squared @ np.ones(len(pieces)), 1.0)
    squares = np.maximum(whole_squares - means * (combine.T @ moving) ** 2, 0.0)
    if isinstance(X, Cells):
        kept = squares > BLOCK_RIDGE * whole_squares
        if not kept.all():
            X, squares = X.only(kept), squares[kept]
            forward, adjoint = X.forward, X.adjoint

    def times(p: Vector) -> Vector:
        values = forward(p)
        mean = share * np.add.reduceat(moving * values, starts)
        found = adjoint(weight * (values - mean[group]))
        found += lam * p
        return found

    if sp.issparse(risk.X) or risk.X.shape[1] > LARGEST_BLOCK or k == 1:
        scale = lam + score_diagonal(X, squares, k)
        return times, lambda right: right / scale
    return times, _blocks(X, squares, k, lam)


def score_diagonal(X: Any, squares: Vector, k: int) -> Vector:
    """That of A' squares A, (dimension,), for the scores of Cells or of all outputs of the rows of X."""
    if isinstance(X, Cells):
        return np.concatenate([squares[place] @ part**2 for part, place in zip(X.parts, X.places)])
    entries = sp.csr_array((X.data**2, X.indices, X.indptr), shape=X.shape) if sp.issparse(X) else X * X
    return np.asarray(entries.T @ squares.reshape(-1, k)).T.ravel()


def _combined(risk: SmoothedRisk, pieces: Index) -> sp.csr_array:
    """The rows of M of these pieces."""
    if risk.combine is not None:
        return risk.combine if len(pieces) == risk.combine.shape[0] else risk.combine[pieces]
    rows = pieces if risk.rows is None else risk.rows[pieces]
    return sp.csr_array((risk.factor[pieces], rows, np.arange(len(pieces) + 1)), shape=(len(pieces), risk.X.shape[0]))


def _map(
    risk: SmoothedRisk, pieces: Index
) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector], sp.csr_array, Any]:
    """A and A' of these pieces, M by the scores that are computed, and which these are: Cells, or the rows of X of
    which all outputs are."""
    k, combine = risk.n_outputs, _combined(risk, pieces)
    whole = len(pieces) == len(risk.share)
    cells = risk.cells if whole else Cells.of(risk.X, combine, k)
    if cells is not None:
        return cells.forward, cells.adjoint, cells.combine, cells
    if whole:
        return risk.forward, risk.adjoint, combine, risk.X
    X = risk.X
    used = np.flatnonzero(np.bincount(combine.indices // k, minlength=X.shape[0]))
    if len(used) < X.shape[0]:
        X, combine = X[used], combine[:, (used[:, None] * k + np.arange(k)).ravel()]
    back, columns = sp.csr_array(combine.T), X.T

    def forward(w: Vector) -> Vector:
        return np.asarray(combine @ np.asarray(X @ w.reshape(k, -1).T).ravel())

    def adjoint(alpha: Vector) -> Vector:
        return np.asarray(columns @ (back @ alpha).reshape(-1, k)).T.ravel()

    return forward, adjoint, combine, X


def _blocks(X: Any, squares: Vector, k: int, lam: float) -> Callable[[Vector], Vector]:
    """right -> the inverse of the diagonal blocks of lam I + A' squares A, one an output, times ``right``; or of one
    block for all outputs (`SHARED_BLOCK`)."""
    if isinstance(X, Cells):
        parts = [part * np.sqrt(squares[each])[:, None] for part, each in zip(X.parts, X.places)]
    else:
        table = squares.reshape(-1, k)
        if np.count_nonzero(table) >= SHARED_BLOCK * table.size:
            table = table.mean(axis=1, keepdims=True)
        parts = []
        for each in table.T:
            rows = np.flatnonzero(each)
            parts.append(X[rows] * np.sqrt(each[rows])[:, None])
    d = parts[0].shape[1]
    inverse = np.empty((len(parts), d, d))
    for part, block in zip(parts, inverse):
        np.dot(part.T, part, out=block)
    diagonal = np.einsum("kii->ki", inverse)
    unit = 1.0 / np.sqrt(diagonal + lam)[:, :, None]
    inverse *= unit
    inverse *= unit.transpose(0, 2, 1)
    diagonal += lam * unit[:, :, 0] ** 2 + BLOCK_RIDGE
    for block in inverse:
        lower, failed = lapack.dpotrf(block, lower=1, clean=1)
        if not failed:
            lower, failed = lapack.dtrtri(lower, lower=1, overwrite_c=1)
        block[:] = np.eye(d) if failed else lower
    inverse = inverse.transpose(0, 2, 1) @ inverse
    if len(parts) == 1:
        one = unit[0] * inverse[0] * unit[0].T
        return lambda right: np.asarray(right.reshape(k, d) @ one).ravel()
    return lambda right: np.asarray(unit * (inverse @ (unit * right.reshape(k, d, 1)))).ravel()
