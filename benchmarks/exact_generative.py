"""Rows of `exact.py` for generative models: problem (P), and the general objectives (28)-(30).

A maximum over labellings is `Enumerated`; logarithms, penalties and terms have `DIGITS` digits. The dual of (28)-(30)
holds phi, the least of a convex function over the tables and their limits: its minimiser is polished to all digits, and
what it attains is not below the least, so that no correct bound is accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np

from benchmarks.exact import DIGITS, ERROR, ZERO, Exactly, Instance, Row, exactly, number
from benchmarks.exact_labellings import RANDOM, Enumerated
from convexstruct.arrays import Point, Vector
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin import GenerativeMargin
from convexstruct.families.generative_margin.constraints import AffineRows, Ceiling, Floor, KLBall, Tied
from convexstruct.families.generative_margin.objectives import QuadraticPenalty, ReverseKL, uniform
from convexstruct.families.generative_margin.slack_penalties import PENALTIES
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.rounding import GREATEST

#: A parameter of a term times itself is not followed beyond: Lambert's W would need as many digits.
FAR = 10_000


# -- (2)-(5) -----------------------------------------------------------------------------------------------------------


def listed(problem: GenerativeMargin) -> tuple[Enumerated, Any]:
    """(the problem in fractions, its table of labellings)."""
    features, table = problem.features, enumerate_counts(problem.features)
    counts = table.counts.toarray().astype(int)
    a = (counts - counts[table.truth][table.example]).astype(object) + ZERO
    if isinstance(features, NetworkCounts):
        costs: Any = [exactly(features.costs[v][true]) for v, true in zip(features.node, features.examples.truth)]
    else:
        costs = exactly(features.loss_table[features.loss_row][features.chains.flat])  # type: ignore[attr-defined]
    first = np.searchsorted(features.examples.example, np.arange(problem.n_examples + 1))
    here = [range(int(first[k]), int(first[k + 1])) for k in table.example]
    b = np.array([sum((costs[p][s] for p, s in zip(*pair)), ZERO) for pair in zip(here, table.labels)], dtype=object)
    weights = Fraction(problem.eta) * exactly(problem.examples.weights)
    groups = [(weight, a[table.example == k], b[table.example == k]) for k, weight in enumerate(weights)]
    return Enumerated(groups, c=exactly(problem.c)), table


def member_shares(problem: GenerativeMargin, exact: Enumerated, table: Any, given: Point, mass: Any = 1.0) -> list[Any]:
    """What a witness of labellings gives each labelling of each example; ``mass`` times its shares, as they round."""
    first = np.searchsorted(problem.examples.example, np.arange(problem.n_examples + 1))
    p = np.asarray(given["label_shares"]) * mass * problem.examples.weights
    shares, q = [0 * group[2] for group in exact.groups], exactly(np.where(p < 1.0 / GREATEST, 0.0, p))
    for labels, row in zip(given["labels"], q / exactly(problem.examples.weights)):
        for k, alpha in enumerate(shares):
            own, every = labels[first[k] : first[k + 1]], table.labels[table.example == k]
            alpha[np.all(every[:, : len(own)] == own, axis=1)] += row[k]
    return shares


def _blocks(problem: GenerativeMargin) -> list[slice]:
    return [slice(i, j) for i, j in pairwise([*problem.layout.block_start, problem.dimension])]


def feasible(problem: GenerativeMargin, theta: Vector) -> bool:
    """Whether 1'e^theta_i <= 1, in `DIGITS` digits."""
    with mpmath.workdps(DIGITS):
        terms = [mpmath.exp(mpmath.mpf(x)) for x in theta.tolist()]
        return all(mpmath.fsum(terms[block]) <= 1 for block in _blocks(problem))


def generative(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Problem (P): chains and networks; c, eta, losses and weights of any scale unless ``ordinary``."""

    def scale(reach: float = 300.0) -> float:
        return 1.0 if ordinary or rng.random() < 0.5 else float(10.0 ** rng.uniform(-reach, reach))

    n = int(rng.integers(1, 4))
    weights = rng.choice([0.5, 1.0, 2.0, 3.0, 1.0 / 3.0], size=n) * scale(30.0)
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
        problem = GenerativeMargin.hmm(symbols, states, s, m, eta=eta, loss=cost, hidden=hidden, weights=weights)
        told = f"hmm S={s} M={m} lengths={lengths.tolist()} eta={eta:g}"
    else:
        seed = int(rng.integers(1 << 30))
        net = random_network(4, n, states=(2, 3), seed=seed)
        chosen: list[Any] = [rng.choice(4, size=rng.integers(1, 4), replace=False).tolist() for _ in range(n)]
        problem = GenerativeMargin.network(net.graph, net.assignments, chosen, eta=eta, weights=weights)
        told = f"network seed={seed} eta={eta:g}"
    d, layout, kind = problem.dimension, problem.layout, rng.random()
    c = rng.exponential(size=d) + 1e-3
    if kind < 0.4:
        c[rng.random(d) < 0.3] = 0.0 if kind < 0.25 else 10.0 ** rng.uniform(-300, -1)
        c[layout.block_start[layout.block_sum(c) == 0]] = 1.0
    problem = GenerativeMargin(problem.features, c / layout.block_sum(c)[layout.block_of], eta)
    ordinary = bool(ordinary and kind >= 0.4 and layout.block_sizes.max() > 1)  # else the optimum is 0
    exact, table = listed(problem)
    blocks = _blocks(problem)

    def primal(point: Point) -> Any:
        """A repaired point that is infeasible makes any bound wrong."""
        return exact.value(point["theta"]) if feasible(problem, point["theta"]) else np.inf

    def dual(given: Point) -> Any:
        """D at the computed t times the member that a mixture names; None where some v < 0, or of Gibbs measures."""
        if "gibbs" in given:
            return None
        shares = member_shares(problem, exact, table, given)
        t = Fraction(problem.segment(given)[0])
        g, gain = exact.sums(shares)
        v = exact.c - t * (exact.c - g)
        if min(v) < 0:  # the bound is that of a balanced member nearby
            return None
        with mpmath.workdps(DIGITS):
            parts = [number(x) * mpmath.log(number(v[block].sum() / x)) for block in blocks for x in v[block] if x]
            value = [number(t * gain), *parts]
            return mpmath.fsum(value) + mpmath.fsum(map(abs, value)) * ERROR

    points = [theta_of(rng, problem, k % 2 == 0) for k in range(8)]
    mixtures = [each for _ in range(8) for each in witnesses(rng, problem)]
    return Instance(
        problem,
        [(point, ordinary and k % 2 == 0) for k, point in enumerate(points)],
        [(each, ordinary) for each in mixtures],
        primal, dual, told, ordinary, problem.evaluate(problem.uniform()).value if ordinary else 0.0,
    )  # fmt: skip


def theta_of(rng: RANDOM, problem: GenerativeMargin, ordinary: bool) -> Point:
    """A feasible theta: ordinary, or with entries of sizes up to 1e300."""
    theta = rng.normal(size=problem.dimension) * rng.choice([0.01, 1.0, 10.0])
    if rng.random() < 0.2:
        theta = np.log(np.maximum(problem.c, 1e-300))
    if not ordinary:
        far = rng.random(problem.dimension) < 0.3
        theta[far] = -(10.0 ** rng.uniform(-300, 299, size=int(far.sum())))
        if rng.random() < 0.5:
            theta[far] = -1e16 + rng.integers(-9, 9)
    return problem.repair({"theta": theta})


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


# -- (28)-(30) ---------------------------------------------------------------------------------------------------------


def penalty(h: Any, eps: Any) -> Any:
    """h(eps), by its formula."""
    kind = type(h).__name__
    if kind == "Quadratic":
        return number(Fraction(h.slope0)) * eps + number(Fraction(h.kappa)) * eps**2 / 2
    if kind == "Huber":
        delta = number(Fraction(h.delta))
        return eps**2 / (2 * delta) if eps < delta else eps - delta / 2
    if kind == "Power":
        return eps ** number(Fraction(h.p)) / number(Fraction(h.p))
    if kind == "Exponential":
        return number(Fraction(h.scale)) * mpmath.expm1(eps / number(Fraction(h.scale)))
    if kind == "Capped":
        return eps if eps <= h.most else mpmath.inf
    return eps


def conjugate(h: Any, b: Any) -> Any:
    """The largest of b eps - h(eps), by the eps that attains it."""
    kind = type(h).__name__
    if kind == "Quadratic":
        return max(b - number(Fraction(h.slope0)), 0) ** 2 / (2 * number(Fraction(h.kappa)))
    if kind == "Huber":
        return number(Fraction(h.delta)) * b**2 / 2
    if kind == "Power":
        p = number(Fraction(h.p))
        return b ** (p / (p - 1)) * (p - 1) / p
    if kind == "Exponential":
        eps = number(Fraction(h.scale)) * mpmath.log(max(b, 1))
    elif kind == "Capped":
        eps = number(Fraction(h.most)) * (b > 1)
    else:
        return 0
    return b * eps - penalty(h, eps)


def _term(f: Any, at: Exactly) -> Exactly:
    """f by entries."""
    if f is None:
        return 0 * at
    weight = exactly(f.weight)
    if isinstance(f, QuadraticPenalty):
        return np.array([number(w) / 2 * (t - number(a)) ** 2 for w, t, a in zip(weight, at, exactly(f.centre))])
    q = [number(x) for x in exactly(f.q)]
    each = [mpmath.exp(t) * (t - mpmath.log(a)) for t, a in zip(at, q)]
    each = each if f.printed else [x - mpmath.exp(t) + a for x, t, a in zip(each, at, q)]
    return np.array([number(w) * x for w, x in zip(weight, each)], dtype=object)


class _Refused(Exception):
    """The exact minimiser is not followed: too far, not attained, or at lam = 0."""


def _lowest(f: Any, j: int, u: Any, lam: Any) -> Any:
    """argmin over t of f_j(t) - u t + lam e^t."""
    if f is None:
        return mpmath.log(u / lam) if u > 0 else -mpmath.inf
    w = number(exactly(f.weight)[j])
    if isinstance(f, QuadraticPenalty):
        a = number(exactly(f.centre)[j]) + u / w
        if abs(a) > FAR:
            raise _Refused
        return a - mpmath.lambertw(lam / w * mpmath.exp(a)).real
    away = lam / w + (1 if f.printed else 0)
    if away > FAR:
        raise _Refused
    q = number(exactly(f.q)[j])
    root = mpmath.lambertw(max(u / (w * q) * mpmath.exp(away), -mpmath.exp(-1))).real
    return root + mpmath.log(q) - away


def phi(problem: GenerativeMargin, u: Exactly) -> Any:
    """inf of f(theta) - u'theta over the tables and bounds, from above; inf where it is not found."""
    assert problem.general is not None
    limits, f = problem.general.parameters.limits, problem.f
    free = problem.general.parameters.free
    if any(x < 0 for x in u[free]):
        return mpmath.inf
    start = problem.general.parameters.least(np.array([float(x) for x in u]))[2]
    low, high = limits.low, limits.ceiling
    found = np.full(len(u), mpmath.mpf(0), dtype=object)

    def at(log_lam: Any, block: slice) -> tuple[list[Any], Any]:
        each = [
            min(max(_lowest(f, j, u[j], mpmath.exp(log_lam)), mpmath.mpf(low[j])), mpmath.mpf(high[j]))
            for j in range(block.start, block.stop)
        ]
        return each, mpmath.log(mpmath.fsum(map(mpmath.exp, each)))

    try:
        for block in _blocks(problem):
            x, y = mpmath.mpf(start[block.start]), mpmath.mpf(start[block.start]) + mpmath.mpf(10) ** -12
            over, then = at(x, block)[1], at(y, block)[1]
            for _ in range(8):
                if then == over or abs(then) < mpmath.mpf(10) ** (5 - DIGITS):
                    break
                x, over, y = y, then, y - then * (y - x) / (then - over)
                then = at(y, block)[1]
            each, above = at(y + mpmath.mpf(10) ** (8 - DIGITS), block)
            if above > 0 or (above < -1e-40 and y > -400):
                return mpmath.inf
            found[block] = each
    except (_Refused, ZeroDivisionError, ValueError):
        return mpmath.inf
    used = [j for j in range(len(u)) if u[j]]
    return mpmath.fsum(_term(f, found)) - mpmath.fsum(u[j] * found[j] for j in used)


def pieces(rng: RANDOM, problem: GenerativeMargin, ordinary: bool) -> dict[str, Any]:
    """A penalty, a term and limits, any of them or none."""
    layout, given = problem.layout, dict[str, Any]()

    def some() -> float:
        return float(rng.uniform(0.5, 3.0) if ordinary else 10.0 ** rng.uniform(-4, 4))

    kind = PENALTIES[str(rng.choice(list(PENALTIES)))]
    if kind.__name__ == "Power":
        given["h"] = kind(1.0 + min(some(), 8.0))
    elif kind.__name__ == "Capped":
        given["h"] = kind(some() * float(problem.examples.max_loss.max() or 1.0) * 10.0)
    elif kind.__name__ != "Linear":
        given["h"] = kind(some())
    limits: list[Any] = []
    term = rng.integers(4)
    if term == 1:
        given["f"] = QuadraticPenalty(some(), rng.normal(size=layout.dimension) - 1.0)
    elif term == 2:
        given["f"] = ReverseKL(uniform(layout), some(), bool(rng.integers(2)))
        limits.append(given["f"].floor(layout))
    inside = problem.uniform()
    more = [
        lambda: Floor(inside - some()), lambda: Ceiling(inside + min(some(), 1.0)), lambda: KLBall(None, some()),
        lambda: Tied([rng.choice(layout.dimension, size=2).tolist()]),
    ]  # fmt: skip
    G = rng.normal(size=(1, layout.dimension))
    more.append(lambda: AffineRows(G, G @ inside + some()))
    chosen = rng.choice(len(more), size=int(rng.integers(0, 3)), replace=False)
    return {**given, "constraints": [*limits, *(more[k]() for k in chosen)] or None}


def general(rng: RANDOM, ordinary: bool) -> Instance | None:
    """(28)-(30) on the data of (2)-(5)."""
    base = generative(rng, ordinary)
    if base is None:
        return None
    try:
        problem = replace(base.problem, **pieces(rng, base.problem, ordinary))
        _ = problem.capped and problem.inside
    except ValueError:  # the limits contradict each other, or leave too little room
        return None
    if problem.general is None:
        return None
    exact, table = listed(problem)
    c, h, parts = exact.c, problem.general.h, problem.general.parameters
    (G, g), limits = parts.limits.rows, parts.limits
    G, g = exactly(G), exactly(g)

    def met(theta: Any) -> bool:
        bounds = (theta >= limits.low).all() and (theta <= limits.high).all()
        return bool(bounds) and feasible(problem, theta) and not (len(g) and max(G @ exactly(theta) - g) > 0)

    def primal(point: Point) -> Any:
        if not met(point["theta"]):
            return np.inf
        theta = exactly(point["theta"])
        with mpmath.workdps(DIGITS):
            at = np.array([number(x) for x in theta], dtype=object)
            slacks = [number(max((rows @ theta + offsets).max(), 0)) for _, rows, offsets in exact.groups]
            paid = [number(group[0]) * penalty(h, eps) for group, eps in zip(exact.groups, slacks)]
            every = [*(-number(a) * x for a, x in zip(c, at)), *_term(problem.f, at), *paid]
            return mpmath.fsum(every) - ERROR * mpmath.fsum(map(abs, every))

    def dual(given: Point) -> Any:
        if "gibbs" in given:
            return None
        shares = member_shares(problem, exact, table, given, given["mass"])
        t = Fraction(problem.segment(given)[0])
        rest, gain = exact.sums(shares)
        kap = exactly(given["rows"])
        step = c - rest + G.T @ kap
        with mpmath.workdps(DIGITS):
            u = np.array([number(x) for x in c - t * step], dtype=object)
            paid = [
                number(group[0]) * conjugate(h, number(t * share.sum())) for group, share in zip(exact.groups, shares)
            ]
            least = phi(problem, u)
            if not mpmath.isfinite(least):
                return None
            every = [number(t * gain), *(-x for x in paid), -number(t * (kap @ g)), least]
            return mpmath.fsum(every) + ERROR * mpmath.fsum(map(abs, every))

    points = [problem.repair(theta_of(rng, problem, k % 2 == 0)) for k in range(4)]
    mixtures = []
    for each in witnesses(rng, problem):
        most = 0.99 if h.steepest == 1.0 else 3.0
        each["mass"] = rng.uniform(0.0, most, size=problem.n_examples)
        each["rows"] = rng.random(len(g)) * (rng.random(len(g)) < 0.5) * 0.3
        mixtures.append(each)
    return Instance(
        problem, [(point, False) for point in points], [(each, ordinary) for each in mixtures],
        primal, dual, f"{base.told}, {h!r}, {problem.f!r}, {problem.constraints!r}", False, problem.trivial_value,
    )  # fmt: skip


ROWS: dict[type, tuple[Row, ...]] = {GenerativeMargin: (generative, general)}
