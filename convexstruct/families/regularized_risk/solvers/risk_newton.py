r"""Newton's direction for a smoothed risk (`solvers.smoothed_risk`), by the cheapest of three ways.

    (lam I + sum_g (p_g / tau) A_g' P_g A_g) s_w + H_wb s_b = - F_w,        H_wb' s_w + H_bb s_b = - F_b

* **factor**: the matrix itself, by Cholesky: few features, or few outputs and features;
* **dual factor**: lam I + B B' over the free rows B, by Woodbury's formula: fewer free pieces than features;
* **conjugate gradients**, preconditioned by the diagonal where the features are sparse: many of both. The residual
  falls to a tenth only, for the next direction corrects the rest, and further where steps have become short: an inexact
  direction turns pieces on and off that an exact one would leave alone.

Where few rows of few features are left, and no free offsets, both matrices are made of a dense copy in single
precision, at half the cost or less. Rounding then turns the direction a little, no more than conjugate gradients do,
and neither the gradient nor a bound knows of it; where the matrix is too large beside lam, or steps come to nothing, it
is double again. (With offsets nothing was gained: what the elimination leaves of H_bb is small beside its rounding.)

Which one is decided by counting operations, each weighed by the nanoseconds it took on one core; only the ratios count.
Free offsets b are eliminated last (their block is diagonal), with a small ridge where no piece moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from convexstruct import deadline
from convexstruct.arrays import Index, Vector
from convexstruct.families.regularized_risk.solvers.smoothed_risk import Smoothed, SmoothedRisk

#: Nanoseconds for a multiplication inside a matrix product, dense and sparse; for an entry of X in a product with a
#: vector; for an entry of X copied into a smaller matrix.
PRODUCT, SPARSE_PRODUCT = 0.05, 1.8
ENTRY, SPARSE_ENTRY = 0.1, 0.5
COPIED, SPARSE_COPIED = 0.5, 2.0
#: The same for products and copies in single precision, dense.
COARSE_PRODUCT, COARSE_COPIED = 0.025, 0.3
#: Up to this trace, over lam, the matrix is factored in single precision; after a step shorter than this part of
#: Newton's, which rounding may have turned, up to so much less.
ROUGHEST, USELESS, FINER = 1e7, 1e-5, 0.1
#: What no weight in single precision exceeds: its square is still a number there.
LARGE = 1e18
#: Nanoseconds for starting one step of conjugate gradients, and for a piece of several scores in it.
STEP, PIECE = 10_000.0, 50.0
#: Conjugate gradients end when the residual has fallen by this factor at first, by this at most, by this at least, or
#: after so many steps.
FIRST_FALL, FALL, LEAST_FALL, STEPS = 0.3, 0.1, 1e-3, 250
#: After a step shorter than this part of Newton's the residual has to fall by so much more; after a longer one by less.
SHORT, TIGHTER, LOOSER = 0.01, 0.1, 3.0
#: Features times outputs beyond which the matrix is not formed, and free pieces beyond which the dual one is not.
LARGEST = 3000
#: Ridge on the free offsets, relative to the weight of their pieces: where some piece moves, and where none does.
RIDGE, IDLE_RIDGE = 1e-9, 1e-4


@dataclass
class Effort:
    """How hard directions try: steps that the last conjugate gradients took, a guess at the next; total steps; the
    factor by which the residual falls; the largest matrix that is factored in single precision."""

    expected: float = 5.0
    steps: int = 0
    fall: float = FIRST_FALL
    roughest: float = ROUGHEST

    def learn(self, t: float) -> None:
        """A line search has ended at ``t`` times the direction."""
        before = self.fall
        self.roughest = max(FINER * self.roughest, 1.0) if t < USELESS else min(LOOSER * self.roughest, ROUGHEST)
        self.fall = max(TIGHTER * before, LEAST_FALL) if t < SHORT else min(LOOSER * before, FALL)
        self.expected *= math.log(self.fall) / math.log(before)


def direction(risk: SmoothedRisk, point: Smoothed, tau: float, effort: Effort) -> tuple[Vector, Vector]:
    """(s_w, s_b) at ``point``."""
    free = np.flatnonzero(point.free)
    dimension, m = risk.dimension, len(free)
    coarse = risk.box and risk.combine is None and risk.n_biases == 0 and risk.is_little
    coarse = coarse and 0 < min(m, dimension) <= LARGEST
    sparse = sp.issparse(risk.X)
    per = risk.X.nnz / risk.X.shape[0] if sparse else float(risk.X.shape[1])
    product = SPARSE_PRODUCT * per * per if sparse else 0.5 * PRODUCT * per * per
    copied = (SPARSE_COPIED if sparse else COPIED) * per * m
    entry = SPARSE_ENTRY if sparse else ENTRY
    k = risk.n_outputs
    if k == 1:
        factor = m * product + copied + PRODUCT * dimension**3 / 3
        dual = np.inf
        if risk.box and m < dimension:
            # sparse rows meet in as many columns as they share
            met = m * m * per * (per / dimension * SPARSE_PRODUCT if sparse else 0.5 * PRODUCT)
            dual = met + copied + PRODUCT * m**3 / 3 + 4.0 * m * m
    else:
        count = np.bincount(risk.group[free]) if m else np.zeros(1)
        outputs = np.minimum(count[count > 0] + 1.0, k)  # that a group's free pieces touch
        pairs = float(outputs @ (outputs + 1.0)) / 2.0
        factor = pairs * (product + (SPARSE_COPIED if sparse else COPIED) * per) + PRODUCT * dimension**3 / 3
        dual = np.inf
    masked = risk.combine is not None or not risk.box or 2 * m > risk.X.shape[0]
    touched = risk.X.shape[0] if masked else m
    pieces = PIECE * len(risk.share) if risk.combine is not None else 0.0
    step = STEP + 2 * entry * per * k * touched + pieces + 10.0 * dimension
    iterative = (0.0 if masked else copied) + 1.3 * effort.expected * step
    if dimension > LARGEST:
        factor = np.inf
    if m > LARGEST:
        dual = np.inf
    inner, outer = min(dimension, m), max(dimension, m)
    single = COARSE_PRODUCT * inner * inner * (outer + inner / 3) + COARSE_COPIED * m * dimension
    if iterative <= (single if coarse else min(factor, dual)):
        return _conjugate_gradients(risk, point, tau, None if masked else free, effort)
    if coarse:
        rough = _coarse(risk, free, tau, effort.roughest)
        if rough is not None:
            return rough(-point.slope_w), np.zeros(0)
    if coarse and iterative <= min(factor, dual):
        return _conjugate_gradients(risk, point, tau, None if masked else free, effort)
    effort.expected *= 0.9  # so that it is tried again when the free set has shrunk
    solve, mixed = _factored(risk, point, free, tau, factor <= dual)
    s_w, s_b = _with_offsets(risk, point, free, tau, solve, mixed)
    if float(point.slope_w @ s_w) + float(point.slope_b @ s_b) < 0:
        return s_w, s_b
    return _conjugate_gradients(risk, point, tau, None if masked else free, effort)  # rounding left no descent


def _rows(risk: SmoothedRisk, pieces: Index) -> tuple[Any, Vector]:
    """Rows of X behind ``pieces`` of one score each, and their factors."""
    return risk.X[pieces if risk.rows is None else risk.rows[pieces]], risk.factor[pieces]


def _factored(
    risk: SmoothedRisk, point: Smoothed, free: Index, tau: float, primal: bool
) -> tuple[Callable[[Vector], Vector], Vector]:
    """(right -> H_ww^-1 right, H_wb)."""
    lam, d = risk.lam, risk.dimension
    mixed = np.zeros((d, risk.n_biases))
    weight = risk.share[free] / tau
    if len(free) == 0:
        return (lambda right: right / lam), mixed
    if risk.combine is not None or not risk.box:
        return _cholesky(_grouped(risk, point, free, tau), lam), mixed
    X, factor = _rows(risk, free)
    if risk.n_biases:
        sign = weight * factor * risk.sign[free]
        for j in range(risk.n_biases):
            mixed[:, j] = X.T @ np.where(risk.of[free] == j, sign, 0.0)
    scaled = np.sqrt(weight) * factor
    if sp.issparse(X):
        B: Any = sp.csr_array(X.multiply(scaled[:, None]))
        square = (B.T @ B if primal else B @ B.T).toarray()
    elif primal and risk.uniform is not None and np.ptp(np.abs(factor)) == 0:
        square = blas.dsyrk(float(scaled[0] ** 2), X.T, lower=1)
    else:
        B = X * scaled[:, None]
        square = blas.dsyrk(1.0, B.T, trans=0 if primal else 1, lower=1)
    if primal:
        return _cholesky(square, lam), mixed
    inner = _cholesky(square, lam)

    def woodbury(right: Vector) -> Vector:
        return np.asarray((right - B.T @ inner(np.asarray(B @ right))) / lam)

    return woodbury, mixed


def _coarse(risk: SmoothedRisk, free: Index, tau: float, roughest: float) -> Callable[[Vector], Vector] | None:
    """right -> H_ww^-1 right in single precision: of I + B'B, B the weighted free rows over sqrt(lam), by Cholesky or
    by Woodbury's formula, whichever is smaller. None where the trace of B'B is above ``roughest``."""
    lam = risk.lam
    size, X = risk.coarse
    B = X[free if risk.rows is None else risk.rows[free]]
    weight = size / math.sqrt(lam) * np.sqrt(risk.share[free] / tau) * np.abs(risk.factor[free])
    weight, scale = np.minimum(weight, LARGE), 1.0
    if np.ptp(weight) > 0:
        B *= weight.astype(np.float32)[:, None]
    else:  # sums of rows of small whole numbers stay exact
        scale = float(weight[0]) ** 2
    primal = len(free) > risk.dimension
    square = blas.ssyrk(scale, B.T, trans=0 if primal else 1, lower=1)
    diagonal = np.einsum("ii->i", square)
    if not diagonal.sum(dtype=np.float64) <= roughest:
        return None
    diagonal += 1.0
    lower, info = lapack.spotrf(square, lower=1)
    if info > 0:
        return None

    def solve(right: Vector) -> Vector:
        unit = float(np.abs(right).max(initial=0.0)) or 1.0
        short = (right / unit).astype(np.float32)
        if primal:
            found = lapack.spotrs(lower, short, lower=1)[0]
        else:
            found = short - np.float32(scale) * (B.T @ lapack.spotrs(lower, B @ short, lower=1)[0])
        return np.asarray(found.reshape(right.shape) * np.float64(unit / lam), dtype=np.float64)

    return solve


def _grouped(risk: SmoothedRisk, point: Smoothed, free: Index, tau: float) -> Vector:
    """sum_g (p_g / tau) A_g' P_g A_g for groups of several pieces, (dimension, dimension), by pairs of outputs."""
    n, k = risk.X.shape[0], risk.n_outputs
    m = len(free)
    if risk.combine is not None:
        picked = risk.combine[free]
    else:
        rows = free if risk.rows is None else risk.rows[free]
        picked = sp.csr_array((risk.factor[free], rows, np.arange(m + 1)), shape=(m, n))
    group = risk.group[free]
    count = np.bincount(group, minlength=len(risk.first)).astype(np.float64)
    tight = np.zeros(len(count), dtype=bool) if point.tight is None else point.tight
    sums = sp.csr_array((np.ones(m), (group, np.arange(m))), shape=(len(count), m)) @ picked
    each = np.where(tight, risk.share_each / (tau * np.maximum(count, 1.0)), 0.0)
    weighted = sp.csr_array(picked.multiply((risk.share[free] / tau)[:, None]))
    score = sp.coo_array(picked.T @ weighted - sums.T @ sp.csr_array(sums.multiply(each[:, None])))
    example, left = np.divmod(score.row, k)
    other, right = np.divmod(score.col, k)
    if k == 1 and (example != other).any():  # a group of several rows of X: not by example
        B = picked @ risk.X
        total = sums @ risk.X
        B = B.toarray() if sp.issparse(B) else B
        total = total.toarray() if sp.issparse(total) else total
        return np.asarray(B.T @ (B * (risk.share[free] / tau)[:, None]) - total.T @ (total * each[:, None]))
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


def _cholesky(square: Vector, ridge: float) -> Callable[[Vector], Vector]:
    """right -> (square + ridge I)^-1 right; only the lower triangle of ``square`` is read."""
    n = len(square)
    scale = float(np.trace(square)) / max(n, 1)
    square[np.arange(n), np.arange(n)] += ridge
    lower, info = lapack.dpotrf(square, lower=1)
    more = 1e-14 * scale
    while info > 0:  # rounding has made it indefinite
        square[np.arange(n), np.arange(n)] += more
        lower, info = lapack.dpotrf(square, lower=1)
        more *= 100.0

    def solve(right: Vector) -> Vector:
        return np.asarray(lapack.dpotrs(lower, right, lower=1)[0]).reshape(right.shape)

    return solve


def offset_weights(risk: SmoothedRisk, free: Index, tau: float) -> Vector:
    """The diagonal H_bb with its ridge."""
    moving = np.bincount(risk.of[free], weights=risk.share[free], minlength=risk.n_biases) / tau
    whole = np.bincount(risk.of, weights=risk.share, minlength=risk.n_biases) / tau
    whole[whole == 0] = 1.0 / tau  # all of its pieces are held
    return np.asarray(moving + np.where(moving > 0, RIDGE, IDLE_RIDGE) * whole)


def _with_offsets(
    risk: SmoothedRisk,
    point: Smoothed,
    free: Index,
    tau: float,
    solve: Callable[[Vector], Vector],
    mixed: Vector,
) -> tuple[Vector, Vector]:
    """Eliminate w, solve for b, substitute back."""
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
    """Steps on (w, b) together; ``free`` rows alone if given, all rows with a mask otherwise."""
    d, q = risk.dimension, risk.n_biases
    moving = np.flatnonzero(point.free)
    offsets = offset_weights(risk, moving, tau) if q else np.zeros(0)
    extra = offsets - np.bincount(risk.of[moving], risk.share[moving], q) / tau if q else offsets
    if free is not None:
        X, factor = _rows(risk, free)
        weight, columns = risk.share[free] * factor**2 / tau, X.T
        signs, of = (risk.sign[free] * factor, risk.of[free]) if q else (risk.sign, risk.of)

        def times(p: Vector) -> Vector:
            scores = weight * (X @ p[:d] + (signs * p[d:][of] / factor**2 if q else 0.0))
            top = risk.lam * p[:d] + columns @ scores
            if not q:
                return np.asarray(top)
            return np.concatenate((top, np.bincount(of, signs / factor**2 * scores, q) + extra * p[d:]))

        diagonal = _diagonal(X, weight) if sp.issparse(X) else None
    else:
        scale = risk.share / tau

        def times(p: Vector) -> Vector:
            u = scale * risk.derivative(point.free, point.tight, risk.forward(p[:d]) + risk.lift(p[d:]))
            top = risk.lam * p[:d] + risk.adjoint(u)
            return np.concatenate((top, risk.balance(u) + extra * p[d:])) if q else np.asarray(top)

        diagonal = _masked_diagonal(risk, np.where(point.free, scale, 0.0)) if sp.issparse(risk.X) else None
    inverse = 1.0 / (risk.lam + (np.zeros(d) if diagonal is None else diagonal))
    if q:
        inverse = np.concatenate((inverse, 1.0 / offsets))
    step = np.zeros(d + q)
    residual = -np.concatenate((point.slope_w, point.slope_b))
    z = inverse * residual
    p = z
    rz = float(residual @ z)
    stop, taken = effort.fall**2 * rz, 0
    for _ in range(STEPS):
        deadline.check()
        taken += 1
        image = times(p)
        curvature = float(p @ image)
        if not curvature > 0:  # nothing is left, or nothing that doubles can hold
            break
        length = rz / curvature
        step += length * p
        residual -= length * image
        z = inverse * residual
        now = float(residual @ z)
        if not now > stop:
            break
        p = z + (now / rz) * p
        rz = now
    effort.expected, effort.steps = float(taken), effort.steps + taken
    return step[:d], step[d:]


def _diagonal(X: sp.csr_array, weight: Vector) -> Vector:
    """sum_i weight_i x_ij^2; (d,)."""
    squares = sp.csr_array((X.data**2, X.indices, X.indptr), shape=X.shape)
    return np.asarray(squares.T @ weight)


def _masked_diagonal(risk: SmoothedRisk, weight: Vector) -> Vector:
    """The diagonal over pieces of ``weight``, the means of held groups left out; (dimension,)."""
    if risk.combine is None:
        part = weight * risk.factor**2
        if risk.rows is not None:
            part = np.asarray(np.bincount(risk.rows, part, risk.X.shape[0]), dtype=np.float64)
        return _diagonal(risk.X, part)
    combine = risk.combine
    squares = sp.csr_array((combine.data**2, combine.indices, combine.indptr), shape=combine.shape)
    part = np.asarray(squares.T @ weight).reshape(-1, risk.n_outputs)
    X = sp.csr_array((risk.X.data**2, risk.X.indices, risk.X.indptr), shape=risk.X.shape)
    return np.asarray(X.T @ part).T.ravel()
