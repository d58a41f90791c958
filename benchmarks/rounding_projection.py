"""Trials of `benchmarks/rounding.py` for projections: optima in rational arithmetic.

A box's optimum is found from its breakpoints in fractions, with z moved to the nearest value that <s, a> can take, as
the problem reads it. For tables the optimum is known by construction: m is made such that its projection is a chosen
member of the polytope, from numbers with so few binary digits that m is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from benchmarks.rounding import Trial
from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.families.projection import BoxProjection, MarginalProjection

#: Points, and multipliers, that are tried on each instance.
EACH = 6


def optimum(problem: BoxProjection) -> Fraction:
    """The least value, exactly."""
    n = problem.n
    m, s, d = ([Fraction(x) for x in np.broadcast_to(each, n).tolist()] for each in (problem.m, problem.s, problem.d))
    low, high = (np.broadcast_to(each, n).tolist() for each in (problem.lower, problem.upper))
    w = [one / (each * each) for one, each in zip(s, d)]

    def at(rho: Fraction) -> list[Fraction]:
        found = []
        for i in range(n):
            a = m[i] - rho * w[i]
            a = max(a, Fraction(low[i])) if np.isfinite(low[i]) else a
            found.append(min(a, Fraction(high[i])) if np.isfinite(high[i]) else a)
        return found

    def excess(rho: Fraction) -> Fraction:
        return sum((x * y for x, y in zip(s, at(rho))), -Fraction(problem.z))

    bends = {(m[i] - Fraction(x)) / w[i] for i in range(n) if w[i] for x in (low[i], high[i]) if np.isfinite(x)}
    knots = sorted(bends or {Fraction(0)})
    knots = [knots[0] - 1, *knots, knots[-1] + 1]
    values = [excess(rho) for rho in knots]
    if values[0] <= 0:  # to the left of all breakpoints, or beyond what can be reached
        one, other = 0, 1
    elif values[-1] >= 0:
        one, other = len(knots) - 2, len(knots) - 1
    else:
        other = next(k for k, value in enumerate(values) if value <= 0)
        one = other - 1
    fall = values[one] - values[other]
    rho = knots[one] + (values[one] / fall * (knots[other] - knots[one]) if fall else 0)
    a = at(rho)
    return sum((x * x * (y - z) ** 2 for x, y, z in zip(d, a, m)), Fraction(0)) / 2


def box(rng: np.random.Generator, ordinary: bool) -> BoxProjection:
    """A few entries; of one size if ``ordinary``, else each array, or each entry, of any size."""
    n = int(rng.integers(1, 6))

    def sized(values: Vector) -> Vector:
        if ordinary:
            return values
        reach = float(rng.choice([2, 17, 140, 300]))
        exponents = rng.uniform(-reach, reach, size=n if rng.random() < 0.3 else 1)
        return np.clip(values * 10.0**exponents, -1e300, 1e300)

    m = sized(rng.normal(size=n))
    if rng.random() < 0.3:
        m = m + float(rng.choice([1.0, 1e8, 1e16, 1e17]))
    lower, upper = -np.abs(sized(rng.random(n))), np.abs(sized(rng.random(n)))
    if rng.random() < 0.4:
        lower = np.zeros(n)
    lower, upper = (np.where(rng.random(n) < 0.2, end, x) for end, x in ((-np.inf, lower), (np.inf, upper)))
    s = rng.choice([-1.0, 0.0, 0.3, 1.0, 2.0], size=n)
    s = s if rng.random() < 0.7 else sized(s)
    d = np.maximum(np.abs(sized(rng.uniform(0.3, 2.0, size=n))), 1e-300)
    with np.errstate(all="ignore"):
        inside = np.clip(sized(rng.normal(size=n)), lower, upper)
        if rng.random() < 0.2:  # at a corner of what can be reached
            inside = np.where(
                np.isfinite(upper) & (s > 0), upper, np.where(np.isfinite(lower) & (s < 0), lower, inside)
            )
        z = float(s @ inside)
    if rng.random() < 0.3:
        return BoxProjection.simplex(m, float(np.abs(inside).max() or 1.0))
    return BoxProjection(m, lower, upper, s, z, d)


def box_trials(rng: np.random.Generator) -> Iterator[Trial]:
    while True:
        ordinary = bool(rng.integers(2))
        try:
            with np.errstate(all="ignore"):
                problem = box(rng, ordinary)
        except ValueError:  # z overflows, or <s, a> cannot be z
            continue
        least = optimum(problem)
        scale = problem.trivial_value
        told = f"{problem}"
        try:
            found = solve(problem)
        except ValueError:  # an overflow on the way
            continue
        n = problem.n
        for k in range(EACH):
            a, rho = found.point["a"], float(found.dual_point["rho"]) if found.dual_point else 0.0
            usual = ordinary and k < 2
            size, of_a, of_rho = 10.0 ** rng.uniform(-300, 300), np.ones(n), 1.0
            if k < EACH // 2:
                size, of_a, of_rho = 10.0 ** rng.uniform(-17, 0), np.abs(a), abs(rho)
            if k:
                with np.errstate(all="ignore"):
                    a = np.clip(a + size * rng.normal(size=n) * of_a, -1e300, 1e300)
                    rho = float(np.clip(rho + size * rng.normal() * of_rho, -1e300, 1e300))
            with np.errstate(all="ignore"):
                point = problem.repair({"a": a})
            yield Trial("primal", problem.primal(point), least, usual and k < 1, scale, told)
            yield Trial("primal", problem.primal({"a": a}), least, False, scale, told)
            yield Trial("dual", problem.dual({"rho": np.array(rho)}), least, usual and k < 1, scale, told)


GRAPHS = (
    (((0,), (1,), (0, 1)), (2, 3)),
    (((0, 1), (1, 2), (2, 0)), (2, 2, 2)),
    (((0, 1, 2), (1, 2, 3), (3,)), (2, 2, 2, 2)),
    (((0, 1), (1, 2), (2, 3)), (2, 3, 1, 2)),
)


def tables(rng: np.random.Generator) -> tuple[MarginalProjection, Vector, Vector, Fraction]:
    """(problem, its projection, multipliers there, the optimum), all of a few binary digits."""
    cliques, cards = GRAPHS[int(rng.integers(len(GRAPHS)))]
    z = float(np.ldexp(1.0, int(rng.choice([0, 3, -8, 100, -100]))))
    d = np.ldexp(1.0, rng.integers(-2, 3, size=len(cliques)))
    empty = [np.zeros([cards[v] for v in clique]) for clique in cliques]
    problem = MarginalProjection.graph(cliques, empty, d, z)
    structure = problem.structure
    a, m = np.zeros((2, structure.n_entries))
    views = structure.split(a)
    for labels in rng.integers(0, cards, size=(4, len(cards))):
        for (group, rows), clique in zip(problem.places, cliques):
            at = np.ravel_multi_index([labels[v] for v in clique], structure.cards[group])
            views[group].reshape(len(views[group]), -1)[rows, at] += z / 4
    unit = z * float(np.ldexp(1.0, int(rng.integers(-6, 7))))
    xi: Vector = unit * rng.integers(-8, 9, size=structure.n_multipliers).astype(np.float64)
    optimum = Fraction(0)
    spread = structure.spread(structure.split_multipliers(xi))
    for target, table, shifts, weight in zip(structure.split(m), views, spread, problem.d):
        column = (-1, *(1,) * (table.ndim - 1))
        level = unit * rng.integers(-8, 9, size=len(table)).reshape(column)
        push = unit * rng.integers(0, 9, size=table.shape) * (table == 0)
        target[...] = table + (level - sum(shifts, np.zeros(table.shape)) - push) / np.square(weight).reshape(column)
        squares = np.broadcast_to(np.square(weight).reshape(column), table.shape)
        for x, y, w in zip(table.ravel().tolist(), target.ravel().tolist(), squares.ravel().tolist()):
            optimum += Fraction(w) * (Fraction(x) - Fraction(y)) ** 2 / 2
    return replace(problem, m=m), a, xi, optimum


def table_trials(rng: np.random.Generator) -> Iterator[Trial]:
    while True:
        problem, a, xi, least = tables(rng)
        scale = problem.trivial_value
        for k in range(EACH):
            near = k < EACH // 2
            size = 10.0 ** (rng.uniform(-17, 0) if near else rng.uniform(-300, 250))
            size = size * float(problem.scale[0]) if near else size
            point, other = (
                a + size * rng.normal(size=a.shape) * bool(k),
                xi + size * rng.normal(size=xi.shape) * bool(k),
            )
            told = f"{problem.structure.cards}, z {problem.scale[0]:g}, off by {size:.1g}"
            usual = k == 0
            for each in (problem.repair({"a": point}), {"a": np.maximum(point, 0.0)}):
                yield Trial("primal", problem.primal(each), least, usual, scale, told)
            yield Trial("dual", problem.dual({"xi": other}), least, usual, scale, told)


def trials(rng: np.random.Generator) -> Iterator[Trial]:
    """Boxes and tables in turns."""
    for both in zip(box_trials(rng), table_trials(rng)):
        yield from both
