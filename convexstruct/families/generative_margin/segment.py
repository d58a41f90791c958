"""The best point of the dual function of (P) along a segment of script-D."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from convexstruct.arrays import Index, Vector
from convexstruct.families.generative_margin.member import Member
from convexstruct.graphs import TableLayout
from convexstruct.rounding import GREATEST, OUTWARD, UNIT, Rounded, exact, up


def best_on_segment(
    layout: TableLayout,
    start: tuple[Vector, float],
    step: Vector,
    rise: float,
    least: Vector,
    value: Callable[[Vector, float], float],
) -> tuple[float, float]:
    """(t, D) at the best v = start_v - t step, omega = start_omega + t rise, 0 <= t <= 1, with v >= 0.

    D(v, omega) = omega + sum_i [V_i ln V_i - sum_j v_ij ln v_ij] is concave along the segment, so its derivative is
    bisected. least (d,) : a v_ij that is no further below 0 counts as 0. value : D of v >= 0 and omega.
    """
    v0, omega = start
    toward = step > 0
    with np.errstate(over="ignore"):
        limit = min(1.0, float(np.min(v0[toward] / step[toward], initial=1.0)))
    block_step = layout.block_sum(step)

    def slope(t: float) -> float:
        v = np.maximum(v0 - t * step, 1e-300)
        return float(rise + step @ np.log(v) - block_step @ np.log(layout.block_sum(v)))

    low, high = 0.0, limit
    if slope(limit) < 0:
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    else:
        low = limit
    best, at = -np.inf, 0.0
    for t in (0.0, low, high, low * (1 - 1e-15)):
        v = v0 - t * step
        if (v >= least).all():
            found = float(value(np.maximum(v, 0.0), omega + t * rise))
            if found > best:
                best, at = found, t
    return at, best


def certain_on_segment(
    c: Vector, found: Member, best: Callable[[Vector, float], tuple[float, float]], value: Callable[[Any, Any], Rounded]
) -> tuple[float, Rounded]:
    """(t, D) at the best t (mu, omega), 0 <= t <= 1, for which v = c - t mu >= 0 is certain; t = 0 always is.

    best : (mu, omega) -> (t, D) in floats, as `best_on_segment`. value : D of v >= 0, with errors, and omega.
    """
    mu = found.mu
    with np.errstate(all="ignore"):
        start = 0.0, value(exact(c), Rounded(0.0))
        high = up(mu.value + mu.errors * OUTWARD)
        if not (np.isfinite(high).all() and np.isfinite(mu.value).all() and np.isfinite(found.omega.upper)):
            return start
        toward = high > 0
        limit = min(1.0, float(np.min(c[toward] / high[toward], initial=2.0)) * (1.0 - 8.0 * UNIT))
        if limit < 1.0 / GREATEST:
            return start
        t = min(best(high, found.omega)[0], limit)
        at = value(c - t * mu, t * found.omega)
    return (t, at) if at.lower > start[1].lower else start


def balanced(mu: Vector, columns: Sequence[Index], eta: float) -> Vector:
    """mu with 0 in those of the ``columns``, in which it should be 0, where it nearly is.

    Counts in a column are taken as equal to the truth's if their differences sum to at most 1e-6, in uses weighted by
    the examples' weights: the certificate corrects differences of this size.
    """
    near = [column for column in columns if np.abs(mu[column]).sum() <= 1e-6 * eta]
    return np.where(np.isin(np.arange(len(mu)), np.concatenate(near)), 0.0, mu) if near else mu
