r"""Primal and dual bounds of a regularised risk, each with a proved bound on the rounding of its own sums.

The notation is that of `problem`, gamma(n) that of `convexstruct.rounding`, u the rounding of one operation.

**Primal.** fl(J) against J(w, b), with share_g = 1/n or omega_i / sum omega exactly. Every product m x w inside a piece
is rounded once and is then part of at most `depth` sums, so the value of piece p errs by at most

    err_p = gamma(depth + 4) (|M| |X| |w| + |b| + |c|)_p,

and loss_g by at most the largest err_p of its pieces. Where there is a zero piece and every value plus its err_p is at
most 0, loss_g is exactly 0.

**Dual.** Let alpha be the vector of floats, a = A' alpha and a^ the computed value of a. Alpha lies in Q up to rounding
only: 1/n is no float in general, and the two sides of an offset do not balance exactly. A member of Q is

    (1 - eta) (alpha + Delta),    |Delta_p| <= delta alpha_p,

where delta bounds the relative change that brings every group without the zero piece exactly to its share, or the
heavier side of a free offset exactly to the lighter, and eta, with the zero piece, the one that brings every group down
to its share. Both are computed from sums of known error. With e >= |A'(alpha + Delta) - a^|,

    D >= <c, alpha> - eta |<c, alpha + Delta>| - delta <|c|, alpha> - sum_j (|a^_j| + e_j)^2 / (2 lam),
    e_j = (gamma(depth) + delta) (|X|' |M|' alpha)_j.

`products` computes the depth of each sum.

**Two allowances.** The sums |X| |w| and |X|' |M|' alpha take as long to compute as the bounds themselves. Let R_p be at
least the length of each row of X that piece p takes (`row_norms`), and m at least sum_k |M_pk|. By Cauchy's inequality

    (|M| |X| |w|)_p <= m R_p max_k |w_k|,      |(|X|' |M|' alpha)|_2 <= m sum_p R_p alpha_p,

and sum_j |a_j| e_j <= |a| |e|. Terms with alpha_p = 0 are exact, and add nothing to a depth. Where these bounds are too
wide, scores are summed in blocks, whose depth is less; where they still are, as where features differ much in size, the
sums of magnitudes are computed.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.families.regularized_risk.products import (
    Risk,
    active_shares,
    added,
    largest_of_groups,
    magnitudes,
    piece_errors,
    piece_norms,
    piece_values,
    scores_at_once,
    scores_in_blocks,
    transposed,
    widths,
)
from convexstruct.rounding import TINY, UNIT, Rounded, gamma

#: Error of a computed share: relative, in units of 2^-53, and by underflow, in units of the smallest positive number.
SHARE_UNITS = 8
#: The allowance from norms is used if it is at most this share of the value; else sums of magnitudes are computed. With
#: the other terms an allowance is then below 1e-12 of the value.
NORMS_SERVE = 9.4e-13
#: `reason` names a feature as the cause of large allowances if its largest entry is above this, else a small lam.
LARGE_FEATURE = 1e4
#: Groups of more pieces than this are summed by `math.fsum`, whose error does not grow with their number.
LONG_GROUP = 64


def shares(weights: Vector) -> Vector:
    """omega_i / sum omega, each with an error of at most `SHARE_UNITS` units, at any scale of the weights; (n,)."""
    scaled = np.ldexp(weights, -int(np.frexp(weights.max())[1]))  # exact, or below the smallest normal number
    return np.asarray(scaled / math.fsum(scaled.tolist()))


def member(problem: Risk, alpha: Vector) -> Vector:
    """A point near ``alpha`` and, up to rounding, in Q, by clipping and scaling; finite for every finite alpha."""
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
            # entries relative to the largest of their group, so that no sum overflows; all 1 where all are 0
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


def upper(problem: Risk, w: Tensor, b: Vector | None) -> Rounded:
    """J(w, b), inf where a sum overflows, with a bound on its distance from the exact J."""
    with np.errstate(all="ignore"):
        loss = problem.loss
        w = w.reshape(loss.n_outputs, -1)
        widest, row = widths(problem)
        constants = float(np.abs(loss.offset).max())
        fixed = loss.offset
        if b is not None and problem.n_biases:
            fixed = fixed + loss.bias_sign * b[loss.bias_of]
            constants += float(np.abs(b).max())
        square = _square(w)
        half = 0.5 * (problem.lam * square)
        tiny = 2 * SHARE_UNITS * TINY

        def evaluated(scores: Matrix) -> tuple[Vector, Rounded, float]:
            """(the pieces' values, the risk, J)."""
            values = piece_values(problem, scores) + fixed
            losses = problem.losses(values)
            terms = problem.shares * losses
            shares = (SHARE_UNITS + 2) * UNIT * float(np.abs(terms).sum()) + tiny * float(np.abs(losses).sum())
            risk = summed(terms, shares)
            return values, risk, half + risk

        largest = math.sqrt(float((w * w).sum(axis=1).max()) * (1 + gamma(w.size + 2)) + w.size * TINY)
        norms = piece_norms(problem)
        for product in (scores_at_once,) if sp.issparse(problem.X) else (scores_at_once, scores_in_blocks):
            scores, depth, lost = product(problem.X, w)
            values, risk, value = evaluated(scores)
            rate = gamma(int(depth.max()) + widest + 4) * row * largest
            rest = row * float(lost.max()) + gamma(widest + 4) * constants + 2 * widest * TINY
            error = (rate * float(norms.max()) + rest) * (1 + 8 * UNIT)
            above = problem.losses(values + error) if loss.floor else None  # at most 0: the loss is exactly 0
            errors = float(active_shares(problem, above) @ (rate * largest_of_groups(problem, norms) + rest))
            if errors <= NORMS_SERVE * abs(value):
                break
        else:
            each = piece_errors(problem, w, b, depth, lost, widest)
            above = problem.losses(values + each) if loss.floor else None
            each = largest_of_groups(problem, each)
            errors, error = float(active_shares(problem, above) @ each), float(each.max())
        if not math.isfinite(value):
            return Rounded(math.inf)
        return Rounded.of(
            value, risk.allowance, errors * (1 + (SHARE_UNITS + 1) * UNIT) + tiny * (error + 1.0) * loss.n_groups,
            0.5 * problem.lam * square.allowance, 2 * UNIT * half, UNIT * abs(value), 4 * TINY,
        )  # fmt: skip


def lower(problem: Risk, alpha: Vector) -> Rounded:
    """D at a member of Q near ``alpha``, -inf where a sum overflows, with a bound on how far the exact D lies below."""
    with np.errstate(all="ignore"):
        loss, lam = problem.loss, problem.lam
        alpha, eta, delta = enclosed(problem, member(problem, alpha))
        gains = loss.offset * alpha
        gain = float(np.abs(gains).sum())
        linear = summed(gains, UNIT * gain + len(gains) * TINY)
        a, depth, lost = transposed(problem, alpha)
        square = _square(a)
        quadratic = 0.5 * square / lam
        value = linear - quadratic
        if not math.isfinite(value):
            return Rounded(-math.inf)
        off = gamma(depth) + delta
        size = float(piece_norms(problem) @ alpha) * (1 + gamma(len(alpha) + 2)) + len(alpha) * TINY
        error = off * widths(problem)[1] * size + math.sqrt(a.size) * lost
        spread = error * (2.0 * math.sqrt(square.upper) + error)
        if not 0.5 * spread <= NORMS_SERVE * abs(value) * lam:
            errors = off * magnitudes(problem, alpha) + lost
            spread = float((errors * (2.0 * np.abs(a) + errors)).sum())
        return Rounded.of(
            value, linear.allowance, eta * (abs(linear) + linear.allowance + delta * gain), delta * gain,
            0.5 * (square.allowance + spread) / lam, TINY / lam, 2 * UNIT * quadratic, UNIT * abs(value), 4 * TINY,
        )  # fmt: skip


def reason(problem: Risk) -> str:
    """One sentence on why large terms cancel in the sums of ``problem``: a very large feature, or a small lam."""
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
    """(alpha, eta, delta): alpha moved as near to Q as rounding allows, and the eta and delta of the module's head,
    by which it differs from an exact member of Q."""
    loss = problem.loss
    least = problem.shares * (1 - SHARE_UNITS * UNIT) - SHARE_UNITS * TINY
    most = problem.shares * (1 + SHARE_UNITS * UNIT) + SHARE_UNITS * TINY
    if loss.floor and (least <= 0).any():  # a share so small that its lower bound is 0
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
        for last in (False, True):  # `member` balanced the sides up to the rounding of long sums; again, for less
            (more, first), (less, second) = added(alpha[up]), added(alpha[down])
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
    """At least the exact value of ``factor``, a rounded difference of 1 and a rounded quotient; inf for NaN."""
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
    """The sum of ``terms``, whose own errors sum to at most ``errors``."""
    value, depth = added(terms)
    return Rounded.of(float(value), gamma(depth) * float(np.abs(terms).sum()), errors)


def _square(values: Matrix) -> Rounded:
    """|values|^2."""
    squares = (values * values).ravel()
    return summed(squares, UNIT * float(squares.sum()) + len(squares) * TINY)
