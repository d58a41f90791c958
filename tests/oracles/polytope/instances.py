"""Instances that tests of projections share, and their truth: graphs by their cliques, boxes, all active sets."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.oracles.box.projection import Box
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Tables
from convexstruct.tolerances import ROUNDING

#: Graphs by their cliques: a triangle, a junction tree with separators that overlap, one clique within another, a star,
#: a loop of triples, axes in any order.
GRAPHS: dict[str, tuple[list[tuple[int, ...]], list[int]]] = {
    "triangle": ([(0, 1), (1, 2), (2, 0)], [2, 3, 2]),
    "junction tree": ([(0, 1, 2), (3, 1, 2), (3, 4), (2, 5)], [2, 2, 3, 2, 2, 2]),
    "nodes and edges": ([(0,), (1,), (0, 1), (2, 1)], [3, 2, 2]),
    "one clique": ([(0,)], [4]),
    "apart": ([(0, 1), (2,)], [2, 2, 3]),
    "one label": ([(0, 1), (1, 2)], [1, 2, 1]),
    "star": ([(0, 1), (0, 2), (0, 3), (0, 4)], [2, 2, 2, 2, 2]),
    "loop of triples": ([(0, 1, 2), (1, 2, 3), (2, 3, 0), (0, 1, 3)], [2, 2, 2, 2]),
}


def noise(structure: CliqueTables, seed: int) -> Tables:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in structure.shapes]


def flat(arrays: Tables) -> Vector:
    return np.concatenate([np.zeros(0), *(each.ravel() for each in arrays)])


def matrix(structure: CliqueTables) -> Vector:
    """The agreements as a dense matrix, column by column."""
    columns = [flat(structure.disagreement(structure.split(unit))) for unit in np.eye(structure.n_entries)]
    return np.array(columns).T


def enumerated(m: Vector, lower: Vector, upper: Vector, s: Vector, z: float, d: Vector) -> Vector:
    """The projection by every choice of which entries stand at which bound: the cheapest feasible one."""
    best, answer = np.inf, np.full(len(m), np.nan)
    for sides in product((-1, 0, 1), repeat=len(m)):
        at = np.array(sides)
        a = np.where(at < 0, lower, np.where(at > 0, upper, m))
        if not np.isfinite(a).all():
            continue
        free = (at == 0) & (s != 0)
        short = z - s @ a
        weight = np.where(free, s**2 / d**2, 0.0).sum()
        if weight > 0:
            a = a + np.where(free, short / weight * s / d**2, 0.0)
        near = ROUNDING * (1 + np.abs(a).max())
        feasible = abs(s @ a - z) <= near and (a >= lower - near).all() and (a <= upper + near).all()
        value = 0.5 * np.sum(d**2 * (a - m) ** 2)
        if feasible and value < best:
            best, answer = value, a
    return answer


def instance(rng: np.random.Generator, n: int, ties: bool = False) -> tuple[Any, ...]:
    """(m, lower, upper, s, z, d): some s zero or negative, some bounds infinite or equal, z anywhere in its range."""
    m = rng.integers(-2, 3, size=n).astype(float) if ties else rng.normal(size=n)
    lower, upper = -rng.integers(0, 3, size=n) / 2.0, rng.integers(0, 3, size=n) / 2.0
    lower[rng.random(n) < 0.2], upper[rng.random(n) < 0.2] = -np.inf, np.inf
    s = rng.choice([-1.0, 0.0, 1.0, 2.0], size=n)
    d = np.ones(n) if ties else rng.uniform(0.2, 2.0, size=n)
    least, greatest = (min(max(x, -6.0), 6.0) for x in Box.read(m, lower, upper, s, None).attainable())
    z = rng.choice([least, greatest, rng.uniform(least, greatest)])
    return m, lower, upper, s, float(z), d
