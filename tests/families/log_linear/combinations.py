"""Every combination of model, penalty, weights, partial and forbidden labels, against all labellings written out.

Nothing here uses the oracles: labellings are a product, features are rows of the design, and what is forbidden is read
from the argument that the reader was given.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from convexstruct.arrays import Flags, Labels, Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.families.log_linear import (
    ApproximateField,
    ConditionalRandomField,
    HiddenField,
    MarkovRandomField,
    PseudoLikelihood,
)
from convexstruct.features.graphs.factors import Factors, factors_of_features, tabular_factors
from convexstruct.tolerances import HIGH, ROUNDING

GRAPHS = {"path": nx.path_graph(3), "star": nx.star_graph(3), "cycle": nx.cycle_graph(4)}
PARAMETERS = ("free", "tied", "features")
PENALTIES: dict[str, dict[str, float]] = {
    "none": {},
    "L2": {"beta": 0.7},
    "L1": {"l1": 0.6},
    "elastic": {"C": 0.8, "l1": 0.2},
}
PARTIAL = ("observed", "hidden", "sets")
FORBIDDEN = ("nothing", "pairs", "scopes")


class Combination(NamedTuple):
    """kind : "field" or "conditional". weighted : whether examples have weights. The rest are keys of the tables above;
    a conditional field has the parameters "free" (a table for each pair) and "features" of edges."""

    kind: str
    graph: str
    parameters: str
    penalty: str
    weighted: bool
    partial: str
    forbidden: str


def every() -> list[Combination]:
    """All combinations that the readers have."""
    fields = product(["field"], GRAPHS, PARAMETERS, PENALTIES, (False, True), PARTIAL, FORBIDDEN)
    conditional = product(["conditional"], GRAPHS, PARAMETERS[::2], PENALTIES, (False, True), PARTIAL, FORBIDDEN[:2])
    return [Combination(*each) for each in (*fields, *conditional)]


def forbids(given: Any, graph: nx.Graph, y: tuple[int, ...]) -> bool:
    """Whether ``given``, as the readers take it, forbids the labelling y."""
    if isinstance(given, np.ndarray):
        return any(bool(given[y[min(e)], y[max(e)]]) for e in graph.edges)
    return any(bool(table[tuple(y[v] for v in scope)]) for scope, table in given or [])


def drawn_forbidden(kind: str, cards: list[int], rng: np.random.Generator) -> Any:
    """Labels must not fall by more than 1 along an edge; or a label of a variable, and a pair that is no edge."""
    if kind == "pairs":
        return np.tri(cards[0], k=-1, dtype=bool)
    if kind == "scopes":
        last = len(cards) - 1
        one, pair = np.zeros(cards[1], dtype=bool), rng.random((cards[last], cards[0])) < 0.4
        one[-1], pair[0, 0] = True, False
        return [((1,), one), ((last, 0), pair)]
    return None


def made(each: Combination, seed: int) -> tuple[Any, list[Labels], list[list[int]], list[Matrix], Vector, Labels]:
    """(the problem, the labellings (R, n) of each example that are not forbidden, the rows of them that agree with what
    is known, their features (R, d), C omega of each example, and the truth (m, n)) of one combination."""
    rng = np.random.default_rng(seed)
    graph = GRAPHS[each.graph]
    n, m = len(graph), 5
    cards = [2] * n if each.kind == "conditional" else [3] * n if each.graph == "path" else [2] * n
    forbidden = drawn_forbidden(each.forbidden, cards, rng)
    written = np.array([y for y in product(*map(range, cards)) if not forbids(forbidden, graph, y)])
    truth = written[rng.integers(len(written), size=m)]
    hide = rng.random((m, n)) < 0.4
    hide[0, 0] = True
    known: Flags = truth[:, :, None] == np.arange(cards[0])
    if each.partial != "observed":
        more = hide[:, :, None] if each.partial == "hidden" else rng.random(known.shape) < 0.4
        known = known | more
    weights = rng.uniform(0.5, 2.0, m) if each.weighted else None
    options: dict[str, Any] = {**PENALTIES[each.penalty], "weights": weights, "forbidden": forbidden}
    agree = [[r for r, y in enumerate(written) if known[i, np.arange(n), y].all()] for i in range(m)]
    if each.kind == "conditional":
        inputs = [rng.normal(size=(n, 2)) for _ in range(m)]
        if each.graph != "path":
            options["edges"] = [graph] * m
        of_edges = rng.normal(size=(m, graph.number_of_edges(), 2)) if each.parameters == "features" else None
        if of_edges is not None:
            options["edge_features"] = list(of_edges)
        if each.partial == "observed":
            problem: Any = ConditionalRandomField.read(inputs, list(truth), cards[0], **options)
        else:
            problem = HiddenField.conditional(inputs, list(known), cards[0], **options)
        features = [
            conditional_features(x, graph, None if of_edges is None else of_edges[i], written)
            for i, x in enumerate(inputs)
        ]
    else:
        factors = drawn_factors(each, graph, cards, rng)
        if each.partial == "observed":
            problem = MarkovRandomField.read(factors, truth, **options)
        else:
            given = known if each.partial == "sets" else np.where(hide, -1, truth)
            problem = HiddenField.unconditional(factors, given, **options)
        features = [field_features(factors, written)] * m
    scale = (problem.model if isinstance(problem, HiddenField) else problem).scale
    return problem, [written] * m, agree, features, scale.C * (np.ones(m) if weights is None else weights), truth


def drawn_factors(each: Combination, graph: nx.Graph, cards: list[int], rng: np.random.Generator) -> Factors:
    if each.parameters != "features":
        return tabular_factors(graph, cards, tied=each.parameters == "tied")
    pairs = [tuple(sorted(e)) for e in graph.edges]
    listed = [[(e, rng.normal(size=[cards[v] for v in e])) for e in pairs] for _ in range(3)]
    listed += [[((0, 1, 2), rng.normal(size=cards[:3]))], [((v,), np.eye(cards[v])[0]) for v in graph]]
    return factors_of_features(cards, listed)


def field_features(factors: Factors, written: Labels) -> Matrix:
    """f(y) of each labelling, row by row of the design."""
    design, rows = factors.design.toarray(), []
    for y in written:
        at, total = 0, np.zeros(factors.dimension)
        for scope in factors.scopes:
            shape = [factors.cards[v] for v in scope]
            total += design[at + int(np.ravel_multi_index([y[v] for v in scope], shape))]
            at += math.prod(shape)
        rows.append(total)
    return np.array(rows)


def conditional_features(x: Matrix, graph: nx.Graph, of_edges: Matrix | None, written: Labels) -> Matrix:
    """f(x, y): x_v at the label of v, label after label; then for each feature of an edge its table of pairs."""
    size, rows = int(written.max()) + 1, []
    for y in written:
        node, edge = np.zeros((size, x.shape[1])), np.zeros((1 if of_edges is None else of_edges.shape[1], size, size))
        for v, label in enumerate(y):
            node[label] += x[v]
        for e, (u, v) in enumerate(graph.edges):
            edge[:, y[u], y[v]] += 1.0 if of_edges is None else of_edges[e]
        rows.append(np.concatenate((node.ravel(), edge.ravel())))
    return np.array(rows)


def value_and_gradient(
    features: list[Matrix], agree: list[list[int]], shares: Vector, theta: Vector
) -> tuple[float, Vector]:
    """sum_i C omega_i [ln Z_i - ln Z_i(K_i)] and its gradient, labelling by labelling."""
    value, gradient = 0.0, np.zeros(len(theta))
    for f, rows, share in zip(features, agree, shares):
        for sign, some in ((1.0, f), (-1.0, f[rows])):
            scores = some @ theta
            log_z = np.logaddexp.reduce(scores)
            value += sign * share * log_z
            gradient += sign * share * (np.exp(scores - log_z) @ some)
    return float(value), gradient


def check(each: Combination, seed: int) -> str:
    """Assert that values, gradients, solutions and predictions of one combination are those of the labellings written
    out; what was found at its end: the status of the solution."""
    problem, written, agree, features, shares, truth = made(each, seed)
    rng = np.random.default_rng([seed, 1])
    penalty = problem.penalty

    def P(theta: Vector) -> float:
        fit = value_and_gradient(features, agree, shares, theta)[0]
        return float(fit + 0.5 * penalty.lam * (theta @ theta) + penalty.l1 * np.abs(theta).sum())

    thetas = [size * rng.normal(size=problem.dimension) for size in (0.3, 2.0, 30.0)]
    for theta in thetas:
        found, (value, gradient) = problem.primal({"theta": theta}), value_and_gradient(features, agree, shares, theta)
        assert abs(float(found) - P(theta)) <= ROUNDING * max(1.0, P(theta)), "value"
        assert found.allowance <= ROUNDING * (1.0 + P(theta)), "allowance"
        own, slope = problem.value_and_gradient(theta)
        size = max(1.0, float(np.abs(gradient).max()))
        assert abs(own - value) <= 1e-9 * max(1.0, abs(value)), "fit"
        assert np.abs(slope - gradient).max() <= 1e-9 * size, "gradient"
    solution = solve(problem, tol=HIGH)
    theta = solution.point["theta"]
    at_end = P(theta)
    rounding = ROUNDING * max(1.0, at_end) + 2.0 * solution.certificate.primal_allowance  # theta may have run off
    assert abs(solution.primal - at_end) <= rounding, "value at the end"
    others = [theta + 0.1 * rng.normal(size=len(theta)) for _ in range(4)]
    assert solution.lower_bound <= min(map(P, [*thetas, *others, theta])) + rounding, "lower bound"
    hidden = isinstance(problem, HiddenField)
    convex = not hidden or problem.observed
    if convex and (penalty.lam or penalty.l1):
        assert solution.status.name == "OPTIMAL", f"{solution.status.name}: {solution.message}"
    if convex and not (penalty.lam or penalty.l1):
        assert solution.gap <= HIGH.gap or at_end <= 1e-6 * problem.trivial_value or runs_away(problem, theta), "free"
    if not convex and (penalty.lam or penalty.l1):
        assert problem.stationarity(theta) <= 1e-4, f"stationary to {problem.stationarity(theta):.1e}"
    check_predictions(problem, theta, written, agree, features)
    if each.kind == "field" and not hidden:
        check_samples(problem, theta, written[0], features[0])
        tree = each.graph != "cycle" and each.parameters != "features" and each.forbidden != "scopes"
        check_without_ln_z(problem, truth, shares, written[0], features[0], thetas, tree)
    return solution.status.name


def runs_away(problem: Any, theta: Vector) -> bool:
    model = problem.model if isinstance(problem, HiddenField) else problem
    found = model.runaway(theta) if isinstance(model, ConditionalRandomField) else model.runaway()
    return found is not None


def check_predictions(
    problem: Any, theta: Vector, written: list[Labels], agree: list[list[int]], features: list[Matrix]
) -> None:
    """The prediction, and the completion of what is known, have the greatest score of those that are not forbidden."""
    sets = [(problem.predict(theta), [list(range(len(w))) for w in written])]
    if isinstance(problem, HiddenField):
        sets.append((problem.completed(theta), agree))
    if isinstance(problem, ConditionalRandomField):
        for posterior, every, f in zip(problem.posteriors(theta), written, features):
            p = np.exp(f @ theta - np.logaddexp.reduce(f @ theta))
            shares = [[p[every[:, v] == label].sum() for label in range(2)] for v in range(every.shape[1])]
            np.testing.assert_allclose(posterior, shares, atol=1e-9, err_msg="posteriors")
    for found, rows in sets:
        for y, every, some, f in zip(found, written, rows, features):
            at = np.flatnonzero((every == y).all(axis=1))
            assert len(at) == 1, "a forbidden prediction"
            assert at[0] in some, "a prediction outside what is known"
            scores = f[some] @ theta
            assert f[at[0]] @ theta >= scores.max() - 1e-9 * max(1.0, np.abs(scores).max()), "not the best"


def check_samples(problem: MarkovRandomField, theta: Vector, written: Labels, features: Matrix) -> None:
    """Exact samples are not forbidden, and occur as often as they should."""
    draws, n = 2000, len(written)
    drawn = problem.inference.sample(problem.factors.design @ theta, draws, np.random.default_rng(0))
    at = [np.flatnonzero((written == y).all(axis=1)) for y in drawn]
    assert all(len(one) == 1 for one in at), "a forbidden sample"
    scores = features @ theta
    p = np.exp(scores - np.logaddexp.reduce(scores))
    shares = np.bincount(np.concatenate(at), minlength=n) / draws
    assert (np.abs(shares - p) <= 6.0 * np.sqrt(p * (1 - p) / draws) + 6.0 / draws).all(), "frequencies"


def check_without_ln_z(
    problem: MarkovRandomField,
    truth: Labels,
    shares: Vector,
    written: Labels,
    features: Matrix,
    thetas: list[Vector],
    tree: bool,
) -> None:
    """The pseudolikelihood, conditional by conditional, and the upper bound of the wide field, exact on a tree."""
    given: dict[str, Any] = {"weights": problem.weights, "l1": problem.l1}
    given |= {"beta": problem.scale.lam / problem.scale.C} if problem.scale.lam else {}
    pseudo = PseudoLikelihood.read(problem.factors, truth, **given)
    scale = pseudo.scale.C / problem.scale.C
    for theta in thetas:
        scores, total = features @ theta, 0.0
        for y, share in zip(truth, shares):
            for v in range(len(y)):
                alike = (np.delete(written, v, axis=1) == np.delete(y, v)).all(axis=1)
                own = scores[(written == y).all(axis=1)][0]
                total += scale * share * (np.logaddexp.reduce(scores[alike]) - own)
        found = pseudo.value_and_gradient(theta)[0]
        assert abs(found - total) <= 1e-9 * max(1.0, total), "pseudolikelihood"
        wide = ApproximateField.read(problem.factors, truth, **given)
        exact = MarkovRandomField.read(problem.factors, truth, **given).primal({"theta": theta})
        bound = wide.primal({"theta": theta})
        assert bound.upper >= exact.lower, "the upper bound of the wide field"
        assert not tree or abs(float(bound) - float(exact)) <= 1e-9 * max(1.0, float(exact)), "on a tree"
    solution = solve(pseudo, tol=HIGH)
    if pseudo.penalty.lam or pseudo.penalty.l1:
        assert solution.status.name == "OPTIMAL", "pseudolikelihood not solved"
    theta, open_ = thetas[0], np.array(truth[:2])
    open_[0, 1:] = open_[1, :2] = -1
    fits = [[r for r, y in enumerate(written) if ((row < 0) | (y == row)).all()] for row in open_]
    for one in (problem, pseudo, wide):
        for completed, some in zip(one.predict(theta, open_), fits):
            best = written[some[int((features[some] @ theta).argmax())]]
            np.testing.assert_array_equal(completed, best, "completion of a sample")
