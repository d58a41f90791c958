r"""Bounds on the rounding of the values of problem (P): the allowances of `GenerativeMargin.primal` and `dual`.

The data (c, eta, weights, losses) and theta are taken to be exactly the doubles that are stored.

**Primal.** The slack of each example is bounded from above by a Viterbi recursion rounded upwards throughout
(`convexstruct.features.counts.bounds.excess`), and from below by the labelling found, whose difference from the truth
is summed over the entries in which the two differ. A theta accepted as feasible may have 1'e^theta_i above 1 by
rounding. The shift delta that makes it exactly feasible is bounded, and so is its effect on P: the counts of a
labelling sum to the number of its terms N_k, so
|P(theta) - P(theta - delta)| <= max(delta) (1'c + 2 eta sum_k w_k N_k).

**Dual.** The witness defines a member (mu, omega) of script-D exactly: a share b of labelling s in example k means
beta = eta p, where p is the rounded product b w_k, and the p of an example are made to sum to less than w_k; a Gibbs
distribution means a distribution near it, which the stored numbers define (`bounds.moments`). mu is known entry by
entry, up to a few UNIT of the counts. t is chosen so that v = c - t mu >= 0 for certain. D grows with each v_j,

    dD / dv_j = ln(V_i / v_j) >= 0,

so D at the lower ends of all v_j is a lower bound on D at v. The rounding of the sum itself is a small multiple of its
terms v_j ln(V_i / v_j), all >= 0, and of V_i. Where c = 0 for a whole column of entries that every labelling uses
equally often in all, mu must be 0 there exactly: `_balanced` proves this of a member near by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.core.mixtures import Mixture
from convexstruct.features.counts import bounds
from convexstruct.features.counts.counts import Counts
from convexstruct.graphs import TableLayout
from convexstruct.rounding import FUNCTION, GREATEST, TINY, UNIT, Rounded, gamma, total

#: Clears the lower 27 of the 53 digits of a double.
UPPER_DIGITS = np.int64(-(1 << 27))


class Evaluated(Protocol):
    """P at a theta: its value."""

    @property
    def value(self) -> float: ...


class Margin(Protocol):
    """What this module needs of problem (P); documented in `GenerativeMargin`."""

    @property
    def features(self) -> Counts: ...

    @property
    def c(self) -> Vector: ...

    @property
    def eta(self) -> float: ...

    @property
    def layout(self) -> TableLayout: ...

    @property
    def dimension(self) -> int: ...

    @property
    def n_examples(self) -> int: ...

    @property
    def truth_each(self) -> sp.csr_array: ...

    @property
    def truth_counts(self) -> Vector: ...

    def evaluate(self, theta: Vector) -> Evaluated: ...

    def best_on_segment(self, mu: Vector, omega: float) -> tuple[float, float]: ...


# -- feasibility -------------------------------------------------------------------------------------------------------


def level(layout: TableLayout, theta: Vector) -> tuple[Vector, Vector]:
    """(ln 1'e^theta_i of each block, a margin of at least twice its error and that of subtracting it from theta)."""
    found = layout.block_logsumexp(theta)
    top = np.maximum.reduceat(theta, layout.block_start)
    size = np.where(np.isfinite(top), np.abs(top), 0.0)
    return found, 4 * UNIT * (layout.block_sizes + 4 * FUNCTION + 8 * np.log1p(layout.block_sizes) + 4 * size)


def shift(layout: TableLayout, theta: Vector) -> Vector:
    """theta_i - max(0, ln 1'e^theta_i), less a margin where the logarithm may be positive: then 1'e^theta_i <= 1."""
    with np.errstate(invalid="ignore", over="ignore"):
        found, margin = level(layout, theta)
        return np.asarray(theta - np.where(found + margin > 0, found + 2 * margin, 0.0)[layout.block_of])


# -- primal ------------------------------------------------------------------------------------------------------------


def primal(problem: Margin, theta: Vector) -> Rounded:
    """P(theta) and the allowance for its rounding; inf where P is undefined.

    If theta is feasible up to rounding, the upper end also bounds P at a point that is exactly feasible.
    """
    features, eta, c = problem.features, problem.eta, problem.c
    weights, used = features.examples.weights, c > 0
    if (theta[used | (problem.truth_counts > 0)] == -np.inf).any() or np.isnan(theta).any():
        return Rounded(math.inf)
    finite = theta[np.isfinite(theta)]
    largest = max(np.abs(finite).max(initial=0.0), float(features.examples.max_loss.max()))
    if (theta == np.inf).any() or largest > GREATEST:
        return Rounded(problem.evaluate(theta).value, math.inf)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        highest, labels = bounds.excess(features, theta)
        gain, error = _gain(problem, labels, theta)
        slack, low, high = np.maximum(gain, 0.0), np.maximum(gain - error, 0.0), np.maximum(highest, 0.0)
        data = total(-c[used] * theta[used])
        margin = [total(weights * each) for each in (slack, low, high)]
        value = float(data) + eta * float(margin[0])
        way = max(float(margin[2]) - float(margin[0]), float(margin[0]) - float(margin[1]), 0.0)
        rounding = 4 * UNIT * (abs(float(data)) + eta * float(margin[2]) + abs(value))
        rounding += 4 * UNIT * float(c[used] @ np.abs(theta[used]))
        lost = TINY * (4 + problem.dimension + 4 * (1 + eta) * problem.n_examples)
        found = Rounded.of(value, eta * way, rounding, lost, _of_the_shift(problem, theta))
    return found if math.isfinite(value) else Rounded(math.inf)


def _gain(problem: Margin, labels: Labels, theta: Vector) -> tuple[Vector, Vector]:
    """a_k(s)'theta + b_k(s) of a labelling s, and its error; (K,) each."""
    features = problem.features
    difference = features.counts_each(labels) - problem.truth_each
    difference.eliminate_zeros()
    loss = features.loss(labels)
    hidden = np.bincount(features.examples.example, minlength=problem.n_examples)
    row = np.repeat(np.arange(problem.n_examples), np.diff(difference.indptr))
    found, error = bounds.signed_sums(*times(row, difference.data, theta[difference.indices]), problem.n_examples)
    gain = found + loss
    each = np.array([gamma(int(n)) for n in hidden + 4])
    return gain, error + each * loss + 2 * UNIT * np.abs(gain)


def _of_the_shift(problem: Margin, theta: Vector) -> float:
    """A bound on what making theta exactly feasible adds to P, if it is feasible up to rounding; else 0."""
    found, margin = level(problem.layout, theta)
    delta = float(np.max(np.where(found + margin > 0, found + margin, 0.0)))
    if delta == 0.0 or (found > 0).any() or (theta > 0).any():  # `certify` repairs such a theta
        return 0.0
    terms = np.asarray(problem.truth_each.sum(axis=1)).ravel()
    return 1.001 * delta * (float(problem.c.sum()) + 2 * problem.eta * float(problem.features.examples.weights @ terms))


# -- dual --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A member of script-D: computed mu (d,) and omega, and absolute bounds on their errors, mu's entry by entry."""

    mu: Vector
    mu_error: Vector
    omega: float
    omega_error: float


def member(problem: Margin, mixture: Mixture) -> Member:
    """(mu, omega) of a witness; negative shares count as 0, and shares that may sum to more than 1 are scaled down."""
    features, (labels, label_shares, gibbs, gibbs_loss, gibbs_shares) = problem.features, mixture
    weights = features.examples.weights
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        label_shares, gibbs_shares = np.maximum(label_shares, 0.0), np.maximum(gibbs_shares, 0.0)
        n = len(label_shares) + len(gibbs_shares)
        most = float(np.max(label_shares.sum(axis=0) + gibbs_shares.sum(axis=0), initial=0.0)) * (1 + gamma(n + 8))
        if most > 1.0:
            label_shares, gibbs_shares = label_shares * (1.0 / most), gibbs_shares * (1.0 / most)
            label_shares, gibbs_shares = label_shares * (1 - 8 * UNIT), gibbs_shares * (1 - 8 * UNIT)
        p = label_shares * weights
        p[p < 1.0 / GREATEST] = 0.0  # products so small may have large relative errors
        rise, rise_error, loss, loss_error = _of_labels(problem, labels, p)
        for theta, b, share in zip(gibbs, gibbs_loss, gibbs_shares):
            deadline.check()
            if not share.any():
                continue
            if np.ptp(share) > 0:
                raise ValueError("gibbs_shares must give one distribution the same share in every example")
            found = bounds.moments(features, theta, float(b))
            part = share[0] * found.rise
            rise += part
            rise_error += share[0] * found.rise_error + 2 * UNIT * (np.abs(part) + np.abs(rise)) + TINY * (part != 0)
            loss += share[0] * found.loss
            loss_error += share[0] * found.loss_error + 4 * UNIT * loss + TINY
        rise, rise_error, short = _balanced(problem, rise, rise_error)
        loss_error += short * loss
        eta, wide = problem.eta, 1 + 64 * UNIT
        mu, omega = eta * rise, eta * loss
        nothing = (rise == 0) & (rise_error == 0)
        mu_error = np.where(nothing, 0.0, (eta * rise_error + 2 * UNIT * np.abs(mu)) * wide + 4 * TINY)
        return Member(mu, mu_error, omega, (eta * loss_error + 2 * UNIT * omega) * wide + 4 * TINY)


def _balanced(problem: Margin, rise: Vector, rise_error: Vector) -> tuple[Vector, Vector, float]:
    """(rise, its error, short) of a nearby member with mu = 0 exactly where mu <= c demands it; else unchanged.

    Where c = 0 in a whole column of entries whose counts add up to a constant (every state that may emit a symbol which
    c rules out), mu <= c means mu = 0 there, and no sum in floating point is 0 for certain. But mu is 0 for some real
    mixture near by: one that gives up a share ``short`` for labellings which differ from the truth at one position
    each, and which move the excess of one entry to others that lack as much. Their shares need not be known: what they
    take from mu elsewhere, and what they add to omega, raises D, and what they add to a few other entries is bounded.
    """
    features, c = problem.features, problem.c
    rise, rise_error = rise.copy(), rise_error.copy()
    moved, cleared = np.zeros_like(rise), []
    amount = 0.0
    columns = [column for column in bounds.shared_columns(features) if not c[column].any()]
    ruled_out = np.zeros(len(c), dtype=bool)
    for column in columns:
        ruled_out[column] = True
    for column in columns:
        much = np.maximum(rise + rise_error, 0.0)[column]
        little = np.maximum(rise_error - rise, 0.0)[column]
        if not much.any():
            continue
        tight = ruled_out | ((c == 0) & (rise + rise_error > -8.0 * float(much.sum())))
        for i, j in zip(*np.nonzero((much[:, None] > 0) & (little > 0) & ~np.eye(len(column), dtype=bool))):
            for ways in bounds.gained(features, int(column[i]), int(column[j])):
                good = ways[~tight[ways].any(axis=1)]
                if len(good):
                    np.add.at(moved, good[0], 2.0 * min(much[i], little[j]))
                    break
            else:
                return rise, rise_error, 0.0
        amount += float(much.sum())
        cleared.append(column)
    short = 2.0 * amount / float(features.examples.weights.min())
    if not cleared or not short < 0.5:
        return rise, rise_error, 0.0
    rise_error += 1.001 * (moved + short * np.abs(rise))
    rise[np.concatenate(cleared)] = rise_error[np.concatenate(cleared)] = 0.0
    return rise, rise_error, short


def _of_labels(problem: Margin, labels: Labels, weight: Matrix) -> tuple[Vector, Vector, float, float]:
    """sum of p (counts - counts(s*)), its error, and the loss with its error; ``weight`` (m, K) are p."""
    features, d = problem.features, problem.dimension
    index, terms = [np.zeros(0, dtype=np.intp)], [np.zeros(0)]
    loss = loss_error = 0.0
    hidden = np.bincount(features.examples.example, minlength=problem.n_examples)
    longest = gamma(int(hidden.max()) + 4)
    for row, p in zip(labels, weight):
        deadline.check()
        if not p.any():
            continue
        row = row.astype(np.int64)  # labels may come in one byte each; indices computed from them need more
        difference = features.counts_each(row) - problem.truth_each
        difference.eliminate_zeros()
        where, products = times(difference.indices, difference.data, np.repeat(p, np.diff(difference.indptr)))
        index.append(where)
        terms.append(products)
        lost = total(p * features.loss(row))
        loss += float(lost)
        loss_error += lost.allowance + longest * float(lost) + 2 * UNIT * loss + TINY * len(p)
    found, error = bounds.signed_sums(np.concatenate(index), np.concatenate(terms), d)
    return found, error, loss, loss_error


def times(index: Labels | Index, counts: Vector, values: Vector) -> tuple[Index, Vector]:
    """(index, term) of the exact products counts * values, two terms each; counts are whole numbers below 2^26."""
    upper = (values.view(np.int64) & UPPER_DIGITS).view(np.float64)
    where = index.astype(np.intp)
    return np.concatenate((where, where)), np.concatenate((counts * upper, counts * (values - upper)))


def segment(problem: Margin, found: Member) -> tuple[float, Rounded]:
    """(t, D) at the best t (mu, omega), 0 <= t <= 1, for which v = c - t mu >= 0 is certain.

    t = 0 is always allowed, since 0 is a member of script-D.
    """
    c = problem.c
    at, value = 0.0, _value(problem.layout, c, c, c, 0.0, 0.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        high, low = bounds_above(found.mu + found.mu_error), -bounds_above(found.mu_error - found.mu)
        if not (np.isfinite(high).all() and np.isfinite(low).all() and np.isfinite(found.omega + found.omega_error)):
            return at, value
        toward = high > 0
        limit = min(1.0, float(np.min(c[toward] / high[toward], initial=2.0)) * (1 - 8 * UNIT))
        if limit < 1.0 / GREATEST:
            return at, value
        t = min(problem.best_on_segment(high, found.omega)[0], limit)
        v = [c - t * each for each in (high, found.mu, low)]
        error = [
            np.where(each != 0, 2 * UNIT * (np.abs(t * each) + np.abs(w)) + 2 * TINY, 0.0)
            for each, w in zip((high, found.mu, low), v)
        ]
        least, most = np.maximum(v[0] - error[0], 0.0), np.maximum(v[2] + error[2], 0.0)
        shrunk = _value(problem.layout, least, np.clip(v[1], least, most), most, t * found.omega, t * found.omega_error)
    return (t, shrunk) if shrunk.lower > value.lower else (at, value)


def bounds_above(values: Vector) -> Vector:
    """Upper bounds on all numbers that round to ``values``."""
    return np.asarray(np.maximum(values * (1 + 4 * UNIT), values * (1 - 4 * UNIT)))


def _value(layout: TableLayout, low: Vector, v: Vector, high: Vector, omega: float, omega_error: float) -> Rounded:
    """omega + sum_i [V_i ln V_i - sum_j v_ij ln v_ij] at v, where the exact v lies between ``low`` and ``high``."""
    parts = [_entropy(layout, each) for each in (low, v, high)]
    value = omega + float(parts[1])
    way = max(parts[2].upper - float(parts[1]), float(parts[1]) - parts[0].lower)
    return Rounded.of(value, way, omega_error, 4 * UNIT * (abs(omega) + abs(value)) + 4 * TINY)


def _entropy(layout: TableLayout, v: Vector) -> Rounded:
    """sum_ij v_ij ln(V_i / v_ij), all of whose terms are >= 0, for v >= 0."""
    sums = layout.block_sum(v)[layout.block_of]
    used = v > 0
    with np.errstate(over="ignore"):
        ratio = sums[used] / v[used]
    logs = np.where(np.isfinite(ratio), np.log(ratio), np.log(sums[used]) - np.log(v[used]))
    far = np.where(np.isfinite(ratio), 0.0, 4 * FUNCTION * UNIT * 1500.0)
    terms = v[used] * logs
    per_block = np.array([gamma(int(n) + 8) for n in layout.block_sizes])[layout.block_of][used]
    error = float(np.sum(v[used] * (per_block + far))) + (4 * FUNCTION + 4) * UNIT * float(terms.sum())
    return total(terms, error * (1 + gamma(layout.dimension)) + TINY * layout.dimension)
