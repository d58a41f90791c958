r"""Proved bounds on the rounding of P and D of `MarginalProjection`, computed component by component.

An upper bound needs tables that agree exactly. A table is the sum of one part for each set U of its variables: a
function of U whose sum over each of these variables is 0. Tables agree if their parts are equal for every U that an
agreement holds, and the part of one U can be changed without those of others. So there are exact tables within

    c = sum over U of 2^|U| rho / n_U  +  |sum of a_c - z| / cells,      rho = sum of all |disagreements|,

of a, entry by entry, where n_U is the number of joint labels of the clique's variables outside U, and "cells" that of
all of them. Mixed with the share t = c cells / z of the uniform tables u, they are nowhere negative. By convexity both
changes raise P by at most 2 sum_c d_c^2 (c |a_c - m_c|_1 + cells c^2 / 2) + t (P(u) - P(a)).

A lower bound needs the least value of the Lagrangian

    sum_c d_c^2 / 2 |a_c - m_c|^2 - <xi, disagreement of a> + sum_c mu_c (sum of a_c - z),        mu_c = d_c^2 lambda_c.

It is attained at max(0, m + sigma / d^2 - lambda), where sigma are the multipliers xi of its agreements in each entry.
The computed a differs from that by e, so that the value is at most d^2 e^2 / 2 too large. In each entry
e <= gamma(k) (|m| + |sigma| / d^2 + |lambda| + sum of a), after k operations. For ordinary data the squares of this are
far below one unit in the last place of the value. Where they are not, each entry is bounded (`_lost`): with g the
derivative at a, which without rounding is 0 where a > 0 and at least 0 elsewhere, the value is at most g^2 / (2 d^2)
too large.
"""

from __future__ import annotations

import math
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Side, Tables
from convexstruct.oracles.polytope.local_polytope import Weights, evaluate, unknown
from convexstruct.oracles.polytope.table_columns import Columns
from convexstruct.rounding import TINY, UNIT, Rounded, RoundedArray, gamma, summed, total

#: Entries that are processed together, so that they stay in cache.
CHUNK = 1 << 16
#: d^2 neither overflows nor underflows between these.
LEAST, GREATEST = 1e-290, 1e290


def _flat(table: Tensor) -> Matrix:
    return table.reshape(len(table), prod(table.shape[1:]))


def _inner(rows: Matrix, other: Matrix) -> Vector:
    return np.asarray(np.einsum("ij,ij->i", rows, other))


def _apart(structure: CliqueTables, tables: Tables) -> list[RoundedArray]:
    """For each agreement the disagreement of tables >= 0; (K, cells)."""
    known = {port: structure.marginal(tables, *port) for port in structure.ports}

    def marginal(side: Side) -> RoundedArray:
        found = _flat(known[side.group, side.axes][side.rows])
        return RoundedArray(found, gamma(prod(structure.cards[side.group]) // max(found.shape[1], 1)) * found)

    return [marginal(each.left) - marginal(each.right) for each in structure.agreements]


def upper_bound(structure: CliqueTables, m: Tables, weights: Weights, scale: Vector, a: Tables) -> Rounded:
    """sum_c d_c^2 / 2 |a_c - m_c|^2; its allowance includes the cost of tables near a that agree exactly, and is
    infinite where an entry is negative."""
    n = structure.n_components
    value, uniform, first, second, worst, rho = np.zeros((6, n))
    for gap, agreement in zip(_apart(structure, a), structure.agreements):
        rho += np.bincount(agreement.component, (np.abs(gap.value) + gap.errors).sum(axis=1), n)
    inside, terms = True, []
    for g, (table, given, square, z) in enumerate(zip(a, m, weights.square, weights.scale)):
        rows, component, cells = _flat(table), structure.component[g], prod(structure.cards[g])
        squares, mass, least = _looked_at(rows, _flat(given))
        inside, each, missed = inside and least >= 0, 0.5 * square * squares, mass - z
        near = _spread(structure, g) * rho[component] + (np.abs(missed.value) + missed.errors) / cells
        terms.append(summed(each))
        value += np.bincount(component, each.value, n)
        level, flat = z * z / cells, _flat(given)
        apart = level - 2.0 * z / cells * flat.sum(axis=1) + (size := _inner(flat, flat))
        uniform += np.bincount(component, 0.5 * square * (apart + 1e-9 * (level + size)), n)
        first += np.bincount(component, square * np.sqrt(cells * squares.value) * near, n)
        second += np.bincount(component, 0.5 * square * cells * near**2, n)
        np.maximum.at(worst, component, near * cells / z)
    whole = total(terms)
    if not (inside and math.isfinite(whole)):
        return Rounded(float(whole), math.inf)
    share = np.minimum(worst, 1.0)
    moved = 2.0 * (first + second) + share * (np.maximum(uniform - value, 0.0) + 1e-9 * (np.abs(uniform) + value))
    return Rounded.of(float(whole), whole.allowance, float(np.sum(moved)) * (1.0 + 1e-6))


def _looked_at(rows: Matrix, given: Matrix) -> tuple[Any, Any, float]:
    """(|rows - given|^2, sums of the rows, least entry); the two first with their errors, for rows >= 0."""
    squares, mass, least = np.empty(len(rows)), np.empty(len(rows)), 0.0
    cells = rows.shape[1]
    step = max(1, CHUNK // max(cells, 1))
    for at in range(0, len(rows), step):
        deadline.check()
        cut = slice(at, at + step)
        off = rows[cut] - given[cut]
        squares[cut], mass[cut] = _inner(off, off), rows[cut].sum(axis=1)
        least = float(np.minimum(least, rows[cut].min(initial=0.0)))
    error = gamma(cells + 4) * squares + 4.0 * cells * TINY
    return RoundedArray(squares, error), RoundedArray(mass, gamma(cells) * mass), least


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


def lower_bound(structure: CliqueTables, m: Tables, weights: Weights, multipliers: Tables) -> Rounded:
    """The least value of the Lagrangian at xi, from tables that are its minimiser up to rounding."""
    layout = Columns(structure)
    thresholds = unknown(structure)
    cells = layout.cells(multipliers)
    found, _ = evaluate(layout, layout.tables(m), weights, cells, thresholds)
    a = layout.rows(found)
    terms = [-summed(gap * _flat(xi)) for gap, xi in zip(_apart(structure, a), multipliers)]
    lost, uses = 0.0, _uses(structure)
    for g, (table, given, square, z) in enumerate(zip(a, m, weights.square, weights.scale)):
        many, mu = prod(structure.cards[g]), square * thresholds[g]
        squares, mass, _ = _looked_at(_flat(table), _flat(given))
        terms += [summed(0.5 * square * squares), summed(mu * (mass - z))]
        lost += float(square @ (2.0 * squares.value + (2.0 + many) * mass.value**2 + many * thresholds[g] ** 2))
    ordinary = all(bool((x > LEAST).all() and (x < GREATEST).all()) for x in weights.square)
    if ordinary:  # each entry has at most ``uses`` multipliers; each multiplier is in so many entries of two cliques
        widest = 2.0 * uses * uses * max(map(prod, structure.cards), default=1)
        least = min((float(x.min(initial=math.inf)) for x in weights.square), default=1.0)
        lost += widest * sum(float(np.vdot(xi, xi)) for xi in multipliers) / least
        lost = 4.0 * gamma(uses + 16) ** 2 * (lost + TINY) + sum(16 * TINY * table.size for table in a)
    value = total(terms)
    if not math.isfinite(value):
        return Rounded(-math.inf)
    if not (ordinary and lost <= UNIT * abs(value)):
        lost = _lost(structure, m, weights, multipliers, a, thresholds)
    return Rounded.of(value, value.allowance, lost)


def _uses(structure: CliqueTables) -> int:
    """At least the number of multipliers of one entry, and of the arrays that are added to obtain their sum."""
    most = dict.fromkeys(structure.ports, 1)
    for each in structure.agreements:
        for side in (each.left, each.right):
            most[side.group, side.axes] += int(np.bincount(side.rows).max(initial=0))
    return sum(most.values())


def _lost(
    structure: CliqueTables, m: Tables, weights: Weights, multipliers: Tables, a: Tables, thresholds: list[Vector]
) -> float:
    """The sum of g^2 / d^2 over the entries."""
    shifts, sizes, uses, lost = structure.spread(multipliers), *_sizes(structure, multipliers), 0.0
    for g, (table, given, square) in enumerate(zip(a, m, weights.square)):
        deadline.check()
        rows, mu = _flat(table), square * thresholds[g]
        sigma = _flat(sum(shifts[g], np.zeros(table.shape)))
        large = _flat(sum(sizes[g], np.zeros(table.shape)))
        pull = square[:, None] * (rows - _flat(given))
        slope = pull - sigma + mu[:, None]
        error = gamma(uses + 12) * (np.abs(pull) + large + np.abs(mu)[:, None]) + 8 * TINY * (1.0 + square)[:, None]
        inwards = np.maximum(np.where(rows == 0, -slope, np.abs(slope)) + error, 0.0)
        lost += float((_inner(inwards, inwards) / square).sum())
    return lost


def _sizes(structure: CliqueTables, multipliers: Tables) -> tuple[list[list[Tensor]], int]:
    """For each entry the sum of the magnitudes of its multipliers (as `CliqueTables.spread`), and its most terms."""
    at = {port: np.zeros((len(structure.component[port[0]]), *structure.kept(port))) for port in structure.ports}
    counts = {port: np.zeros(len(structure.component[port[0]]), dtype=np.intp) for port in structure.ports}
    for each, values in zip(structure.agreements, multipliers):
        for side in (each.left, each.right):
            np.add.at(at[side.group, side.axes], side.rows, np.abs(values))
            np.add.at(counts[side.group, side.axes], side.rows, 1)
    found: list[list[Tensor]] = [[] for _ in structure.cards]
    for port, values in at.items():
        found[port[0]].append(structure.broad(port, values))
    most = sum(int(count.max(initial=0)) for count in counts.values())
    return found, most + len(counts)
