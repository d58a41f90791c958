r"""The quadratic program over pools of labellings, by a primal-dual interior point method.

    minimise over w    lam/2 |w|^2 + sum_i c_i max_{j in pool i} (b_j - a_j'w),        w_k >= 0 where asked

Each pool holds the column of the truth, a = 0 and b = 0. With xi_i = the maximum, slacks s_j = xi_i - b_j + a_j'w >= 0
and multipliers alpha_j >= 0, sum_{j in i} alpha_j = c_i, a Newton step eliminates alpha and xi and leaves

    (lam I + sum_i sum_{j in i} D_j (a_j - m_i)(a_j - m_i)') dw = ...,     D = alpha / s,   m_i = mean of a under D,

a system of size d, or by Woodbury's formula of the number of columns that count, whichever is smaller. Mehrotra's
predictor and corrector. The dual value sum b_j alpha_j - 1/(2 lam) |(A'alpha)_+|^2 bounds the whole problem from below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

Vector = NDArray[np.float64]
Index = NDArray[np.intp]

#: Newton steps of one solve.
STEPS = 80
#: Columns whose share of the matrix is below this, relative to lam, are left out of it.
NEGLIGIBLE = 1e-8
#: Share of the way to the boundary that a step goes at most.
INSIDE = 0.995


@dataclass(frozen=True, eq=False)
class PoolColumns:
    """The columns of all pools, grouped by owner; the first of each pool is the truth.

    a : (M, d), array or CSR. b : (M,). owner : (M,) non-decreasing, every owner 0 .. N - 1 occurs. gram : (M, M), a a',
    or None where the system of size d is the smaller one.
    """

    a: Any
    b: Vector
    owner: Index
    gram: Vector | None = None


@dataclass(frozen=True)
class PoolSolution:
    """w (d,), alpha (M,) feasible, primal (of the restricted problem) and bound (of the whole), and the steps taken."""

    w: Vector
    alpha: Vector
    primal: float
    bound: float
    steps: int


class _System:
    """The matrix lam I + B'B + diag(extra), factored in the smaller of its two forms."""

    def __init__(self, columns: PoolColumns, weight: Vector, lam: float, extra: Vector | None, start: Index) -> None:
        self.columns, self.lam = columns, lam
        owner, a = columns.owner, columns.a
        self.total = np.add.reduceat(weight, start)
        self.share = weight / self.total[owner]
        self.means = segment_product(a, self.share, owner, start)
        self.dense = columns.gram is None or extra is not None
        if self.dense:
            squares = _row_squares(a) * weight
            kept = np.flatnonzero(squares > NEGLIGIBLE * lam)
            rows = a[kept]
            means = self.means
            if sp.issparse(rows):
                rows, means = rows.toarray(), means.toarray()
            centred = (rows - means[owner[kept]]) * np.sqrt(weight[kept])[:, None]
            matrix = dsyrk(1.0, centred.T) if len(kept) else np.zeros((a.shape[1],) * 2, order="F")
            diagonal = np.arange(len(matrix))
            matrix[diagonal, diagonal] += lam if extra is None else lam + extra
            self.factor = _cholesky(matrix)
            return
        gram = columns.gram
        assert gram is not None
        kept = np.flatnonzero(np.diag(gram) * weight > NEGLIGIBLE * lam)
        cross = segment_rows(gram, self.share, start)  # (N, M)
        corner = segment_rows(np.ascontiguousarray(cross.T), self.share, start)  # (N, N)
        of = owner[kept]
        centred = gram[np.ix_(kept, kept)]
        side = cross[:, kept][of]
        centred = centred - side - side.T + corner[np.ix_(of, of)]
        self.root = np.sqrt(weight[kept])
        self.kept = kept
        matrix = centred * self.root[:, None] * self.root
        diagonal = np.arange(len(matrix))
        matrix[diagonal, diagonal] += lam
        self.factor = _cholesky(matrix)

    def solve(self, right: Vector) -> Vector:
        if self.dense:
            return np.asarray(scipy.linalg.cho_solve(self.factor, right, check_finite=False))
        owner = self.columns.owner[self.kept]
        a = self.columns.a
        image = ((a @ right)[self.kept] - (self.means @ right)[owner]) * self.root
        inner = scipy.linalg.cho_solve(self.factor, image, check_finite=False) * self.root
        spread = np.zeros(len(self.columns.b))
        spread[self.kept] = inner
        back = a.T @ spread - self.means.T @ np.bincount(owner, weights=inner, minlength=self.means.shape[0])
        return np.asarray((right - back) / self.lam)


def solve_pools(
    columns: PoolColumns,
    ceiling: Vector,
    lam: float,
    w: Vector,
    tolerance: float,
    nonnegative: NDArray[np.bool_] | None = None,
) -> PoolSolution:
    """The optimum of the restricted problem, to an absolute gap of ``tolerance`` where rounding allows.

    Parameters
    ----------
    columns : the pools. ceiling : (N,) c. lam : positive. w : (d,) to start from.
    nonnegative : (d,) entries of w that must be >= 0, or None.
    """
    a, b, owner = columns.a, columns.b, columns.owner
    start = np.searchsorted(owner, np.arange(len(ceiling))).astype(np.intp)
    bounded = None if nonnegative is None or not nonnegative.any() else np.flatnonzero(nonnegative)
    margin = b - a @ w
    top = np.maximum.reduceat(margin, start)
    xi = top + max(1e-3 * float(top.mean()), 1e-6 * (1.0 + float(np.abs(b).max(initial=0.0))))
    s = xi[owner] - margin
    alpha = _shares(1.0 / s, ceiling, owner, start)
    w = w.copy()
    z = np.zeros(0)
    if bounded is not None:
        w[bounded] = np.maximum(w[bounded], 1e-3 * (1.0 + np.abs(w).max(initial=0.0)))
        margin = b - a @ w
        xi = np.maximum.reduceat(margin, start) + float(np.mean(xi - top))
        s = xi[owner] - margin
        z = float(alpha @ s) / len(s) / w[bounded]
    best = PoolSolution(w, alpha, np.inf, -np.inf, 0)
    n = len(b) + len(z)
    for step in range(1, STEPS + 1):
        psi = np.asarray(a.T @ alpha)
        kept = psi if bounded is None else np.where(nonnegative, np.maximum(psi, 0.0), psi)
        primal = 0.5 * lam * float(w @ w) + float(ceiling @ np.maximum.reduceat(margin, start))
        bound = float(b @ alpha) - 0.5 / lam * float(kept @ kept)
        if not (np.isfinite(primal) and np.isfinite(bound)):
            break
        if min(primal, best.primal) - max(bound, best.bound) < best.primal - best.bound:
            point = (w, primal) if primal < best.primal else (best.w, best.primal)
            dual = (alpha, bound) if bound > best.bound else (best.alpha, best.bound)
            best = PoolSolution(point[0], dual[0], point[1], dual[1], step)
        elif step > best.steps + 8:
            break
        if best.primal - best.bound <= tolerance:
            break
        mu = (float(alpha @ s) + (float(z @ w[bounded]) if bounded is not None else 0.0)) / n
        weight = alpha / s
        extra = None
        if bounded is not None:
            extra = np.zeros(len(w))
            extra[bounded] = z / w[bounded]
        system = _System(columns, weight, lam, extra, start)
        gradient = lam * w - psi
        short = ceiling - np.add.reduceat(alpha, start)
        off = s - (xi[owner] - margin)

        def direction(target: Vector, bound_target: Vector) -> tuple[Vector, Vector, Vector, Vector, Vector]:
            scaled = target / s - weight * off
            shift = (-np.add.reduceat(scaled, start) - short) / system.total
            right = -gradient + a.T @ (-scaled - weight * shift[owner])
            if bounded is not None:
                right[bounded] += z - bound_target / w[bounded]
            dw = system.solve(right)
            dxi = shift - system.means @ dw
            ds = dxi[owner] + a @ dw - off
            dz = -(bound_target + z * dw[bounded]) / w[bounded] if bounded is not None else np.zeros(0)
            return dw, dxi, ds, -(target + alpha * ds) / s, dz

        inside = w[bounded] if bounded is not None else np.zeros(0)
        dw, dxi, ds, dalpha, dz = direction(alpha * s, z * inside)
        dinside = dw[bounded] if bounded is not None else np.zeros(0)
        size = min(_reach(s, ds), _reach(alpha, dalpha), _reach(inside, dinside), _reach(z, dz))
        ahead = float((alpha + size * dalpha) @ (s + size * ds)) + float((z + size * dz) @ (inside + size * dinside))
        centre = mu * min(1.0, max(ahead / n / mu, 0.0)) ** 3
        dw, dxi, ds, dalpha, dz = direction(alpha * s + dalpha * ds - centre, z * inside + dz * dinside - centre)
        dinside = dw[bounded] if bounded is not None else np.zeros(0)
        size = INSIDE * min(_reach(s, ds), _reach(alpha, dalpha), _reach(inside, dinside), _reach(z, dz))
        w, xi, s = w + size * dw, xi + size * dxi, s + size * ds
        alpha, z = alpha + size * dalpha, z + size * dz
        margin = b - a @ w
    total = np.add.reduceat(best.alpha, start)
    return PoolSolution(
        best.w, best.alpha * np.minimum(1.0, ceiling / total)[owner], best.primal, best.bound, best.steps
    )


def segment_product(a: Any, share: Vector, owner: Index, start: Index) -> Any:
    """sum over each pool of share_j a_j: (N, d), sparse if ``a`` is."""
    if sp.issparse(a):
        picks = sp.csr_array(
            (share, np.arange(len(share)), np.append(start, len(share))), shape=(len(start), len(share))
        )
        return picks @ a
    return segment_rows(a, share, start)


def segment_rows(rows: Vector, share: Vector, start: Index) -> Vector:
    """sum over each pool of share_j rows_j; (N, ...)."""
    return np.asarray(np.add.reduceat(rows * share[:, None], start, axis=0))


def _shares(raw: Vector, ceiling: Vector, owner: Index, start: Index) -> Vector:
    return np.asarray(raw * (ceiling / np.add.reduceat(raw, start))[owner])


def _row_squares(a: Any) -> Vector:
    return np.asarray((a * a).sum(axis=1) if sp.issparse(a) else np.einsum("ij,ij->i", a, a)).ravel()


def _reach(x: Vector, dx: Vector) -> float:
    """The largest step in (0, 1] that keeps x >= 0."""
    falling = dx < 0
    return float(np.min(x[falling] / -dx[falling], initial=1.0))


def _cholesky(matrix: Vector) -> tuple[Vector, bool]:
    diagonal = np.arange(len(matrix))
    scale = float(np.abs(matrix[diagonal, diagonal]).mean())
    for power in range(-14, 3):
        try:
            return scipy.linalg.cho_factor(matrix, check_finite=False)  # type: ignore[no-any-return]
        except scipy.linalg.LinAlgError:
            matrix[diagonal, diagonal] += 10.0**power * scale
    raise FloatingPointError("the matrix of the restricted problem is not finite")
