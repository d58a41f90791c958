r"""Newton's direction for a smoothed risk (`smoothed_risk`), by the cheaper of two ways.

    (lam I + sum_g (p_g / tau) A_g' P_g A_g) s_w + H_wb s_b = - F_w,        H_wb' s_w + H_bb s_b = - F_b

* **matrix**, factored by Cholesky: that of the features, or lam I + B B' over the rows B of the free pieces where these
  are far fewer (Woodbury);
* **conjugate gradients**, where both are many; preconditioned with sparse features by the diagonal, and with groups of
  several pieces as `groups` says. They end when the residual is a tenth of the first: the next direction
  corrects the rest.

`direction` takes a matrix where it takes less work than conjugate gradients, counted in multiplications.

Where rounding leaves a direction along which F does not fall, conjugate gradients replace it. The free offsets b are
eliminated last, for their block is diagonal; an offset of which no piece moves gets a small ridge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from convexstruct import deadline
from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.core.cholesky import solver
from convexstruct.families.regularized_risk.solvers.semismooth_newton.cells import CELLS_SHARE
from convexstruct.families.regularized_risk.solvers.semismooth_newton.groups import (
    grouped_matrix,
    grouped_product,
    grouped_rows,
    score_diagonal,
)
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import Smoothed, SmoothedRisk

#: Work is counted in multiplications of a dense matrix with a vector. One in a product of two dense matrices, whose
#: blocks stay in cache, counts as a quarter; one of a sparse matrix, whose entries are looked up, as five. The calls of
#: NumPy in a step of conjugate gradients count as 1e5: 10 microseconds.
DENSE_PRODUCT, SPARSE_ENTRY, STEP_WORK = 0.25, 5.0, 1e5
#: Woodbury's formula is used where the free rows are at most this share of the entries of w: it subtracts vectors that
#: nearly agree where the matrix is large beside lam, and with more rows saves little. With several outputs it saves
#: more, for the matrix of the features is made of many small ones; there it is not used beyond a trace over lam.
ROWS_SHARE, OUTPUTS_SHARE, OUTPUTS_TRACE = 0.25, 0.5, 1e10
#: Conjugate gradients end when the residual has fallen by this factor, or after so many steps.
RESIDUAL_FALL, GRADIENT_STEPS = 0.1, 250
#: Rows beyond which the matrix is not formed, a guard of memory: it takes 72 MB then.
LARGEST_MATRIX = 3000
#: Ridge on the free offsets, relative to the weight of their pieces, so that an offset of which no piece moves has one
#: too.
RIDGE = 1e-9


@dataclass
class Effort:
    """The work of the directions so far, by which the way of computing the next one is chosen.

    expected : conjugate gradient steps that the next one is expected to take: as many as the last one took.
    steps : Newton steps of this proximal step so far.
    """

    expected: float = 5.0
    steps: int = 0


def direction(risk: SmoothedRisk, point: Smoothed, tau: float, effort: Effort) -> tuple[Vector, Vector]:
    """Newton's direction (s_w, s_b) at ``point``: by a matrix where that is less work, else by conjugate gradients."""
    free = np.flatnonzero(point.free)
    masked = risk.combine is not None or not risk.box or 2 * len(free) > risk.X.shape[0]
    gradients = effort.expected * _step_work(risk, len(free), masked)
    if _matrix_work(risk, free) < gradients:
        effort.expected *= 0.9  # so that conjugate gradients are tried again when fewer pieces are free
        factored = _factored(risk, point, free, tau)
        if factored is not None:
            s_w, s_b = _with_offsets(risk, point, free, tau, *factored)
            if float(point.slope_w @ s_w) + float(point.slope_b @ s_b) < 0:
                return s_w, s_b  # else F does not fall along it, by rounding
    return _conjugate_gradients(risk, point, tau, None if masked else free, effort)


def _rows_suffice(risk: SmoothedRisk, free: Index) -> bool:
    """Whether B B' over the free rows stands for B'B: each is a group, and they are so few (`ROWS_SHARE`)."""
    one = risk.box and risk.combine is None and risk.n_outputs == 1
    return one and len(free) <= ROWS_SHARE * risk.dimension


def _outputs_suffice(risk: SmoothedRisk, free: Index) -> bool:
    """The same for pieces of several outputs (`grouped_rows`)."""
    return risk.n_outputs > 1 and len(free) <= OUTPUTS_SHARE * risk.dimension


def _matrix_work(risk: SmoothedRisk, free: Index) -> float:
    """Work to make and to factor the matrix, inf where it is too large."""
    m, k, d = len(free), risk.n_outputs, risk.dimension
    pairs_suffice = _outputs_suffice(risk, free)
    size = m if pairs_suffice or _rows_suffice(risk, free) else d
    if size > LARGEST_MATRIX:
        return np.inf
    sparse = sp.issparse(risk.X)
    per = risk.X.nnz / risk.X.shape[0] if sparse else float(risk.X.shape[1])
    product = SPARSE_ENTRY if sparse else DENSE_PRODUCT
    if pairs_suffice:
        return m * m * (product * per + DENSE_PRODUCT * k + SPARSE_ENTRY) + DENSE_PRODUCT * m**3 / 3
    pairs = float(m)
    if k > 1 and m:  # outputs that meet in a group: those of its free pieces, and of the label
        count = np.bincount(risk.group[free])
        outputs = np.minimum(count[count > 0] + 1.0, k)
        pairs = float(outputs @ (outputs + 1.0)) / 2.0
    return product * pairs * per * per * size / d + DENSE_PRODUCT * size**3 / 3


def _step_work(risk: SmoothedRisk, m: int, masked: bool) -> float:
    """Work of one step of conjugate gradients: two products with the rows of X that take part."""
    rows, columns = risk.X.shape
    if risk.n_outputs > 1 and not sp.issparse(risk.X):
        taken = 2 * m if risk.cells is None else int(risk.cells.ends[-1])
        if taken <= CELLS_SHARE * risk.n_outputs * rows:
            return 2.0 * float(taken * columns) + STEP_WORK
    per = SPARSE_ENTRY * risk.X.nnz / rows if sp.issparse(risk.X) else columns
    return 2.0 * float(per) * risk.n_outputs * (rows if masked else m) + STEP_WORK


def _rows(risk: SmoothedRisk, pieces: Index) -> tuple[Any, Vector]:
    """The rows of X that ``pieces`` of one score each take, and their factors."""
    return risk.X[pieces if risk.rows is None else risk.rows[pieces]], risk.factor[pieces]


def _factored(
    risk: SmoothedRisk, point: Smoothed, free: Index, tau: float
) -> tuple[Callable[[Vector], Vector], Matrix] | None:
    """(right -> H_ww^-1 right, H_wb); None where the trace is above `OUTPUTS_TRACE`."""
    lam, mixed = risk.lam, np.zeros((risk.dimension, risk.n_biases))
    if len(free) == 0:
        return (lambda right: right / lam), mixed
    if _outputs_suffice(risk, free):
        square, forward, adjoint = grouped_rows(risk, point, free, tau)
        if not np.trace(square) <= OUTPUTS_TRACE * lam:
            return None
        inner = _with_ridge(square, lam)
        return (lambda right: (right - adjoint(inner(forward(right)))) / lam), mixed
    if risk.combine is not None or not risk.box:
        return _with_ridge(grouped_matrix(risk, point, free, tau), lam), mixed
    weight = risk.share[free] / tau
    X, factor = _rows(risk, free)
    if risk.n_biases:
        sign = weight * factor * risk.sign[free]
        for j in range(risk.n_biases):
            mixed[:, j] = X.T @ np.where(risk.of[free] == j, sign, 0.0)
    scaled = np.sqrt(weight) * factor
    dual = _rows_suffice(risk, free)
    if sp.issparse(X):
        B: Any = sp.csr_array(X.multiply(scaled[:, None]))
        square = (B @ B.T if dual else B.T @ B).toarray()
    elif not dual and np.ptp(np.abs(scaled)) == 0:
        square = blas.dsyrk(float(scaled[0] ** 2), X.T, lower=1)
    else:
        B = X * scaled[:, None]
        square = blas.dsyrk(1.0, B.T, trans=1 if dual else 0, lower=1)
    solve = _with_ridge(square, lam)
    if not dual:
        return solve, mixed
    return (lambda right: np.asarray((right - B.T @ solve(np.asarray(B @ right))) / lam)), mixed


def _with_ridge(square: Matrix, lam: float) -> Callable[[Vector], Vector]:
    """right -> (square + lam I)^-1 right; ``square`` is changed in place. It is scaled to a diagonal of ones, so that a
    ridge, where `solver` adds one, is small beside the diagonal of small features too."""
    diagonal = np.einsum("ii->i", square)
    diagonal += lam
    unit = 1.0 / np.sqrt(diagonal)
    square *= unit
    square *= unit[:, None]
    solve = solver(square)
    return lambda right: unit * solve(unit * right)


def offset_weights(risk: SmoothedRisk, free: Index, tau: float) -> Vector:
    """The diagonal H_bb with its ridge."""
    moving = np.bincount(risk.of[free], weights=risk.share[free], minlength=risk.n_biases) / tau
    whole = np.bincount(risk.of, weights=risk.share, minlength=risk.n_biases) / tau
    whole[whole == 0] = 1.0 / tau  # all of its pieces are held
    return np.asarray(moving + RIDGE * whole)


def _with_offsets(
    risk: SmoothedRisk,
    point: Smoothed,
    free: Index,
    tau: float,
    solve: Callable[[Vector], Vector],
    mixed: Matrix,
) -> tuple[Vector, Vector]:
    """(s_w, s_b) by eliminating s_w; ``solve`` applies H_ww^-1, ``mixed`` is H_wb."""
    if not risk.n_biases:
        return solve(-point.slope_w), np.zeros(0)
    found = np.column_stack([solve(np.ascontiguousarray(column)) for column in (-point.slope_w, *mixed.T)])
    weights = offset_weights(risk, free, tau)
    schur = np.diag(weights) - mixed.T @ found[:, 1:]
    least = RIDGE * weights
    schur[np.arange(len(least)), np.arange(len(least))] += least
    s_b: Vector = np.asarray(np.linalg.solve(schur, -point.slope_b - mixed.T @ found[:, 0]), dtype=np.float64)
    return found[:, 0] - found[:, 1:] @ s_b, s_b


def _conjugate_gradients(
    risk: SmoothedRisk, point: Smoothed, tau: float, free: Index | None, effort: Effort
) -> tuple[Vector, Vector]:
    """(s_w, s_b), s_b eliminated; products take the rows ``free`` if given, else all rows, of which a mask drops some.

    Without the elimination a residual in b would count by H_bb, far above the curvature that is left when w moves with
    b: along a w and a b that cancel in every free row, F would hardly fall in any number of Newton steps.
    """
    q, moving = risk.n_biases, np.flatnonzero(point.free)
    offsets = offset_weights(risk, moving, tau) if q else np.zeros(0)
    none = np.zeros(0)
    if risk.sharded is None and (risk.combine is not None or not risk.box):
        grouped, precondition = grouped_product(risk, point, moving, tau)

        def times(p: Vector) -> tuple[Vector, Vector]:  # the image of p, and the b that goes with p
            return grouped(p), none
    else:
        if free is not None:
            X, factor = _rows(risk, free)
            weight, columns = risk.share[free] * factor**2 / tau, X.T
            signs, of = (risk.sign[free] / factor, risk.of[free]) if q else (none, risk.of)

            def times(p: Vector) -> tuple[Vector, Vector]:
                scores = X @ p
                if not q:
                    return risk.lam * p + columns @ (weight * scores), none
                b = -np.bincount(of, weight * signs * scores, q) / offsets
                return risk.lam * p + columns @ (weight * (scores + signs * b[of])), b

            bend = score_diagonal(X, weight, 1) if sp.issparse(X) else np.zeros(risk.dimension)
        else:
            scale = risk.share / tau

            def times(p: Vector) -> tuple[Vector, Vector]:
                u = scale * risk.derivative(point.free, point.tight, risk.forward(p))
                b = -risk.balance(u) / offsets if q else none
                u = u + np.where(point.free, scale * risk.lift(b), 0.0) if q else u
                return risk.lam * p + risk.adjoint(u), b

            masked = np.where(point.free, scale, 0.0)
            bend = _masked_diagonal(risk, masked) if sp.issparse(risk.X) else np.zeros(risk.dimension)
        inverse = 1.0 / (risk.lam + bend)

        def precondition(residual: Vector) -> Vector:
            return inverse * residual

    step, residual, s_b = np.zeros(risk.dimension), -point.slope_w, np.zeros(q)
    if point.slope_b.any():
        s_b = -point.slope_b / offsets
        residual -= risk.adjoint(np.where(point.free, risk.share / tau * risk.lift(s_b), 0.0))
    z = precondition(residual)
    p = z
    rz = float(residual @ z)
    stop, taken = RESIDUAL_FALL**2 * rz, 0
    for _ in range(GRADIENT_STEPS):
        deadline.check()
        taken += 1
        image, b = times(p)
        curvature = float(p @ image)
        if not curvature > 0:  # the residual is 0, or its squares underflow or overflow
            break
        length = rz / curvature
        step += length * p
        s_b += length * b
        residual -= length * image
        z = precondition(residual)
        now = float(residual @ z)
        if not now > stop:
            break
        p = z + (now / rz) * p
        rz = now
    effort.expected = float(taken)
    return step, s_b


def _masked_diagonal(risk: SmoothedRisk, weight: Vector) -> Vector:
    """sum_p weight_p A_pj^2: the diagonal, but for the part that the means of tight groups subtract; (dimension,)."""
    if risk.combine is None:
        part = weight * risk.factor**2
        if risk.rows is not None:
            part = np.asarray(np.bincount(risk.rows, part, risk.X.shape[0]), dtype=np.float64)
        return score_diagonal(risk.X, part, 1)
    squares = sp.csr_array((risk.combine.data**2, risk.combine.indices, risk.combine.indptr), shape=risk.combine.shape)
    return score_diagonal(risk.X, squares.T @ weight, risk.n_outputs)
