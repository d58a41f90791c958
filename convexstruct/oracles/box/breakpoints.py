r"""The roots of a falling piecewise linear function of one variable, given by its breakpoints:

    phi(rho) = value + slope (rho - left) + sum_j bend_j (rho - t_j)_+,      rho >= left, t_j >= left,

and phi(rho) = value + slope (rho - left) for rho < left too. The root is found by sorting the breakpoints, O(k log k),
or by medians (Algorithm 2 of appendix B, paper 2): the sign of phi at the median of the remaining breakpoints says on
which side of it the root lies, and the breakpoints of the other side are dropped. The dropped breakpoints on the left
are summed into one value and one slope, so that all rounds together cost O(k).

Shapes: t (k,) breakpoints in any order, ties allowed; bend (k,) change of slope at each.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.rounding import EPS

#: Fewer breakpoints than this are sorted, which is faster than another median.
SORTED_BELOW = 512


def root_by_sorting(t: Vector, bend: Vector, left: float, value: float, slope: float) -> float:
    """The root of phi, by sorting all breakpoints. If there is none, ``left`` where phi < 0 everywhere and the last
    breakpoint where phi > 0 everywhere; if phi is 0 on an interval, the left end of the interval."""
    order = np.argsort(t)
    at = np.concatenate(([left], t[order]))
    slopes = slope + np.concatenate(([0.0], np.cumsum(bend[order])))
    values = value + np.concatenate(([0.0], np.cumsum(slopes[:-1] * np.diff(at))))
    stop = int(np.searchsorted(-values, 0.0))  # the first breakpoint where phi is not above 0
    piece, inside = max(stop - 1, 0), 0 < stop < len(at)
    noise = (4 + len(t)) * EPS * (abs(slope) + float(np.abs(bend).sum()))  # bounds the rounding of a sum of slopes
    if slopes[piece] == 0 or not (inside or abs(slopes[piece]) > noise):
        return float(at[piece])
    found = float(at[piece] - values[piece] / slopes[piece])
    return min(max(found, float(at[piece])), float(at[stop])) if inside else found


def root_by_medians(t: Vector, bend: Vector, left: float, value: float, slope: float, few: int = SORTED_BELOW) -> float:
    """The root of phi by median search; linear in the number of breakpoints, whatever their order and ties."""
    right = np.inf
    while len(t) > few and value > 0:
        middle = np.partition(t, len(t) // 2)[len(t) // 2]
        before = t < middle
        passed = bend[before]
        here = value + slope * (middle - left) + float(passed @ (middle - t[before]))
        if here > 0:  # the root is to the right: all up to the median becomes one value and one slope
            after = t > middle
            value, slope, left = here, slope + float(bend[~after].sum()), float(middle)
            t, bend = t[after], bend[after]
        else:
            right, t, bend = float(middle), t[before], passed
    return min(root_by_sorting(t, bend, left, value, slope), right)
