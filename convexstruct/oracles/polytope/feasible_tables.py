"""Tables of the local marginal polytope near given ones: every table is on its simplex, and all agreements hold up to
rounding.

Where the sets of variables on which a clique must agree do not overlap (all graphs of nodes and edges), the target
marginals are the means of those that should agree. Each table is scaled down until no marginal exceeds its target, and
the product of the deficits of its marginals, scaled to the missing mass, is added (Altschuler, Weed, Rigollet 2017,
here for any number of marginals). The tables change by the order of their disagreement. Otherwise the tables are
projected onto the equations alone, and the result is mixed with the uniform tables, with the smallest weight that makes
every entry nonnegative.
"""

from __future__ import annotations

from math import prod

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, cg

from convexstruct import deadline
from convexstruct.arrays import Tensor, Vector
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Port, Tables
from convexstruct.rounding import EPS


def feasible_tables(structure: CliqueTables, tables: Tables, scale: Vector) -> Tables:
    """Tables of the local marginal polytope near ``tables``; tables of the polytope do not change, up to rounding.

    scale : (n_components,) the sum of each table of a component, positive.
    """
    own = [scale[component] for component in structure.component]
    clean = [_simplex(table, z) for table, z in zip(tables, own)]
    if not structure.agreements:
        return clean
    separate = not any(
        g == h and axes != others and set(axes) & set(others)
        for g, axes in structure.ports
        for h, others in structure.ports
    )
    return _filled(structure, clean, own) if separate else _mixed(structure, clean, own)


def _filled(structure: CliqueTables, clean: Tables, own: list[Vector]) -> Tables:
    """Each table scaled down to the target marginals, plus the product of its marginals' deficits."""
    targets = _means(structure, clean)
    for port, target in targets.items():
        now = structure.marginal(clean, *port)
        down = np.minimum(1.0, target / np.where(now > 0, now, 1.0))
        clean[port[0]] = clean[port[0]] * structure.broad(port, down)
    found = []
    for g, table in enumerate(clean):
        lacks = np.maximum(own[g] - table.reshape(len(table), prod(structure.cards[g])).sum(axis=1), 0.0)
        fill = column(lacks, table)
        inverse = 1.0 / np.where(lacks > 0, lacks, np.inf)
        free = set(range(len(structure.cards[g])))
        for port, target in targets.items():
            if port[0] == g:
                lack = np.maximum(target - structure.marginal(clean, *port), 0.0)
                fill = fill * structure.broad(port, lack * column(inverse, lack))
                free -= set(port[1])
        found.append(table + fill / prod(structure.cards[g][axis] for axis in free))
    return found


def _means(structure: CliqueTables, tables: Tables) -> dict[Port, Tensor]:
    """For each port the mean of the marginals that must be equal by the agreements, directly or through others."""
    start: dict[Port, int] = {}
    total = 0
    for port in structure.ports:
        start[port] = total
        total += len(structure.component[port[0]])
    ends = [
        np.concatenate([start[side.group, side.axes] + side.rows for side in sides])
        for sides in zip(*((each.left, each.right) for each in structure.agreements))
    ]
    pairs = sp.coo_array((np.ones(len(ends[0])), (ends[0], ends[1])), shape=(total, total))
    tied = connected_components(pairs, directed=False)[1]
    rows = {port: tied[first : first + len(structure.component[port[0]])] for port, first in start.items()}
    sums: dict[tuple[int, ...], Tensor] = {}
    counts = np.bincount(tied, minlength=total).astype(np.float64)
    for port, at in rows.items():
        cards = structure.kept(port)
        np.add.at(sums.setdefault(cards, np.zeros((total, *cards))), at, structure.marginal(tables, *port))
    found = {}
    for port, at in rows.items():
        mean = sums[structure.kept(port)][at]
        found[port] = mean / column(counts[at], mean)
    return found


def _mixed(structure: CliqueTables, tables: Tables, own: list[Vector]) -> Tables:
    """The tables moved onto the equations by conjugate gradients, then mixed with the uniform ones."""

    def spread(flat: Vector) -> Tables:
        deadline.check()
        shifts = structure.spread(structure.split_multipliers(flat))
        wide = [sum(some, np.zeros(shape)) for some, shape in zip(shifts, structure.shapes)]
        return [table - table.mean(axis=tuple(range(1, table.ndim)), keepdims=True) for table in wide]

    def disagreement(some: Tables) -> Vector:
        return np.concatenate([each.ravel() for each in structure.disagreement(some)])

    size = structure.n_multipliers
    operator = LinearOperator((size, size), matvec=lambda flat: disagreement(spread(flat)), dtype=np.float64)
    rounding = EPS * np.sqrt(size) * max(float(z.max(initial=0.0)) for z in own)
    # each run on the residual of the run before, because one run does not reach the rounding of the data
    for _ in range(3):
        wrong = disagreement(tables)
        if np.linalg.norm(wrong) <= rounding:  # the rest is rounding, for which the equations may have no solution
            break
        step = cg(operator, wrong, rtol=1e-13, atol=rounding, maxiter=10 * size)[0]
        tables = [table - change for table, change in zip(tables, spread(step))]
    share = np.zeros(structure.n_components)
    level = [z / prod(cards) for z, cards in zip(own, structure.cards)]
    for table, uniform, component in zip(tables, level, structure.component):
        low = -table.reshape(len(table), prod(table.shape[1:])).min(axis=1, initial=0.0)
        np.maximum.at(share, component, low / (uniform + low))
    mixed = []
    for table, uniform, component in zip(tables, level, structure.component):
        t = column(share[component], table)
        mixed.append(np.maximum((1.0 - t) * table + t * column(uniform, table), 0.0))
    return mixed


def _simplex(table: Tensor, z: Vector) -> Tensor:
    """Each row's table with negative entries set to 0, scaled to sum to z; uniform where no entry is positive."""
    clean = np.maximum(table, 0.0)
    over = tuple(range(1, table.ndim))
    clean = np.where(clean.sum(axis=over, keepdims=True) > 0, clean, 1.0)
    return np.asarray(clean * (column(z, table) / clean.sum(axis=over, keepdims=True)))


def column(values: Vector, like: Tensor) -> Tensor:
    """``values`` (n,) with axes of length 1 added, so that they broadcast against ``like`` (n, ...)."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))
