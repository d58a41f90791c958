r"""Convex constraints (30) of paper 0 on theta, beside 1'e^{theta_i} <= 1: named pieces, and the limits they come to.

    Floor(l)           theta >= l
    Ceiling(t)         theta <= t
    Tied(groups)       entries of a group are equal
    AffineRows(G, g)   G theta <= g
    KLBall(p, r)       D(p_i || e^theta_i) <= r_i, which is affine:  - p_i'theta_i <= r_i + H(p_i)

A bound is a number for all entries, an array (d,), or a mapping of tables. All of them together are `Limits`: bounds, a
sparse matrix of rows, and groups of entries that are one parameter. `interior` finds a point that meets every limit
with room to spare, or proves that no point meets them: with multipliers kap >= 0 of the rows and bounds, and
v = - G'kap + (floors) - (ceilings) >= 0,

    sum_i [V_i ln V_i - sum_j v_ij ln v_ij] + kap_floor'l - kap_ceiling't - kap'g > 0

is the least of a sum of kap times constraints over 1'e^{theta_i} <= 1, which could not be positive at a feasible theta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import Index, Vector
from convexstruct.brief import brief
from convexstruct.families.generative_margin.distributions import default_c, read_distributions, stacked
from convexstruct.graphs import TableLayout
from convexstruct.marginals.triplets import picks, sums_by
from convexstruct.rounding import UNIT, Rounded, adjoint, binned, dot, entropy, exact, summed
from convexstruct.validation.arguments import refuse
from convexstruct.validation.arrays import real, wholes
from convexstruct.validation.sparse import matrix

#: Rounds of cutting planes at most, each one linear program: ten are usual, balls around tables of 20 labels take 200.
ROUNDS = 400
#: Room, in nats, that is enough for an interior point: more is not looked for.
ENOUGH_ROOM = 1e-3
#: The most room, in nats, by which an interior point is kept from a limit.
MOST_ROOM = 1.0
#: The linear programs look at theta from minus this to 0, in nats: e^-1000 is 0 in double precision.
FAR = 1000.0
#: They begin in a box of so many nats, and look farther only where it leaves no room: an interior point with entries at
#: -1000 is a useless start, and a repair, which moves towards it, pays for them.
NEAR = 10.0


#: Further rows A theta <= a of which (A, a) at theta are the most violated: (m, d) and (m,).
Margins = Callable[[Vector], tuple[sp.csr_array, Vector]]


class Contradiction(ValueError):
    """No theta meets all limits. violation : the least by which one of them is violated, at least.

    proof : the multipliers that prove it: beta (rounds, m) of the margins asked for, kap of the floors, ceilings and
    rows, v (d,) >= 0 with which `Limits.violation` evaluates them.
    """

    def __init__(self, capped: bool, violation: float, proof: dict[str, Any]) -> None:
        what = "h, which caps the slacks, contradicts constraints" if capped else "constraints contradict each other"
        super().__init__(
            f"{what} or 1'e^theta_i <= 1, wanted some theta that meets all: where 1'e^theta_i <= 1 and "
            f"theta > {-FAR:g}, one of them is violated by at least {0.994 * violation:.3g} nats"
        )
        self.violation, self.proof = violation, proof


@dataclass(frozen=True, eq=False)
class Limits:
    """theta in [low, high], G theta <= g, and theta_j = theta_{of_j}.

    low, high (d,) : -inf and inf where there is none. G (m, d) sparse, g (m,). of (d,) : the first entry of each
    entry's group, itself where it is not tied.
    """

    layout: TableLayout
    low: Vector
    high: Vector
    G: sp.csr_array
    g: Vector
    of: Index

    @cached_property
    def rows(self) -> tuple[sp.csr_array, Vector]:
        """All affine rows (n, d) and their right sides (n,): those of G, and two for each tied entry."""
        d, tied = len(self.of), np.flatnonzero(self.of != np.arange(len(self.of)))
        equal = picks(tied, d) - picks(self.of[tied], d)
        every = sp.csr_array(sp.vstack((self.G, equal, -equal), format="csr"))
        return every, np.concatenate((self.g, np.zeros(2 * len(tied))))

    @cached_property
    def inequalities(self) -> tuple[sp.csr_array, Vector]:
        """All limits as rows A theta <= a (n, d) and (n,): floors, ceilings, and the affine rows."""
        below, above = np.flatnonzero(np.isfinite(self.low)), np.flatnonzero(np.isfinite(self.high))
        unit, (G, g) = sp.csr_array(sp.identity(len(self.of), format="csr")), self.rows
        every = sp.csr_array(sp.vstack((-unit[below], unit[above], G), format="csr"))
        return every, np.concatenate((-self.low[below], self.high[above], g))

    @property
    def coupled(self) -> bool:
        """Whether some rows or groups may join several blocks."""
        return len(self.rows[1]) > 0

    @property
    def ceiling(self) -> Vector:
        """min(high, 0): theta <= 0 follows from 1'e^theta_i <= 1."""
        return np.minimum(self.high, 0.0)

    def together(self, theta: Vector) -> Vector:
        """theta with the mean of its group in each entry."""
        if (self.of == np.arange(len(self.of))).all():
            return theta
        members = np.bincount(self.of, minlength=len(self.of))
        return (np.bincount(self.of, weights=theta, minlength=len(self.of)) / np.maximum(members, 1))[self.of]

    @cached_property
    def interior(self) -> Vector:
        """A theta with room to every limit. ValueError, with a proof in numbers, where there is none."""
        theta = self._between_bounds() if not self.coupled else None
        return self._by_planes() if theta is None else theta

    def check(self) -> None:
        """ValueError where there is no `interior`, which is made read-only."""
        self.interior.setflags(write=False)

    def _between_bounds(self) -> Vector | None:
        """The interior of the bounds alone: uniform, lowered in each block until its floors leave room."""
        layout = self.layout
        uniform = -np.log(layout.block_sizes.astype(np.float64))[layout.block_of]
        with np.errstate(divide="ignore"):
            room = -layout.block_logsumexp(self.low)[layout.block_of]  # inf where no floor stands in the block
        room = np.minimum(np.minimum(room, self.high - self.low), MOST_ROOM)
        if not (room > 0).all():
            return None
        found, done = np.zeros_like(uniform), np.zeros(len(layout.block_sizes), dtype=bool)
        for fall in (0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
            tried = np.maximum(np.minimum(uniform, self.high) - fall, self.low + 0.5 * room)
            now = ~done & (layout.block_logsumexp(tried) <= -np.minimum(0.01, 0.1 * least_of(layout, room)))
            found, done = np.where(now[layout.block_of], tried, found), done | now
        return found if done.all() else None

    def within(self, margins: Margins) -> Vector:
        """As `interior`, for a theta that keeps all rows of ``margins`` too, with at least half of the most room that
        there is, up to `MOST_ROOM`. `Contradiction` where there is none."""
        return self._by_planes(margins)

    def _by_planes(self, margins: Margins | None = None) -> Vector:
        """max s : low + s <= theta <= high - s, G theta + s <= g, ln 1'e^theta_i <= -s, by tangents of the last; and
        the same of the rows of ``margins`` at every theta that was met."""
        layout, d = self.layout, len(self.of)
        merge = picks(self.of, d)
        A, a = self.affine
        theta, room = -np.log(layout.block_sizes.astype(np.float64))[layout.block_of], 0.0
        blocks = sums_by(layout.block_of, len(layout.block_sizes))
        rows, sides = [A], [a]
        planes: list[sp.csr_array] = []
        levels: list[Vector] = []
        enough, asked = (ENOUGH_ROOM, None) if margins is None else (MOST_ROOM, margins(theta))
        near = True
        for _ in range(ROUNDS):
            deadline.check()
            level = layout.block_logsumexp(theta)
            share = np.exp(theta - level[layout.block_of])
            planes.append(sp.csr_array(blocks.multiply(share)))
            levels.append(layout.block_sum(share * theta) - level)
            if asked is not None:
                rows.append(asked[0])
                sides.append(asked[1])
            n = sum(map(len, sides))
            every = sp.csr_array(sp.vstack((*rows, *planes), format="csr"))
            right = np.concatenate((*sides, *levels))
            left = sp.hstack((every @ merge, np.ones((every.shape[0], 1))), format="csr")
            for far in (NEAR, FAR) if near else (FAR,):
                box = [*((-far, 0.0) for _ in range(d)), (-FAR, MOST_ROOM)]
                found = scipy.optimize.linprog(np.append(np.zeros(d), -1.0), A_ub=left, b_ub=right, bounds=box)
                if found.x is not None and found.x[d] > ENOUGH_ROOM:
                    break
                near = False
            if found.x is None:
                break
            theta = np.asarray(found.x[:d])[self.of]
            room = min(float(np.min(a - A @ theta, initial=np.inf)), float(-layout.block_logsumexp(theta).max()))
            if margins is not None:
                asked = margins(theta)
                room = min(room, float(np.min(asked[1] - asked[0] @ theta)))
            if room > 0 and room >= min(enough, 0.5 * float(found.x[d])):
                return theta
            if found.x[d] < 0:
                weights = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
                v = np.asarray(every[n:].T @ weights[n:])
                affine = sp.csr_array(every[:n])
                proof = self.violation(affine, right[:n], weights[:n], v)
                if proof > 0:
                    beta = weights[len(a) : n].reshape(len(rows) - 1, 0 if asked is None else len(asked[1]))
                    raise Contradiction(margins is not None, proof, {"beta": beta, "kap": weights[: len(a)], "v": v})
        who = "constraints leave" if margins is None else "h, which caps the slacks, and the constraints leave"
        raise ValueError(
            f"{who} no room (a theta was found with {max(room, 0.0):.1e} nats), wanted some theta that "
            f"meets all of them strictly"
        )

    @cached_property
    def affine(self) -> tuple[sp.csr_array, Vector]:
        """Floors, ceilings and the rows of G as rows A theta <= a."""
        below, above = np.flatnonzero(np.isfinite(self.low)), np.flatnonzero(np.isfinite(self.high))
        d = len(self.of)
        A = sp.csr_array(sp.vstack((-picks(below, d), picks(above, d), self.G), format="csr"))
        return A, np.concatenate((-self.low[below], self.high[above], self.g))

    def violation(self, A: sp.csr_array, a: Vector, kap: Vector, v: Vector) -> float:
        """The certificate at the head of this file for weights kap of the rows A theta <= a and any v >= 0 (d,); what v
        differs by from - A'kap, on entries that are one parameter together, costs `FAR` at most. 0 if none."""
        size = float(kap.sum())
        if not size > 0:
            return 0.0
        kap, v, d = kap / size, v / size, len(self.of)
        rest = -binned(adjoint(A, exact(kap)), self.of, d) - binned(exact(v), self.of, d)
        short = FAR * summed(exact(np.maximum(rest.errors - rest.value, 0.0)))
        mass = binned(exact(v), self.layout.block_of, len(self.layout.block_sizes))
        found: Rounded = summed(entropy(exact(v))) - summed(entropy(mass)) - dot(exact(kap), a) - short
        return max(found.lower, 0.0) / (1.0 + 8.0 * len(kap) * UNIT)


Bound = float | ArrayLike | Mapping[Any, ArrayLike]


@dataclass(frozen=True, eq=False)
class Floor:
    """theta >= at: no probability below e^at. The dual is then finite at every mu, so that no multiplier of (3) need be
    lowered to prove a bound."""

    at: Bound

    __repr__ = brief

    def limits(self, layout: TableLayout) -> Limits:
        return replace(unlimited(layout), low=spread("Floor", self.at, layout))


@dataclass(frozen=True, eq=False)
class Ceiling:
    """theta <= at: no probability above e^at."""

    at: Bound

    __repr__ = brief

    def limits(self, layout: TableLayout) -> Limits:
        return replace(unlimited(layout), high=spread("Ceiling", self.at, layout))


@dataclass(frozen=True, eq=False)
class Tied:
    """Entries of each group are one parameter. groups : lists of entries of theta."""

    groups: Sequence[Sequence[int]]

    __repr__ = brief

    def limits(self, layout: TableLayout) -> Limits:
        of = np.arange(layout.dimension)
        for n, group in enumerate(self.groups):
            entries = wholes(f"Tied groups[{n}]", group, ("entries",), least=0, most=layout.dimension - 1)
            first = np.unique(of[entries])
            of[np.isin(of, first)] = first.min(initial=layout.dimension)
        return replace(unlimited(layout), of=of)


@dataclass(frozen=True, eq=False)
class AffineRows:
    """G theta <= g. G (m, d), dense or sparse; g (m,)."""

    G: Any
    g: ArrayLike

    __repr__ = brief

    def limits(self, layout: TableLayout) -> Limits:
        G = sp.csr_array(matrix("AffineRows G", self.G, "rows", layout.dimension, what="coefficients"))
        return replace(unlimited(layout), G=G, g=real("AffineRows g", self.g, (G.shape[0],)))


@dataclass(frozen=True, eq=False)
class KLBall:
    """D(p_i || e^{theta_i}) <= radius_i in each block. centre : p, one distribution a block, uniform where None.
    radius : nats, at least 0; one number, or one a block."""

    centre: ArrayLike | None
    radius: float | ArrayLike

    __repr__ = brief

    def limits(self, layout: TableLayout) -> Limits:
        p = read_distributions("KLBall centre", default_c(self.centre, layout), layout)
        n = len(layout.block_sizes)
        radius = np.broadcast_to(real("KLBall radius", self.radius, (), (n,), least=0), (n,))
        G = sp.csr_array(sums_by(layout.block_of, n).multiply(-p))
        return replace(unlimited(layout), G=G, g=radius + layout.block_sum(entropy(p)))


#: A named piece of (30); its limits in a layout are ``limits(layout)``, a ValueError if it does not fit.
Constraint = Floor | Ceiling | Tied | AffineRows | KLBall


def unlimited(layout: TableLayout) -> Limits:
    """No limits."""
    d = layout.dimension
    empty = sp.csr_array((0, d))
    return Limits(layout, np.full(d, -np.inf), np.full(d, np.inf), empty, np.zeros(0), np.arange(d))


def joined(constraints: Sequence[Constraint], layout: TableLayout) -> Limits:
    """The limits of all pieces together. ValueError if a piece is none."""
    found = unlimited(layout)
    for piece in constraints:
        if not isinstance(piece, Constraint):
            refuse("constraints", piece, "Floor, Ceiling, Tied, AffineRows or KLBall")
        new = piece.limits(layout)
        of = found.of
        for j in np.flatnonzero(new.of != np.arange(len(of))):
            pair = of[[j, new.of[j]]]
            of = np.where(np.isin(of, pair), pair.min(), of)
        G = sp.csr_array(sp.vstack((found.G, new.G), format="csr"))
        g = np.concatenate((found.g, new.g))
        found = Limits(layout, np.maximum(found.low, new.low), np.minimum(found.high, new.high), G, g, of)
    return found


def spread(name: str, value: Any, layout: TableLayout) -> Vector:
    """A bound, a weight or a centre as a vector (d,): one number for all, an array, or a mapping of some tables."""
    if isinstance(value, Mapping):
        value = stacked(name, value, layout, finite=True)
    return np.array(np.broadcast_to(real(name, value, (), (layout.dimension,)), (layout.dimension,)))


def least_of(layout: TableLayout, values: Vector) -> Vector:
    """The least of ``values`` (d,) in each block."""
    return np.asarray(np.minimum.reduceat(values, layout.block_start))
