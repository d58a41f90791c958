r"""Primal and dual bounds of a regularised risk: its formulas on numbers that carry their error (`rounding`).

The notation, and the members of a ``problem``, are those of `problem`. share_g = 1/n or omega_i / sum omega is no float
in general.

**Primal.** J(w, b) is the same text as in `problem`. Where there is a zero piece and every value is certainly below 0,
loss_g is exactly 0.

**Dual.** Alpha, a vector of floats, lies in Q up to rounding only: the shares are not floats, and the two sides of an
offset do not balance exactly. A member of Q is

    (1 - eta) (alpha + Delta),    |Delta_p| <= delta alpha_p,

where delta bounds the relative change that brings every group without the zero piece exactly to its share, or the
heavier side of a free offset exactly to the lighter, and eta, with the zero piece, the one that brings every group down
to its share. Since (1 - eta)^2 <= 1,

    D >= (1 - eta) <c, alpha + Delta> - |A'(alpha + Delta)|^2 / (2 lam),

evaluated on alpha with the error delta alpha.

**Two allowances.** The sums |X| |w| and |X|' |M|' alpha take as long to compute as the bounds themselves, so that the
errors are bounded by Cauchy's inequality first, with the lengths of the rows and columns of X. Where this is too wide,
as where features differ much in size, the sums of magnitudes are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.rounding import SMALL, TINY, UNIT, Rounded, RoundedArray, binned, dot, exact, largest, square, summed

#: Error of a computed share: relative, in units of 2^-53, and by underflow, in units of the smallest positive number.
SHARE_UNITS = 8
#: An allowance from norms is used if it is at most this share of the value; else sums of magnitudes are computed.
NORMS_SERVE = 1e-12
#: The two sides of a free offset are balanced if their sums are known so well, else 0: they are nothing beside others.
SURE = 1e-12
#: Groups of more pieces than this are summed by `math.fsum`, whose error does not grow with their number.
LONG_GROUP = 64


def shares(weights: Vector) -> Vector:
    """omega_i / sum omega, each with an error of at most `SHARE_UNITS` units, at any scale of the weights; (n,)."""
    scaled = np.ldexp(weights, -int(np.frexp(weights.max())[1]))  # exact, or below the smallest normal number
    return np.asarray(scaled / math.fsum(scaled.tolist()))


def true_shares(problem: Any) -> RoundedArray:
    """The shares of the groups with their error; (G,)."""
    return RoundedArray(problem.shares, SHARE_UNITS * (UNIT * problem.shares + TINY))


def member(problem: Any, alpha: Vector) -> Vector:
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
    return _balanced(problem, clean, _sides(problem, clean)) if problem.n_biases else np.asarray(clean)


def _sides(problem: Any, alpha: Any) -> Any:
    """The sum of alpha over the two sides of each free offset; (n_biases, 2)."""
    loss = problem.loss
    return binned(alpha, 2 * loss.bias_of + (loss.bias_sign > 0), 2 * problem.n_biases).reshape(-1, 2)


def _balanced(problem: Any, alpha: Vector, sides: Matrix) -> Vector:
    """``alpha`` with the heavier of its two ``sides`` (`_sides`) scaled to the lighter."""
    shrink = sides.min(axis=1, keepdims=True) / np.where(sides > 0, sides, 1.0)
    return np.asarray(alpha * shrink[problem.loss.bias_of, (problem.loss.bias_sign > 0).astype(np.intp)])


def upper(problem: Any, w: Tensor, b: Vector | None, extra: RoundedArray | float = 0.0) -> Rounded:
    """J(w, b), inf where a sum overflows; ``extra`` is added to the values of the pieces, (m,)."""
    x = exact(w)

    def value(norms: Vector | None) -> Rounded:
        losses = problem.losses(problem.values(x, b, norms) + extra)
        found: Rounded = summed(true_shares(problem) * losses) + 0.5 * problem.lam * square(w)
        return found

    return _cheapest(value, problem.row_norms, math.inf)


def lower(problem: Any, alpha: Vector) -> Rounded:
    """D at a member of Q near ``alpha``, -inf where a sum overflows."""
    near, eta = enclosed(problem, member(problem, alpha))

    def value(norms: Vector | None) -> Rounded:
        gain = dot(problem.loss.offset, near) * Rounded(1.0, eta)
        found: Rounded = gain - 0.5 * square(problem.adjoint(near, norms)) / problem.lam
        return found

    return _cheapest(value, problem.column_norms, -math.inf)


def _cheapest(value: Callable[[Vector | None], Rounded], norms: Vector, unknown: float) -> Rounded:
    """``value`` with errors by ``norms`` if they serve, else with errors by sums of magnitudes; ``unknown`` where it is
    not finite."""
    with np.errstate(all="ignore"):
        found = value(norms)
        if math.isfinite(found) and not found.allowance <= NORMS_SERVE * abs(found):
            found = min(found, value(None), key=lambda each: each.allowance)
    return found if math.isfinite(found) else Rounded(unknown)


def enclosed(problem: Any, alpha: Vector) -> tuple[RoundedArray, float]:
    """(alpha, eta): alpha moved as near to Q as rounding allows, with the error delta alpha, and eta of the module's
    head: a number in 1 +- eta times a vector so near to alpha is a member of Q."""
    loss, share = problem.loss, true_shares(problem)
    eta = delta = 0.0
    with np.errstate(all="ignore"):
        if loss.floor:
            known, sums = share.value > share.error, share
            if not known.all():
                alpha = np.where(known[problem.group], alpha, 0.0)  # a share so small that it may be 0
            if problem.is_box:  # no entry is above its computed share; the smallest of these errs most, relatively
                least = problem.shares.min(where=known, initial=1.0, keepdims=True)
                sums, share = exact(least), RoundedArray(least, SHARE_UNITS * (UNIT * least + TINY))
            else:
                sums, share = _group_sums(problem, alpha)[known], share[known]
            eta = min(max(_most(sums / share - 1.0), 0.0), 1.0)
        else:
            alpha = alpha * (problem.shares / _group_sums(problem, alpha).value)[problem.group]
            delta = _most(abs(share / _group_sums(problem, alpha) - 1.0))
        if problem.n_biases:  # `member` balanced the sides up to the rounding of long sums
            sides = _sides(problem, exact(alpha))
            sure = ((sides.errors <= SURE * sides.value) & (sides.value > SMALL)).all(axis=1)
            if not sure.all():
                alpha = np.where(sure[loss.bias_of], alpha, 0.0)
            sides = sides[sure]
            delta = min(_most(abs(sides[:, 0] / sides[:, 1] - 1.0)), 1.0)
        return RoundedArray(alpha, np.where(alpha > 0, delta * alpha + TINY, 0.0) if delta else 0.0), eta


def _most(values: RoundedArray) -> float:
    """At least the largest of ``values``, 0 of none; inf for NaN."""
    if not values.value.size:
        return 0.0
    top = largest(values, 0)
    found = Rounded.of(float(top.value), float(top.error)).upper
    return math.inf if math.isnan(found) else found


def _group_sums(problem: Any, alpha: Vector) -> RoundedArray:
    """The sum of alpha >= 0 over each group; (G,)."""
    if problem.is_box:
        return exact(alpha)
    start = problem.loss.start
    longest = int(np.diff(start).max())
    if longest <= LONG_GROUP:
        sums, units = np.add.reduceat(alpha, start[:-1]), longest
    else:
        values = alpha.tolist()
        sums = np.array([math.fsum(values[i:j]) for i, j in zip(start[:-1].tolist(), start[1:].tolist())])
        units = 1
    return RoundedArray(sums, (units + 1) * UNIT * sums)
