r"""Both bounds of `MarginalProjection`, from blocks of components.

**Above.** An upper bound needs tables that agree exactly. A table is the sum of one part for each set U of its
variables: a function of U whose sum over each of these variables is 0. Tables agree if their parts are equal for every
U that an agreement holds, and the part of one U can be changed without those of others. So there are exact tables
within

    c = sum over U of 2^|U| rho / n_U  +  |sum of a_c - z| / cells,      rho = sum of all |disagreements|,

of a, entry by entry, where n_U is the number of joint labels of the clique's variables outside U, and "cells" that of
all of them. Mixed with the share t = c cells / z of the uniform tables u, they are nowhere negative. By convexity both
changes raise P by at most 2 sum_c d_c^2 (c |a_c - m_c|_1 + cells c^2 / 2) + t (P(u) - P(a)).

**Below.** With sigma the sum of the multipliers xi in each entry, the Lagrangian

    sum_c d_c^2 / 2 |a_c - m_c|^2 - <sigma_c, a_c> + d_c^2 lambda_c (sum of a_c - z)

is least at a_c = m_c + b_c, b_c = max(sigma_c / d_c^2 - lambda_c, -m_c), and there it is

    -sum_c d_c^2 (<b_c, b_c + 2 m_c> / 2 + lambda_c z),

a lower bound for every xi and lambda. These lambda are those that `simplex_thresholds` finds on floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.oracles.blocks import BLOCK
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Side, Tables
from convexstruct.oracles.polytope.local_polytope import simplex_thresholds
from convexstruct.rounding import Rounded, RoundedArray, exact, gamma, gammas, maximum, summed, total


def _flat(table: Tensor) -> Matrix:
    return table.reshape(len(table), prod(table.shape[1:]))


def upper_bound(structure: CliqueTables, m: Tables, d: Sequence[Vector], scale: Vector, a: Tables) -> Rounded:
    """sum_c d_c^2 / 2 |a_c - m_c|^2; its allowance includes the cost of tables near a that agree exactly, and is
    infinite where an entry is negative."""
    deadline.check()
    n, terms, inside = structure.n_components, [], True
    rise, spare, worst, rho = np.zeros((4, n))
    for gap, agreement in zip(_apart(structure, a), structure.agreements):
        rho += np.bincount(agreement.component, (np.abs(gap.value) + gap.errors).sum(axis=1), n)
    for g, (component, cards) in enumerate(zip(structure.component, structure.cards)):
        rows, given, z, cells = _flat(a[g]), _flat(m[g]), scale[component], prod(cards)
        half, inside = 0.5 * (exact(d[g]) * d[g]), inside and bool(rows.min(initial=0.0) >= 0.0)
        away = exact(rows) - given
        own, uniform = (away * away).sum(axis=1), np.square((z / cells)[:, None] - given).sum(axis=1)
        missed = exact(rows).sum(axis=1) - z
        near = _spread(structure, g) * rho[component] + (np.abs(missed.value) + missed.errors) / cells
        terms.append(summed(half * own))
        rise += np.bincount(component, half.value * (2.0 * np.sqrt(cells * own.value) + cells * near) * near, n)
        more, slack = uniform - own.value, 1e-9 * (uniform + own.value)
        spare += np.bincount(component, half.value * (more + slack), n)
        np.maximum.at(worst, component, near * cells / z)
    value = total(terms)
    moved = 2.0 * rise + np.minimum(worst, 1.0) * np.maximum(spare, 0.0)
    cost = float(moved.sum()) * (1.0 + 1e-6)
    return Rounded.of(float(value), value.allowance, cost if inside and math.isfinite(value) else math.inf)


def _apart(structure: CliqueTables, tables: Tables) -> list[RoundedArray]:
    """For each agreement the disagreement of tables >= 0; (K, cells)."""
    known = {port: structure.marginal(tables, *port) for port in structure.ports}

    def marginal(side: Side) -> RoundedArray:
        found = _flat(known[side.group, side.axes][side.rows])
        return RoundedArray(found, gamma(prod(structure.cards[side.group]) // max(found.shape[1], 1)) * found)

    return [marginal(each.left) - marginal(each.right) for each in structure.agreements]


def _spread(structure: CliqueTables, group: int) -> float:
    """The sum of 2^|U| / n_U over the sets U of axes that agreements hold."""
    cards = structure.cards[group]
    sets = {
        some
        for g, axes in structure.ports
        if g == group
        for size in range(1, len(axes) + 1)
        for some in combinations(sorted(axes), size)
    }
    return float(sum(2 ** len(some) * prod(cards[axis] for axis in some) / prod(cards) for some in sets))


def lower_bound(structure: CliqueTables, m: Tables, d: Sequence[Vector], scale: Vector, xi: Tables) -> Rounded:
    """The least value of the Lagrangian at xi, by parts of the cliques that stay in the cache."""
    terms = []
    for g, (given, shifts) in enumerate(zip(m, _shifts(structure, xi))):
        z = scale[structure.component[g]]
        size = max(1, BLOCK // (2 * prod(given.shape[1:])))  # each number carries an error
        for low in range(0, len(given), size):
            rows = slice(low, low + size)
            terms.append(_least(given[rows], d[g][rows], z[rows], [shift[rows] for shift in shifts]))
    value = total(terms)
    return value if math.isfinite(value) else Rounded(-math.inf)


def _least(m: Tensor, d: Vector, z: Vector, shifts: Sequence[RoundedArray]) -> Rounded:
    """That of some cliques, at the sums sigma of ``shifts`` and the best lambda.

    m (n, labels ...), d (n,), z (n,). shifts : of the shape of m, or one that broadcasts to it.
    """
    wide, square = (-1, *(1,) * (m.ndim - 1)), exact(d) * d
    moved = [shift / square.reshape(*wide) for shift in shifts]
    x = sum((each.value for each in moved), m)
    lam = exact(simplex_thresholds(np.ascontiguousarray(_flat(x).T), z, np.full(len(z), -math.inf))[0])
    step = -lam.reshape(*wide)
    for each in moved:
        step = step + each
    step = maximum(step, -m)
    lost = (step * (step + 2.0 * m)).reshape(len(m), prod(m.shape[1:])).sum(axis=1)
    return summed(square * (-0.5 * lost - lam * z))


def _shifts(structure: CliqueTables, xi: Tables) -> list[list[RoundedArray]]:
    """`CliqueTables.spread` of xi, with errors."""
    sizes = structure.spread([np.abs(x) for x in xi], (1.0, 1.0))
    return [
        [RoundedArray(x, gammas(count - 1.0) * size) for x, size, count in zip(*each)]
        for each in zip(structure.spread(xi), sizes, structure.uses)
    ]
