"""The best point of the dual function of (P) along a segment of script-D."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.graphs import TableLayout


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
