"""The distinct values of a loss, numbered: slack scaling decodes once for each value.

    E_i(y) = values[i, l],        l = sum over nodes v of steps[v, y_v]

with whole numbers ``steps`` >= 0, so that `convexstruct.oracles.tree.loss_counter` can count. Where all costs are whole
multiples of one unit, l counts units. Where they are not, or where that takes too many steps (.5 beside 1e9), costs
fall into groups that each have a unit; l is then a number in mixed radix, one digit a group, and the loss of a
labelling is read off its digits. No cost is rounded to another: a value in the table differs from the sum of the given
costs by at most `deviation`, relative to it, which is a few units of double precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from convexstruct.arrays import Flags, Index, Labels, Matrix, Vector
from convexstruct.oracles.tree.loss_counter import MOST_LOSSES
from convexstruct.rounding import UNIT

#: A cost this close to a whole multiple of a unit, relative to the cost, counts as that multiple: the error of .1, .3
#: and .7 as binary numbers, and of two divisions.
SAME_STEP = 8 * UNIT


@dataclass(frozen=True, eq=False)
class LossSteps:
    """The numbering of the head of this file.

    steps : (P, S) whole numbers >= 0. values : (N, L + 1), or (1, L + 1) where all examples share them: the loss of
    each total l = 0 .. L. deviation : how far a value may be from the exact sum of the costs, relative to it.
    """

    steps: Labels
    values: Matrix
    deviation: float


@dataclass(frozen=True, eq=False)
class _Numbered:
    """steps : (P, S) of some nodes. most : the greatest total of an example. values : (most + 1,), the loss of each
    total. deviation : as in `LossSteps`."""

    steps: Labels
    most: int
    values: Vector
    deviation: float


def number_losses(costs: Matrix, example: Index, n_examples: int) -> LossSteps:
    """Steps and values of node costs (P, S) >= 0, of the examples (P,) that nodes belong to. ValueError if the loss of
    an example has more than `MOST_LOSSES` values that can be told apart: the example is named.

    All examples share one numbering where that serves, else each has its own.
    """
    found = _number(costs, example, n_examples)
    if found is not None:
        return LossSteps(found.steps, found.values[None], found.deviation)
    steps = np.zeros(costs.shape, dtype=np.int64)
    parts: list[_Numbered] = []
    for i in range(n_examples):
        nodes = np.flatnonzero(example == i)
        part = _number(costs[nodes], np.zeros(len(nodes), dtype=np.intp), 1)
        if part is None:
            kinds = len(np.unique(costs[nodes][costs[nodes] > 0]))
            raise ValueError(
                f"loss has {kinds} different costs in example {i}, whose sums over its {len(nodes)} nodes take more "
                f"than {MOST_LOSSES} values; slack scaling decodes once for each: wanted multiples of one coarser unit"
            )
        steps[nodes] = part.steps
        parts.append(part)
    values = np.zeros((n_examples, max(part.most for part in parts) + 1))
    for row, part in zip(values, parts):
        row[: part.most + 1] = part.values
    return LossSteps(steps, values, max(part.deviation for part in parts))


def _number(costs: Matrix, example: Index, n_examples: int) -> _Numbered | None:
    """The numbering with the fewest totals; None if every one has more than `MOST_LOSSES`."""
    kinds = np.unique(costs[costs > 0])
    if len(kinds) >= MOST_LOSSES:
        return None
    best: _Numbered | None = None
    with np.errstate(over="ignore", invalid="ignore"):  # ratios of costs beyond all numbers: no common unit
        for groups in _groupings(kinds):
            found = _mixed_radix(costs, example, n_examples, kinds, groups)
            if found is not None and (best is None or found.most < best.most):
                best = found
    return best


def _groupings(kinds: Vector) -> list[list[Index]]:
    """Ways to split the rising costs ``kinds`` into groups: at the widest gaps between them, and by common units.

    A digit has two values or more, so that more than log2(`MOST_LOSSES`) digits have too many totals.
    """
    every = np.arange(len(kinds), dtype=np.intp)
    widest = np.argsort(-(kinds[1:] / kinds[:-1]), kind="stable") + 1 if len(kinds) > 1 else every[:0]
    most = MOST_LOSSES.bit_length() - 1
    found = [np.split(every, np.sort(widest[:k])) for k in range(min(len(widest) + 1, most))]
    classes, left = [], every
    while len(left):
        alike = left[_multiples(kinds[left], most=MOST_LOSSES)]
        classes.append(alike)
        left = np.setdiff1d(left, alike)
    return [*found, classes]


def _multiples(kinds: Vector, most: int) -> Flags:
    """Which of the rising costs are p/q of the first, with p < ``most`` and q of at most 64."""
    q = np.arange(1, 65)[:, None]
    ratio = q * (kinds / kinds[0])
    whole = np.rint(ratio)
    return np.asarray(((np.abs(ratio - whole) <= SAME_STEP * ratio) & (whole < most)).any(axis=0))


def _unit(kinds: Vector) -> tuple[float, Labels] | None:
    """The largest number of which every one of the rising costs ``kinds`` is a multiple, and the multiples, all below
    `MOST_LOSSES`; None if there is no such number."""
    ratio = kinds / kinds[0]
    if not ratio[-1] < MOST_LOSSES:
        return None
    q = np.arange(1, int(MOST_LOSSES / ratio[-1]) + 1)
    for some in np.array_split(q, 1 + len(q) // 256):
        multiples = some[:, None] * ratio
        whole = np.rint(multiples)
        fits = (np.abs(multiples - whole) <= SAME_STEP * multiples).all(axis=1)
        if fits.any():
            at = int(np.argmax(fits))
            return float(kinds[0] / some[at]), whole[at].astype(np.int64)
    return None


def _mixed_radix(
    costs: Matrix, example: Index, n_examples: int, kinds: Vector, groups: list[Index]
) -> _Numbered | None:
    """The numbering with one digit for each group of ``kinds``; None if a group has no unit, or an example has too many
    totals."""
    radix, deviation = 1, 0.0
    steps = np.zeros(costs.shape, dtype=np.int64)
    digits: list[tuple[int, int, float]] = []
    at = np.searchsorted(kinds, costs)
    for group in groups:
        if not len(group):
            continue
        read = _unit(kinds[group])
        if read is None:
            return None
        unit, multiples = read
        of_kind = np.zeros(len(kinds) + 1, dtype=np.int64)
        of_kind[group] = multiples
        own = np.where(costs > 0, of_kind[at], 0)
        greatest = np.zeros(n_examples, dtype=np.int64)
        np.add.at(greatest, example, own.max(axis=1))
        size = int(greatest.max(initial=0)) + 1
        steps += radix * own
        digits.append((radix, size, unit))
        radix *= size
        if radix > 1 << 40:
            return None
        for cost, multiple in zip(kinds[group].tolist(), multiples.tolist()):
            exact = Fraction(cost)
            deviation = max(deviation, float(abs(multiple * Fraction(unit) - exact) / exact))
        if deviation > 2 * SAME_STEP:  # the unit is among the smallest numbers, which are no more precise
            return None
    totals = np.zeros(n_examples, dtype=np.int64)
    np.add.at(totals, example, steps.max(axis=1))
    most = int(totals.max(initial=0))
    if most >= MOST_LOSSES:
        return None
    every = np.arange(most + 1)
    parts = [(every // place % size) * unit for place, size, unit in digits]
    values = np.sum(parts, axis=0) if parts else np.zeros(1)
    # products and sums of numbers >= 0: each part is rounded once, and each sum of parts once
    rounding = UNIT * (len(digits) + 2)
    return _Numbered(steps, most, np.asarray(values), math.nextafter(deviation, 1.0) + rounding)
