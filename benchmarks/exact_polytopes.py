"""Rows of `exact.py` for projections and reduced SDPs, whose optimum is known.

A box's optimum is found from its breakpoints, with z moved to the nearest value that <s, a> can take, as the problem
reads it. For tables m is made such that its projection is a chosen member of the polytope, from numbers with so few
binary digits that m is exact.

In a reduced SDP entries of M lie in [0, 1], and a row is the current one of one pair at most, and the previous one of
one. So where K_ij is positive for rows of one label and at most -2 (0 without pairs) for rows of two, M loses twice
what N gains, and M, N of the labelling are optimal (`planted`); so they are where K is s (M - 11'/kappa) of a balanced
labelling. Where all rows are alike (`alike`), M may be taken as (1 - m) I + m 11', and m is as small as eigenvalues or
as large as (9) lets it: an optimum on the border. `PermutationInvariantMargin` and `RelaxedLoss` are tried by their
formulas, and the former, as the two-class SDP (3), where its optimum is known (`two_class_optimum`).
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.exact import EXACT, RANDOM, ZERO, Exactly, Instance, Row, exactly, short_run
from convexstruct.arrays import Labels, Point, Vector
from convexstruct.families.projection import BoxProjection, MarginalProjection
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.label_exchanges import polytope
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.planted import by_kernel, relations, two_class_optimum
from convexstruct.families.unsupervised_margin.relaxed_loss import RelaxedLoss
from convexstruct.families.unsupervised_margin.rounding import objective

ONE = ZERO + 1
NO_PAIRS = "none"

# -- projections -------------------------------------------------------------------------------------------------------


def optimum(problem: BoxProjection) -> Any:
    """The least value, exactly."""
    data = (problem.m, problem.s, problem.d, problem.lower, problem.upper)
    m, s, d, low, high = (exactly(np.broadcast_to(each, problem.n)) for each in data)
    w = s / (d * d)

    def at(rho: Any) -> Exactly:
        return np.minimum(np.maximum(m - rho * w, low), high)

    def excess(rho: Any) -> Any:
        return s @ at(rho) - problem.z

    bends = {(x - end) / y for x, y, *ends in zip(m, w, low, high) if y for end in ends if EXACT.isfinite(end)}
    knots = sorted(bends or {ZERO})
    knots = [knots[0] - 1, *knots, knots[-1] + 1]
    after = next((k for k, rho in enumerate(knots) if excess(rho) <= 0), len(knots) - 1)
    one, other = knots[max(after - 1, 0)], knots[max(after, 1)]  # beyond all knots the same line goes on, or is level
    fall = excess(one) - excess(other)
    a = at(one + (excess(one) / fall * (other - one) if fall else 0))
    return (d * d * (a - m) ** 2).sum() / 2


def _box(rng: RANDOM, ordinary: bool) -> BoxProjection:
    """A few entries; of one size if ``ordinary``, else each array, or each entry, of any size."""
    n = int(rng.integers(1, 6))

    def sized(values: Vector) -> Vector:
        reach = float(rng.choice([2, 17, 140, 300]))
        exponents = rng.uniform(-reach, reach, size=n if rng.random() < 0.3 else 1)
        return values if ordinary else np.clip(values * 10.0**exponents, -1e300, 1e300)

    m = sized(rng.normal(size=n))
    if rng.random() < 0.3:
        m = m + float(rng.choice([1.0, 1e8, 1e16, 1e17]))
    lower, upper = -np.abs(sized(rng.random(n))) * (rng.random() < 0.6), np.abs(sized(rng.random(n)))
    lower, upper = (np.where(rng.random(n) < 0.2, end, x) for end, x in ((-np.inf, lower), (np.inf, upper)))
    s = rng.choice([-1.0, 0.0, 0.3, 1.0, 2.0], size=n)
    s = s if rng.random() < 0.7 else sized(s)
    d = np.maximum(np.abs(sized(rng.uniform(0.3, 2.0, size=n))), 1e-300)
    inside = np.clip(sized(rng.normal(size=n)), lower, upper)
    if rng.random() < 0.2:  # at a corner of what can be reached
        ends = np.where(s > 0, upper, np.where(s < 0, lower, inside))
        inside = np.where(np.isfinite(ends), ends, inside)
    if rng.random() < 0.3:
        return BoxProjection.simplex(m, float(np.abs(inside).max() or 1.0))
    return BoxProjection(m, lower, upper, s, float(s @ inside), d)


def box(rng: RANDOM, ordinary: bool) -> Instance | None:
    with np.errstate(all="ignore"):
        try:
            problem = _box(rng, ordinary)
            ends = short_run(problem)
        except ValueError:  # z overflows, <s, a> cannot be z, or an overflow on the way
            return None
    least = optimum(problem)
    return Instance(problem, lambda _: least, lambda _: least, ordinary, ends=ends)


GRAPHS = (
    (((0,), (1,), (0, 1)), (2, 3)),
    (((0, 1), (1, 2), (2, 0)), (2, 2, 2)),
    (((0, 1, 2), (1, 2, 3), (3,)), (2, 2, 2, 2)),
    (((0, 1), (1, 2), (2, 3)), (2, 3, 1, 2)),
)


def tables(rng: RANDOM, _: bool) -> Instance:
    """A projection of a few binary digits, and points and multipliers near it and far away."""
    cliques, cards = GRAPHS[int(rng.integers(len(GRAPHS)))]
    z = float(np.ldexp(1.0, int(rng.choice([0, 3, -8, 100, -100]))))
    d = np.ldexp(1.0, rng.integers(-2, 3, size=len(cliques)))
    problem = MarginalProjection.graph(cliques, [np.zeros([cards[v] for v in clique]) for clique in cliques], d, z)
    structure = problem.structure
    a, m = np.zeros((2, structure.n_entries))
    views = structure.split(a)
    for labels in rng.integers(0, cards, size=(4, len(cards))):
        for (group, rows), clique in zip(problem.places, cliques):
            at = np.ravel_multi_index([labels[v] for v in clique], structure.cards[group])
            views[group].reshape(len(views[group]), -1)[rows, at] += z / 4
    unit = z * float(np.ldexp(1.0, int(rng.integers(-6, 7))))
    xi = unit * rng.integers(-8, 9, size=structure.n_multipliers).astype(np.float64)
    least, spread = ZERO, structure.spread(structure.split_multipliers(xi))
    for target, table, shifts, weight in zip(structure.split(m), views, spread, problem.d):
        column = (-1, *(1,) * (table.ndim - 1))
        level = unit * rng.integers(-8, 9, size=len(table)).reshape(column)
        push = unit * rng.integers(0, 9, size=table.shape) * (table == 0)
        square = np.square(weight).reshape(column)
        target[...] = table + (level - sum(shifts, np.zeros(table.shape)) - push) / square
        least += (exactly(np.broadcast_to(square, table.shape)) * (exactly(table) - exactly(target)) ** 2).sum() / 2
    problem = replace(problem, m=m)
    ends = {"a": a}, {"xi": xi}
    off = [{"a": np.maximum(a + 10.0 ** rng.uniform(-17, 0) * z * rng.normal(size=a.shape), 0.0)} for _ in range(3)]
    return Instance(problem, lambda _: least, lambda _: least, True, [*off, *map(problem.repair, off)], ends=ends)


# -- reduced SDPs ------------------------------------------------------------------------------------------------------


def value(problem: UnsupervisedMargin, point: Point) -> Any:
    """omega at a point; of features with the exact inner products."""
    n, kappa = problem.n_rows, problem.n_labels
    features = None if problem.features is None else exactly(problem.features)
    gram = exactly(problem.gram) if features is None else features @ features.T
    gained = (gram * (exactly(point["M"]) - ONE / kappa)).sum() + (exactly(point["N"]) - ONE / kappa**2).sum()
    return n * (1 - ONE / kappa) - gained / (2 * EXACT.mpf(problem.beta))


def alike(rng: RANDOM, _: bool) -> Instance:
    """K = c 11' + d I, without pairs."""
    kappa, n, balance = int(rng.integers(2, 5)), int(rng.integers(4, 9)), float(rng.choice([1e-3, 0.05, 0.1]))
    size, sign = 10.0 ** rng.uniform(-100, 100), float(rng.choice([-1.0, 1.0]))
    kernel = np.full((n, n), sign * size) + np.diag(np.full(n, 2.0 * n * size))
    problem = by_kernel(kernel, [n], kappa, (balance, 1.0), size * float(rng.uniform(0.1, 10)), pairs=NO_PAIRS)
    low, high = (ONE * n / kappa - 1) / (n - 1), (n * (ONE / kappa + balance) - 1) / (n - 1)
    m = min(ONE, high) if sign > 0 else max(ZERO, low)
    best = {"M": np.where(np.eye(n, dtype=bool), 1.0, float(m)), "N": np.zeros((0, 0))}
    least = value(problem, best | {"M": np.where(np.eye(n, dtype=bool), 1, m)})
    u, y = np.full(n, max(float(kernel[0, 1]), 0.0)), rng.normal(size=n) * 10.0 ** rng.uniform(-20, 0) * kernel[0, 0]
    return Instance(problem, lambda _: least, lambda _: least, ends=(best, {"u": u}), witnesses=[{"u": u, "y": y}])


def cancelling(rng: RANDOM, _: bool) -> Instance:
    """omega where one of its sums cancels, or inner products of features do: the value is right from both sides.

    Equal rows under one label add up what their inner products are wrong by; at M = 1/kappa and N = 1/kappa^2, as they
    round, all that is left is what these numbers are wrong by.
    """
    kind, n = str(rng.choice(["features", "equal rows", "N", "M", "none"])), int(rng.integers(4, 9))
    kappa = int(rng.choice([2, 3]))
    options = {"beta": 10.0 ** rng.uniform(-9, 0), "label_balance": 0.5, "pair_balance": 1.0}
    if kind in ("features", "equal rows"):
        one = kind == "equal rows"
        features = rng.normal(size=(1 if one else n, 30)) + np.where(np.arange(30) < 2, 1e6, 0.0)
        problem = UnsupervisedMargin.read([np.broadcast_to(features, (n, 30))], kappa, **options)
        point: Point = dict(zip("MN", relations(problem, np.arange(n) % kappa * (not one))))
        found: Any = problem.primal
    else:
        kernel = np.diag(rng.uniform(1, 2, size=n)) * 10.0 ** rng.uniform(-20, 0) + (kind != "N") / 3.0
        problem = UnsupervisedMargin.read(None, kappa, **options, kernel=kernel, lengths=[n])
        point = {"M": np.full((n, n), 1.0 / kappa), "N": np.full((n - 1, n - 1), 1.0 / kappa**2)}
        if kind in point:
            noise = rng.normal(size=point[kind].shape) * 10.0 ** rng.uniform(0, 6)
            point[kind] = point[kind] + noise - noise.T
        found = lambda point: objective(problem.rounded_gram, kappa, problem.beta, point)  # noqa: E731
    truth, formula = value(problem, point), SimpleNamespace(primal=found, dual=found)
    return Instance(formula, lambda _: truth, lambda _: truth, False, [point], [point])


def _chain(rng: RANDOM) -> UnsupervisedMargin:
    """One chain of four rows with features of any size."""
    features = rng.normal(size=(4, 2)) * 10.0 ** rng.uniform(-6, 6, size=rng.choice([1, 2]))
    beta = 10.0 ** rng.uniform(-6, 6)
    return UnsupervisedMargin.read([features], int(rng.choice([2, 3])), beta=beta, label_balance=0.6)


def exchanges(rng: RANDOM, _: bool) -> Instance:
    """f of a labelling from above, and what some x gains there from below; G by the definition of its vectors."""
    problem = _chain(rng)
    k, n, pairs = problem.n_labels, problem.n_rows, problem.pairs.tolist()
    labels = rng.permutation(np.arange(n) % k)
    keep = exactly(np.eye(k))[labels]
    change = keep - (1 - keep) / (k - 1)
    features, vectors = exactly(problem.features), []
    for i in range(n):
        own = [np.kron(*((keep[p], change[c]) if c == i else (change[p], keep[c]))) for p, c in pairs if i in (p, c)]
        vectors.append([*np.kron(features[i], change[i]), *np.sum(own, axis=0)])
    vectors += [[*[ZERO] * (features.shape[1] * k), *-np.kron(change[p], change[c])] for p, c in pairs]
    gram = np.array(vectors, dtype=object) @ np.array(vectors, dtype=object).T
    at, (matrix, right) = PermutationInvariantMargin(problem), polytope(problem)
    gain = exactly(np.arange(at.size) < n)

    def primal(point: Point) -> Any:
        x, z = exactly(point["x"]), exactly(point["z"])
        image = gram @ x
        left = np.maximum(gain - image / problem.beta - z @ exactly(matrix), 0)
        return x @ image / (2 * problem.beta) + exactly(right) @ z + left.sum()

    def dual(point: Point) -> Any:
        inside = exactly(at._inside_polytope(point["x"]))
        return gain @ inside - inside @ gram @ inside / (2 * problem.beta)

    m, pair = relations(problem, labels)
    drawn = [(rng.normal(size=at.size), rng.random(len(right)) * 10.0 ** rng.uniform(-3, 3)) for _ in range(3)]
    points = [{"M": m, "N": pair, "x": x, "z": z} for x, z in drawn]
    return Instance(at, primal, dual, False, points, [{"x": each["x"]} for each in points])


def two_classes(rng: RANDOM, _: bool) -> Instance:
    """(3) of K = a I + b 11' of any size."""
    n, balance = int(rng.integers(2, 8)), float(rng.choice([1e-3, 0.05, 0.2, 0.7]))
    size, off = 10.0 ** rng.uniform(-100, 100), float(rng.choice([-1.0, 1.0]))
    kernel = size * (np.full((n, n), off) + np.diag(np.full(n, float(rng.integers(n, 2 * n)))))
    beta = size * 10.0 ** rng.uniform(-3, 3)
    data = by_kernel(kernel, [n], 2, (balance, 1.0), beta, pairs=NO_PAIRS)
    problem, best = PermutationInvariantMargin(data), two_class_optimum(kernel, balance, beta)
    return Instance(problem, lambda _: best, lambda _: best, ends=short_run(problem))


def losses(rng: RANDOM, _: bool) -> Instance:
    """Theorem 1's function at exact marginals from below; its tangent there, at any b, from above."""
    problem = _chain(rng)
    k, n, q, beta = problem.n_labels, problem.n_rows, problem.n_pairs, problem.beta
    shapes = {"M": (n, n), "N": (q, q), "C": (n, k), "D": (q, k**2)}
    of = RelaxedLoss(problem, {name: rng.normal(size=shape) for name, shape in shapes.items()})
    gram, given = exactly(problem.features) @ exactly(problem.features).T, {x: exactly(y) for x, y in of.given.items()}
    taken = (gram * given["M"]).sum() + given["N"].sum()

    def parts(point: Point) -> tuple[Exactly, Exactly, Any]:
        mu, nu = exactly(point["mu"]), exactly(point["nu"])
        return mu, nu, ((mu * (gram @ mu)).sum() + (nu.sum(axis=0) ** 2).sum()) / 2

    def attained(point: Point) -> Any:
        mu, nu, square = parts(point)
        linear = (mu * (gram @ given["C"])).sum() + nu.sum(axis=0) @ given["D"].sum(axis=0)
        return n - (mu * given["C"]).sum() + (linear - square - taken / 2) / beta

    def tangent(point: Point) -> Any:
        mu, nu, square = parts(point)
        b, spread = exactly(point["b"]), (given["D"] - nu).sum(axis=0).reshape(k, k)
        scores = gram @ (given["C"] - mu) - beta * given["C"]
        for at, (before, now) in enumerate(problem.pairs.tolist()):
            scores[now] += (spread - b[at][:, None]).max(axis=0)
            scores[before] += b[at]
        return n + (scores.max(axis=1).sum() + square - taken / 2) / beta

    points, witnesses = [], []
    for tilt in (0.0, 1.0, 1.0):
        y = rng.integers(k, size=(8, n))
        each = {"mu": np.eye(k)[y].mean(axis=0), "nu": np.eye(k * k)[y[:, :-1] * k + y[:, 1:]].mean(axis=0)}
        witnesses.append(each)
        points.append(each | {"b": tilt * rng.normal(size=(q, k))})
    return Instance(of, tangent, attained, False, points, witnesses)


def planted(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Four to eight rows whose labelling is optimal; None where its balances leave nothing inside."""
    kappa, n = int(rng.choice([2, 2, 3, 4])), int(rng.integers(4, 9))
    tied = kappa != 3 and bool(rng.random() < 0.3)
    n = max(n - n % kappa, 4) if tied else n
    labels, with_pairs = rng.permutation(np.arange(n) % kappa), not tied and rng.random() < 0.6
    far, reach = np.where(labels == 0, 1.0, -1.0), 0 if with_pairs else -150
    scale = 1.0 if ordinary else 10.0 ** rng.uniform(reach, 150)
    given: dict[str, Any] = {"lengths": [n - n // 2, n // 2] if rng.random() < 0.5 else [n]}
    observations, least = None, 2.0 if with_pairs else 0.0
    if tied:
        same = (labels[:, None] == labels) - 1.0 / kappa  # exact: kappa is 2 or 4
        given["kernel"] = 2.0 ** round(np.log2(scale)) * same
    elif kappa == 2 and rng.random() < 0.4:
        size = np.sqrt(scale) * rng.uniform(max(least, 0.1), 4.0, size=(n, int(rng.integers(1, 4))))
        observations = np.split(far[:, None] * size, np.cumsum(given.pop("lengths"))[:-1])
    else:
        uneven = rng.uniform(0, 12, size=(n, n)) * (rng.random() > ordinary + 0.7)
        size = rng.uniform(least, 4.0, size=(n, n)) * 10.0**uneven
        given["kernel"] = np.where(labels[:, None] == labels, 1.0, -1.0) * np.maximum(size, size.T) * scale
        np.fill_diagonal(given["kernel"], np.abs(given["kernel"]).sum(axis=1))
    off = max(abs(int((labels == s).sum()) * ONE / n - ONE / kappa) for s in range(kappa))
    enough = np.nextafter(float(off), 1.0) if off > 1e-100 else 0.0
    loose = float(rng.choice([1e-300, 1e-15, 1e-9, 0.05, 0.5]))
    given["label_balance"] = max(enough, 0.3 + enough if ordinary else loose)
    given["beta"] = float(rng.uniform(0.1, 10)) if ordinary else 10.0 ** rng.uniform(-300, 300)
    given["pairs"] = "chain" if with_pairs else NO_PAIRS
    try:
        problem = UnsupervisedMargin.read(observations, kappa, pair_balance=1.0, **given)
    except ValueError:
        return None
    best: Point = dict(zip("MN", relations(problem, labels)))
    least_value, kernel, points, witnesses = value(problem, best), float(np.abs(problem.gram).max()) or 1.0, [], []
    safe = problem.feasible.safe if problem.feasible.inside is not None else best

    def noisy(x: Any, by: float) -> Any:
        noise = by * rng.normal(size=x.shape)
        return x + (noise + noise.T if x.ndim == 2 else noise)

    for _ in range(6):
        by, beyond = float(rng.choice([0, 1e-16, 1e-14, 1e-10, 1e-4, 1])), float(rng.choice([0, 1e-15, 1e-8, 0.1]))
        points.append({name: noisy(x + beyond * (x - safe[name]), by) for name, x in best.items()})
        multipliers = tight(problem, labels)
        if tied and rng.random() < 0.6:
            multipliers["P"] = np.zeros_like(multipliers["P"])
        for name in rng.choice(list(multipliers), size=3):
            multipliers[name] = noisy(multipliers[name], by * (1.0 if name[0] in "Wvz" else kernel))
        witnesses.append(multipliers)
    ends = best, tight(problem, labels)
    return Instance(problem, lambda _: least_value, lambda _: least_value, ordinary, points, witnesses, ends)


def tight(problem: UnsupervisedMargin, labels: Labels) -> dict[str, Any]:
    """Multipliers whose bound is the optimum but for rounding: nothing is left for the eigenvalues."""
    n, p2 = problem.n_rows, problem.n_pairs
    now, before = (labels[rows][:, None] == labels[rows] for rows in (problem.current, problem.previous))
    ties = {"W_current": -1.0 * ~now, "W_previous": -1.0 * (now & ~before), "W_pair": np.ones((p2, p2))}
    rest = problem.gram.copy()
    for name, rows in (("W_current", problem.current), ("W_previous", problem.previous)):
        np.subtract.at(rest, np.ix_(rows, rows), ties[name])
    return {"P": rest, "u": np.zeros(n), "y": np.zeros(n), "v": np.zeros(p2), "z": np.zeros(p2), **ties}


ROWS: dict[type, tuple[Row, ...]] = {
    BoxProjection: (box,),
    MarginalProjection: (tables,),
    UnsupervisedMargin: (alike, cancelling, exchanges, losses, planted),
    PermutationInvariantMargin: (two_classes,),
}
