"""Rows of `exact.py`: likelihoods, kernel fields and risks, as `Enumerated` in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from benchmarks.exact import ZERO, Instance, Row, exactly, floats
from benchmarks.exact_labellings import RANDOM, Enumerated, indicators, joint, of_edges
from convexstruct.arrays import Point, Vector
from convexstruct.core.driver import solve
from convexstruct.families.gaussian_process import GaussianProcessSequences
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.oracles.enumeration import labellings

# -- likelihoods -------------------------------------------------------------------------------------------------------


def _powers(rng: RANDOM, reach: int) -> float:
    return float(np.ldexp(1.0, int(rng.integers(-reach, reach + 1))))


def conditional(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Conditional random fields on chains, stars or cycles, with and without forbidden pairs and penalties."""
    s, reach = int(rng.integers(1, 4)), 1 if ordinary else int(rng.choice([4, 30, 100]))
    lengths = rng.integers(1, 5 if s < 3 else 4, size=int(rng.integers(1, 4))).tolist()
    labels = [rng.integers(s, size=n) for n in lengths]
    options: dict[str, Any] = {}
    kind, penalty = rng.integers(4, size=2).tolist()
    if kind > 1:
        shape = nx.star_graph if kind == 2 else (lambda n: nx.cycle_graph(n + 1) if n > 1 else nx.path_graph(n + 1))
        options["edges"] = graphs = [shape(n - 1) for n in lengths]
        if rng.integers(2):
            sizes = [graph.number_of_edges() for graph in graphs]
            options["edge_features"] = [_powers(rng, reach) * rng.normal(size=(q, 1)) for q in sizes]
    options |= {"l1": _powers(rng, reach) if penalty % 2 else 0.0} | (
        {"beta": _powers(rng, reach)} if penalty > 1 else {}
    )
    columns = np.array([_powers(rng, reach) for _ in range(2)])
    inputs, options["weights"] = (
        [columns * rng.normal(size=(n, 2)) for n in lengths],
        [_powers(rng, reach) for _ in lengths],
    )
    problem = ConditionalRandomField.read(inputs, labels, s, **options)
    if rng.integers(4) == 0 and s > 1:
        forbidden = rng.random((s, s)) < 0.3
        forbidden[tuple(problem.features.truth[problem.features.edges].T)] = False
        problem = ConditionalRandomField.read(inputs, labels, s, forbidden=forbidden, **options)
    exact = field(problem)
    usual = ordinary and problem.penalty != Penalty()  # without a penalty theta may run away to any size
    best = solve(problem, tol=1e-15, max_iterations=100).point["theta"]
    near = [best * (1.0 + 10.0 ** rng.uniform(-16, 0) * rng.normal(size=len(best))) for _ in range(10)]
    points = [best, 0.0 * best, best * (1 + 1e-9), best * (1 - 1e-9)]
    points += [best + (1.0 if ordinary else 10.0 ** rng.uniform(-6, 3)) * rng.normal(size=len(best)) for _ in range(16)]

    def mixed(theta: Vector) -> Point:
        shares, features = rng.dirichlet(np.ones(3), size=problem.n_examples).T, problem.features
        far = (1.0 if ordinary else 10.0 ** rng.uniform(-3, 3)) * rng.normal(size=len(theta))
        drawn = features.truth if rng.integers(2) else rng.integers(features.n_labels, size=features.n_nodes)
        each = {"gibbs": np.array([theta, far]), "gibbs_shares": shares[:2]}
        return each | {"labels": drawn[None], "label_shares": shares[2:]}

    return Instance(
        problem,
        [({"theta": theta}, usual) for theta in points],
        [(each, usual) for theta in near for each in (problem.witness(theta), mixed(theta))],
        lambda point: exact.value(point["theta"]), lambda _: None, repr(problem), usual, problem.trivial_value,
    )  # fmt: skip


def field(problem: ConditionalRandomField) -> Enumerated:
    """The problem in fractions."""
    features, groups = problem.features, []
    x, z = exactly(features.node_features), of_edges(features)
    for i, (weight, truth) in enumerate(zip(exactly(problem.ceiling), features.split_labels(features.truth))):
        every = labellings([features.n_labels] * len(truth))
        if problem.forbidden is not None:
            pairs = every[:, features.edges[features.edge_example == i] - features.node_start[i]]
            every = every[~problem.forbidden[pairs[..., 0], pairs[..., 1]].any(axis=1)]
        rows = joint(features, i, *indicators(features, i, np.concatenate((truth[None], every))), x, z)
        rows = rows[1:, : problem.dimension] - rows[0, : problem.dimension]
        groups.append((weight, rows, np.full(len(rows), ZERO)))
    return Enumerated(groups, exactly(problem.scale.lam).item(), l1=exactly(problem.l1).item(), soft=True)


def gaussian(rng: RANDOM, ordinary: bool) -> Instance | None:
    """(32) with a few positions. K is a product of whole numbers times a power of two, so semidefinite exactly; if not
    stationary, it is 0 between entries of u that stand at two positions."""
    s, d = rng.integers(1, 4, size=2).tolist()
    lengths, factor = rng.integers(1, 4 if s < 3 else 3, size=int(rng.integers(1, 4))), rng.integers(-3, 4, size=(d, 2))
    reach = 2 if ordinary else int(rng.choice([4, 60, 400]))
    problem = GaussianProcessSequences.from_gram(
        (factor @ factor.T) * _powers(rng, reach),
        [rng.integers(s, size=int(length)) for length in lengths], s,
        places=[rng.integers(d, size=int(length)) for length in lengths],
        eta=_powers(rng, reach) * bool(rng.integers(4)), lam=_powers(rng, reach), stationary=bool(rng.integers(2)),
    )  # fmt: skip
    n, cut, groups = problem.dimension, problem.n_inputs * s, []
    kernel = np.full((n, n), ZERO)
    inputs, steps = np.concatenate(problem.blocks), np.repeat(range(len(problem.blocks)), np.diff(problem.first))
    both = exactly(problem.gram.matrix)[np.ix_(inputs, inputs)] * (steps[:, None] == steps)
    kernel[:cut, :cut] = np.kron(both, np.eye(s, dtype=int).astype(object))
    kernel[range(cut, n), range(cut, n)] = exactly(problem.eta)
    for places in np.split(problem.places, np.cumsum(problem.lengths)[:-1]):
        every, at = labellings([s] * len(places)), np.arange(len(places)) * (not problem.stationary)
        own = [int(np.flatnonzero((inputs == place) & (steps == step))[0]) for place, step in zip(places, at)]
        rows, which = np.zeros((len(every), n), dtype=int), np.arange(len(every))[:, None]
        np.add.at(rows, (which, np.array(own) * s + every), 1)
        np.add.at(rows, (which, cut + (at[:-1] * s + every[:, :-1]) * s + every[:, 1:]), 1)
        groups.append((ZERO + 1, rows.astype(object) + ZERO, np.full(len(rows), ZERO)))
    exact = Enumerated(groups, exactly(problem.lam).item(), exactly(problem.truth), kernel=kernel, soft=True)
    best = solve(problem, tol=1e-15, max_iterations=200).point["u"] if ordinary else np.zeros(n)
    points = [({"u": best}, ordinary)]
    for _ in range(25):
        near = bool(rng.random() < 0.5)
        size = 10.0 ** rng.uniform(*((-17, 1) if near else (-300, 300)))
        points.append(({"u": best * near + size * rng.normal(size=n)}, ordinary and near))
    told = f"{problem.lengths} of {s}, stationary {problem.stationary}, eta {problem.eta:g}, lam {problem.lam:g}"
    scale = float(problem.lengths.sum() * max(1.0, np.log(s)))

    return Instance(
        problem, points, points,
        lambda point: exact.value(point["u"]), lambda _: None, told, ordinary, scale,
    )  # fmt: skip


# -- risks -------------------------------------------------------------------------------------------------------------


def enumerated_risk(problem: RegularizedRisk) -> Enumerated:
    """A risk as its floats say, the shares as real numbers; x is (w, b), a zero piece, if any, the last of a group."""
    loss, X = problem.loss, exactly(problem.X)
    rows = np.full((problem.n_pieces, problem.dimension + problem.n_biases), ZERO)
    of_outputs = exactly(loss.combine).reshape(problem.n_pieces, len(X), loss.n_outputs)
    rows[:, : problem.dimension] = np.tensordot(of_outputs, X, axes=(1, 0)).reshape(problem.n_pieces, -1)
    if problem.n_biases:
        rows[range(problem.n_pieces), problem.dimension + loss.bias_of] = exactly(loss.bias_sign)
    shares = np.full(loss.n_groups, Fraction(1, loss.n_groups if loss.kind == "pieces" else len(X)))
    if problem.weights is not None:
        omega = exactly(problem.weights)
        shares = (omega / omega.sum())[loss.example]
    groups, offsets = [], exactly(loss.offset)
    for share, (i, j) in zip(shares, pairwise(loss.start)):
        more = np.full((int(loss.floor), rows.shape[1]), ZERO)
        groups.append((share, np.concatenate((rows[i:j], more)), np.append(offsets[i:j], more[:, 0])))
    lam = np.array([Fraction(problem.lam)] * problem.dimension + [ZERO] * problem.n_biases, dtype=object)
    return Enumerated(groups, lam)


def risk(rng: RANDOM, _: bool) -> Instance:
    """Both bounds at the optimum rounded to floats, next to it, and far from it."""
    kind = str(rng.choice(["ordinary", "ordinary", "scaled", "cancelling", "extreme"]))
    problem, usual = _risk(rng, kind), kind == "ordinary"
    exact = enumerated_risk(problem)
    least, x, alphas = exact.optimum()
    alpha = np.concatenate([part[: len(part) - problem.loss.floor] for part in alphas])
    best, d, points = floats(x), problem.dimension, []
    for point in _near(rng, best):
        far = 1e-6 * np.abs(point).max(initial=0.0) > 1.0 + np.abs(best).max()  # sums of squares overflow
        with np.errstate(over="ignore"):
            read = problem.as_point({"w": point[:d]} | ({"b": point[d:]} if problem.n_biases else {}))
        points.append((read, usual and not far))
    tried = _near(rng, floats(alpha), problem.shares[problem.group])
    return Instance(
        problem, points, [({"alpha": each}, usual) for each in tried],
        lambda point: exact.value(np.append(point["w"], point.get("b", ()))), lambda _: least,
        f"{kind} {problem.loss.kind}, lam {problem.lam!r}, X {problem.X!r}, weights {problem.weights!r}", usual,
        max(abs(float(exact.value(0 * x))) or 1.0, abs(float(least))) if usual else 0.0,
    )  # fmt: skip


def _near(rng: RANDOM, best: Vector, unit: Vector | None = None) -> list[Vector]:
    """The optimum, one and many roundings away from it, scaled, at random, at the ends of what floats can say."""
    largest, shape = np.finfo(float).max, best.shape
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        tried = [
            best,
            np.nextafter(best, rng.choice([-np.inf, np.inf], size=shape)),
            best * (1 + 1e-15 * rng.normal(size=shape)),
            best * (1 + 10.0 ** rng.uniform(-12, 0) * rng.normal(size=shape)),
            best * rng.choice([0.5, 2.0, -1.0, 1e5]),
            np.zeros_like(best),
            rng.normal(size=shape) * 10.0 ** rng.uniform(-300, 300),
            (np.ones_like(best) if unit is None else unit) * rng.random(shape) * rng.choice([1.0, 3.0]),
        ]
        return [np.clip(np.nan_to_num(point), -largest, largest) for point in tried]


def _risk(rng: RANDOM, kind: str) -> RegularizedRisk:
    """A risk of up to four pieces in up to four unknowns, of any loss, dense or sparse, with and without weights."""
    loss = str(rng.choice(["binary", "binary", "bias", "multiclass", "multilabel", "ordinal", "free", "pieces"]))
    n = {"multiclass": 2, "multilabel": 2, "free": 3, "pieces": 3}.get(loss, int(rng.integers(2, 4)))
    d = 1 if loss in ("multiclass", "multilabel", "free") else int(rng.integers(1, 3))
    X, lam = rng.normal(size=(n, d)), float(10.0 ** rng.uniform(-3, 1))
    weights = rng.uniform(0.2, 3.0, size=n) if rng.random() < 0.4 else None
    if kind == "scaled":  # columns, rows or all far from 1, and lam so that w matters, or not
        size = 10.0 ** rng.uniform(-150, 150)
        X = X * (size if rng.random() < 0.5 else 10.0 ** rng.uniform(-20, 20, size=[(n, 1), (1, d)][rng.integers(2)]))
        lam *= float(np.clip(np.abs(X).max() ** 2, 1e-300, 1e300)) if rng.random() < 0.7 else 1.0
    elif kind == "cancelling":  # a feature that is large and nearly constant, or one example far from the others
        large = 10.0 ** rng.uniform(6, 19)
        X = X + large if rng.random() < 0.5 else np.where(np.arange(n)[:, None] == 0, large, 1.0 + np.round(X))
        lam = float(10.0 ** rng.uniform(-8, 0)) / n
    elif kind == "extreme":
        with np.errstate(over="ignore", under="ignore"):
            X, lam = X * 10.0 ** rng.uniform(-300, 300, size=(n, d)), float(10.0 ** rng.uniform(-300, 300))
        weights = None if weights is None else weights * 10.0 ** rng.uniform(-300, 300, size=n)
    given: Any = sp.csr_array(X) if rng.random() < 0.4 else X
    y = rng.permutation(np.arange(n) % 2)
    if loss in ("binary", "bias"):
        return RegularizedRisk.binary(given, y, lam, bias=loss == "bias", weights=weights)
    if loss == "multiclass":
        return RegularizedRisk.multiclass(given, rng.integers(3, size=n), lam, n_classes=3, weights=weights)
    if loss == "multilabel":
        labels = np.array([[1, 0, 0], [0, 1, 1]])[:, rng.permutation(3)]
        return RegularizedRisk.multilabel(given, labels, lam, weights=weights)
    if loss == "free":
        return RegularizedRisk.ordinal(given, rng.permutation(n), lam, weights=weights)
    if loss == "ordinal":
        return RegularizedRisk.ordinal(given, y, lam, thresholds=[float(rng.normal())], weights=weights)
    together = rng.random() < 0.5
    offsets = rng.normal(size=n) * (10.0 ** rng.uniform(-300, 300) if kind == "extreme" else 1.0)
    example, floor = (None if together else np.arange(n) // 2), bool(rng.random() < 0.5)
    weights = None if weights is None else weights[: 1 if together else 2]
    return RegularizedRisk.pieces(given, offsets, lam, example, floor=floor, weights=weights)


ROWS: dict[type, tuple[Row, ...]] = {
    ConditionalRandomField: (conditional,),
    GaussianProcessSequences: (gaussian,),
    RegularizedRisk: (risk,),
}
