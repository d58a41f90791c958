r"""The roots of a falling piecewise linear function of one variable, given by its breakpoints:

    phi(rho) = value + slope (rho - left) + sum_j bend_j (rho - t_j)_+,      rho >= left, t_j >= left,

and phi(rho) = value + slope (rho - left) to the left of ``left`` too. By sorting the breakpoints, O(k log k), or by
medians (Algorithm 2 of appendix B, paper 2): the sign of phi at the median of those breakpoints that may still bracket
the root discards half of them, and what they discard is kept as one slope and one value, so that all rounds together
cost O(k).

Shapes: t (k,) breakpoints in any order, ties allowed; bend (k,) change of slope at each.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Vector

#: Breakpoints few enough that sorting them costs less than another median.
FEW = 512


class Sorted:
    """phi with its breakpoints sorted, once for any number of roots."""

    def __init__(self, t: Vector, bend: Vector, left: float, value: float, slope: float) -> None:
        order = np.argsort(t)
        self.at = np.concatenate(([left], t[order]))
        self.slopes = slope + np.concatenate(([0.0], np.cumsum(bend[order])))
        self.values = value + np.concatenate(([0.0], np.cumsum(self.slopes[:-1] * np.diff(self.at))))
        self.noise = (4 + len(t)) * np.finfo(float).eps * (abs(slope) + float(np.abs(bend).sum()))

    def roots(self, targets: Vector) -> Vector:
        """Where phi takes each of ``targets``; where it never does, the last breakpoint in that direction, and on a
        flat stretch its left end."""
        last = len(self.at) - 1
        stop = np.searchsorted(-self.values, -targets)  # the first breakpoint that is not above the target
        piece, right = np.clip(stop - 1, 0, last), self.at[np.minimum(stop, last)]
        inside = (stop > 0) & (stop <= last)
        slope, start = self.slopes[piece], self.at[piece]
        steep = np.where((inside | (np.abs(slope) > self.noise)) & (slope != 0), slope, -np.inf)
        found = start + (targets - self.values[piece]) / steep
        return np.asarray(np.where(inside, np.clip(found, start, right), found))


def root_by_sorting(t: Vector, bend: Vector, left: float, value: float, slope: float) -> float:
    """The root of phi, all breakpoints sorted."""
    return float(Sorted(t, bend, left, value, slope).roots(np.zeros(1))[0])


def root_by_medians(t: Vector, bend: Vector, left: float, value: float, slope: float, few: int = FEW) -> float:
    """The root of phi by median search; linear in the number of breakpoints, whatever their order and ties."""
    right = np.inf
    while len(t) > few and value > 0:
        middle = np.partition(t, len(t) // 2)[len(t) // 2]
        before = t < middle
        passed = bend[before]
        here = value + slope * (middle - left) + float(passed @ (middle - t[before]))
        if here > 0:  # the root is to the right: what lies before the median becomes one slope
            after = t > middle
            value, slope, left = here, slope + float(bend[~after].sum()), float(middle)
            t, bend = t[after], bend[after]
        else:
            right, t, bend = float(middle), t[before], passed
    return min(root_by_sorting(t, bend, left, value, slope), right)
