"""Rows of `exact.py` for generative models: (2)-(5), and the general objectives (28)-(30).

All labellings are written out; penalties and terms are the package's own text on exact numbers. The dual of (28)-(30)
holds phi, the least of a convex function over the tables and their limits: what the computed minimiser attains is not
below the least, so that no correct bound is accused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.exact import EXACT, RANDOM, ZERO, Exactly, Instance, Row, exactly, weights
from convexstruct.arrays import Point, Vector
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin import GenerativeMargin
from convexstruct.families.generative_margin.constraints import AffineRows, Ceiling, Floor, KLBall, Tied
from convexstruct.families.generative_margin.objectives import QuadraticPenalty, ReverseKL, uniform
from convexstruct.families.generative_margin.slack_penalties import PENALTIES, Exponential, Linear
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.rounding import GREATEST

#: The smallest theta that is followed: its e^theta is nothing beside others.
LEAST_THETA = -1e6


class Listed:
    """(2)-(5), or (28)-(30), with all labellings written out.

    table : all labellings. groups : by example its weight, the counts of its labellings less those of the truth, and
    their losses. blocks : the entries of theta of each table of probabilities.
    """

    def __init__(self, problem: GenerativeMargin) -> None:
        self.problem, features, table = problem, problem.features, enumerate_counts(problem.features)
        counts = table.counts.toarray().astype(int)
        a = (counts - counts[table.truth][table.example]).astype(object)
        if isinstance(features, NetworkCounts):
            costs: Any = [exactly(features.costs[v][true]) for v, true in zip(features.node, features.examples.truth)]
        else:
            costs = exactly(features.loss_table[features.loss_row][features.chains.flat])  # type: ignore[attr-defined]
        self.first = first = np.searchsorted(features.examples.example, np.arange(problem.n_examples + 1))
        here = [range(first[k], first[k + 1]) for k in table.example]
        b = np.array([sum(costs[p][s] for p, s in zip(*pair)) for pair in zip(here, table.labels)], dtype=object)
        masses = problem.eta * exactly(problem.examples.weights)
        of = [table.example == k for k in range(len(first) - 1)]
        self.groups = [(weight, a[rows], b[rows]) for weight, rows in zip(masses, of)]
        self.labels, self.c = [table.labels[rows] for rows in of], exactly(problem.c)
        self.blocks = [slice(i, j) for i, j in pairwise([*problem.layout.block_start, problem.dimension])]
        self.h = Linear() if problem.general is None else problem.general.h
        limits = None if problem.general is None else problem.general.parameters.limits
        ends: Any = (-np.inf, np.inf) if limits is None else (limits.low, limits.high)
        self.low, self.high = np.broadcast_to(ends[0], problem.dimension), np.broadcast_to(ends[1], problem.dimension)
        self.rows = tuple(map(exactly, limits.rows)) if limits else (exactly(np.zeros((0, len(a[0])))), exactly([]))

    def feasible(self, theta: Vector) -> bool:
        """Whether 1'e^theta_i <= 1, and theta meets its limits."""
        inside = (theta >= self.low).all() and (theta <= self.high).all()
        sums, (G, g) = [np.exp(exactly(theta[block])).sum() for block in self.blocks], self.rows
        return bool(inside) and max(sums) <= 1 and not (len(g) and max(G @ exactly(theta) - g) > 0)

    def primal(self, point: Point) -> Any:
        """P; infinite where theta is not feasible, so that any bound is wrong."""
        return self.value(point["theta"]) if self.feasible(point["theta"]) else np.inf

    def value(self, theta: Vector) -> Any:
        """The formula of P."""
        x = exactly(theta)
        slacks = [np.array([max(ZERO, *(rows @ x + offsets))]) for _, rows, offsets in self.groups]
        paid = [weight * self.h.value(slack).item() for (weight, _, _), slack in zip(self.groups, slacks)]
        return sum(paid) - self.c @ x + (0 if self.problem.f is None else self.problem.f.value(x).sum())

    def dual(self, given: Point) -> Any:
        """D at the computed t times the member that a mixture names; None of Gibbs measures, or where some v < 0."""
        if "gibbs" in given:
            return None
        problem, (G, g) = self.problem, self.rows
        p = np.asarray(given["label_shares"]) * given.get("mass", 1.0) * problem.examples.weights
        shares = exactly(np.where(p < 1.0 / GREATEST, 0.0, p)) / exactly(problem.examples.weights)  # as they round
        t, kap = EXACT.mpf(problem.segment(given)[0]), exactly(given.get("rows", ()))
        mu, value = G.T @ kap, -(kap @ g)
        for k, (weight, rows, offsets) in enumerate(self.groups):
            own = given["labels"][:, self.first[k] : self.first[k + 1]]
            alpha = [sum(shares[(own == y[: own.shape[1]]).all(axis=1), k]) for y in self.labels[k]]
            mu, value = mu + weight * (alpha @ rows), value + weight * (alpha @ offsets)
            mass = max(t * sum(alpha), ZERO + isinstance(self.h, Exponential))  # whose conjugate is 0 up to 1
            value -= weight * self.h.conjugate(np.array([mass])).item() / t if t else 0
        least = self.phi(self.c - t * mu)
        return None if least is None else t * value + least

    def phi(self, u: Exactly) -> Any:
        """At least inf of f(theta) - u'theta over the tables and bounds, by as little as the square of a rounding: the
        computed minimiser, with the entries that are at no bound moved until each table sums to 1. None where some u
        is below 0 that must not be."""
        general, f = self.problem.general, self.problem.f
        found, floats = exactly(np.zeros(len(u))), np.array([float(x) for x in u])
        if general is None:
            if min(u) < 0:
                return None
            for block in self.blocks:
                some = u[block] > 0
                found[block][some] = np.log(u[block][some] / u[block].sum())
            return -(u @ found)
        least, theta, _ = general.parameters.least(floats)
        if not np.isfinite(least) or min(u[general.parameters.free], default=0) < 0:
            return None
        high = general.parameters.limits.ceiling
        theta = np.where(u == 0, np.maximum(theta, LEAST_THETA), theta)
        for block in self.blocks:
            at = exactly(theta[block])
            inner = (theta[block] > self.low[block]) & (theta[block] < high[block]) & (theta[block] > LEAST_THETA)
            rest, mine = (np.exp(at[which]).sum() if which.any() else 0 for which in (~inner, inner))
            if mine and rest < 1 and abs(rest + mine - 1) < 1e-9:
                at[inner] += np.log((1 - rest) / mine)
            elif rest + mine > 1:
                return None
            found[block] = at
        return (0 if f is None else f.value(found).sum()) - u @ found


def generative(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Chains and networks; c, eta, losses and weights of any scale unless ``ordinary``; most with (28)-(30)."""

    def scale(reach: float = 300.0) -> float:
        return 1.0 if ordinary or rng.random() < 0.5 else float(10.0 ** rng.uniform(-reach, reach))

    n = int(rng.integers(1, 4))
    omega = weights(rng, n, True)
    omega = rng.choice([0.5, 1.0, 2.0, 3.0, 1.0 / 3.0], size=n) * scale(30.0) if omega is None else omega
    eta = min(float(rng.uniform(0.05, 3.0)) * scale(), 1e300)
    if rng.random() < 0.5:
        s, m = rng.integers(1, 4, size=2).tolist()
        lengths, hidden = rng.integers(1, 5, size=n), None
        symbols, states = ([rng.integers(k, size=t) for t in lengths] for k in (m, s))
        if rng.random() < 0.4:
            hidden = [rng.random(t) < 0.6 for t in lengths]
            for mask in hidden:
                mask[int(rng.integers(mask.size))] = True
        cost = rng.uniform(0.2, 2.0, size=(s, s)) * (1 - np.eye(s)) * scale()
        cost = cost if ordinary else cost * 10.0 ** rng.uniform(-20, 0, size=(s, s))
        problem = GenerativeMargin.hmm(symbols, states, s, m, eta=eta, loss=cost, hidden=hidden, weights=omega)
    else:
        net = random_network(4, n, states=(2, 3), seed=int(rng.integers(1 << 30)))
        chosen: list[Any] = [rng.choice(4, size=rng.integers(1, 4), replace=False).tolist() for _ in range(n)]
        problem = GenerativeMargin.network(net.graph, net.assignments, chosen, eta=eta, weights=omega)
    d, layout, kind = problem.dimension, problem.layout, rng.random()
    c = rng.exponential(size=d) + 1e-3
    if kind < 0.4:
        c[rng.random(d) < 0.3] = 0.0 if kind < 0.25 else 10.0 ** rng.uniform(-300, -1)
        c[layout.block_start[layout.block_sum(c) == 0]] = 1.0
    problem = GenerativeMargin(problem.features, c / layout.block_sum(c)[layout.block_of], eta)
    usual = bool(ordinary and kind >= 0.4 and layout.block_sizes.max() > 1)  # else the optimum is 0
    if rng.random() < 0.6:
        try:
            problem = replace(problem, **pieces(rng, problem, usual))
            _ = problem.capped and problem.inside
        except ValueError:  # the limits contradict each other, or leave too little room
            return None
        usual = usual and not problem.general
    exact, mixtures = Listed(problem), list[Point]()
    for each in itertools.chain.from_iterable(witnesses(rng, problem) for _ in range(2 if problem.general else 8)):
        if problem.general:
            each["mass"] = rng.uniform(0.0, 0.99 if exact.h.steepest == 1.0 else 3.0, size=n)
            each["rows"] = rng.random(len(exact.rows[1])) * (rng.random(len(exact.rows[1])) < 0.5) * 0.3
        mixtures.append(each)
    points = [problem.repair(theta_of(rng, problem, k % 2 == 0)) for k in range(8)]
    return Instance(problem, exact.primal, exact.dual, usual, points, mixtures)


def theta_of(rng: RANDOM, problem: GenerativeMargin, ordinary: bool) -> Point:
    """Ordinary, or with entries of sizes up to 1e300."""
    theta = rng.normal(size=problem.dimension) * rng.choice([0.01, 1.0, 10.0])
    if not ordinary:
        far = rng.random(problem.dimension) < 0.3
        theta[far] = -(10.0 ** rng.uniform(-300, 299, size=int(far.sum())))
        if rng.random() < 0.5:
            theta[far] = -1e16 + rng.integers(-9, 9)
    return {"theta": theta}


def witnesses(rng: RANDOM, problem: GenerativeMargin) -> Iterator[dict[str, Any]]:
    """Labellings with shares that sum to less than 1, some of them tiny, or are 1/8 each; a Gibbs measure."""
    count, of = int(rng.integers(1, 5)), problem.examples
    shares = rng.dirichlet(np.ones(count + 1), size=problem.n_examples).T[:count] * 0.999
    shares = shares * rng.choice([1.0, 1e-3, 1e-12, 1e-200], p=[0.6, 0.2, 0.1, 0.1])
    if rng.random() < 0.2:
        shares[:] = 0.125
    labels = [np.where(of.free, rng.integers(of.cards), of.truth) for _ in range(count)]
    yield {"labels": np.array(labels), "label_shares": shares}
    theta = rng.normal(size=(1, problem.dimension)) * 10.0 ** rng.uniform(-1, 4)
    share = np.full((1, problem.n_examples), rng.random())
    yield {"gibbs": theta, "gibbs_loss": 10.0 ** rng.uniform(-2, 3, size=1), "gibbs_shares": share}


def pieces(rng: RANDOM, problem: GenerativeMargin, ordinary: bool) -> dict[str, Any]:
    """A penalty, a term and limits, any of them or none."""
    layout, given = problem.layout, dict[str, Any]()

    def some() -> float:
        return float(rng.uniform(0.5, 3.0) if ordinary else 10.0 ** rng.uniform(-4, 4))

    kind = PENALTIES[str(rng.choice(list(PENALTIES)))]
    size = {"Power": 1.0 + min(some(), 8.0), "Capped": some() * float(problem.examples.max_loss.max() or 1.0) * 10.0}
    if kind is not Linear:
        given["h"] = kind(size.get(kind.__name__, some()))
    limits, term, inside = list[Any](), rng.integers(4), problem.uniform()
    if term == 1:
        given["f"] = QuadraticPenalty(some(), rng.normal(size=layout.dimension) - 1.0)
    elif term == 2:
        given["f"] = ReverseKL(uniform(layout), some(), bool(rng.integers(2)))
        limits.append(given["f"].floor(layout))
    G = rng.normal(size=(1, layout.dimension))
    more = [
        lambda: Floor(inside - some()), lambda: Ceiling(inside + min(some(), 1.0)), lambda: KLBall(None, some()),
        lambda: Tied([rng.choice(layout.dimension, size=2).tolist()]), lambda: AffineRows(G, G @ inside + some()),
    ]  # fmt: skip
    chosen = rng.choice(len(more), size=int(rng.integers(0, 3)), replace=False)
    return {**given, "constraints": [*limits, *(more[k]() for k in chosen)] or None}


ROWS: dict[type, tuple[Row, ...]] = {GenerativeMargin: (generative,)}
