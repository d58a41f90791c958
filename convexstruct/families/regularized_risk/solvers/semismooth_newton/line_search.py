"""A search along a direction, for a zero of the slope of the smoothed risk."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct import deadline

#: A line search ends when the slope has fallen by this factor, or after so many evaluations.
SLOPE_FALL, SEARCH_TRIALS = 0.1, 30


def search(slope: Callable[[float], float], first: float, t: float = 1.0) -> float:
    """A t > 0 near the zero of a rising ``slope``, F's along the line, at which F is certainly below its start.

    first : the slope at 0, negative. t : the first guess; while the slope is negative it is multiplied by 2, 4, 8, ...

    Then secants inside a bracket (Illinois: an end that stays counts half). A t beyond the zero is taken only if what F
    fell up to the lower end, at least ``low`` times the slope there, is twice what it can have risen since.
    """
    if not first < 0:
        return 0.0
    low, high, wider = 0.0, np.inf, 2.0
    at_low, weight_low, weight_high = first, first, np.inf
    for _ in range(SEARCH_TRIALS):
        deadline.check()
        here = slope(t)
        near = abs(here) <= SLOPE_FALL * -first
        if near and (here <= 0 or 2.0 * (t - low) * here <= -low * at_low):
            return t
        if here <= 0:
            weight_high = 0.5 * weight_high if low > 0 else weight_high
            low, at_low, weight_low = t, here, here
        else:
            weight_low = 0.5 * weight_low if np.isfinite(high) else weight_low
            high, weight_high = t, here
        if np.isinf(high):
            t, wider = wider * t, 2.0 * wider
        else:
            t = low + (high - low) * min(max(weight_low / (weight_low - weight_high), 0.1), 0.9)
    return low if low > 0 else t
