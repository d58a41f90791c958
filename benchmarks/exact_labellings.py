"""Rows of `exact.py` whose every labelling is written out: five families are one formula in fractions, `Enumerated`.

A lower bound is held against the exact D at its witness where that says more than weak duality: labellings as they
stand, Gibbs measures by enumeration, marginals as the distribution they are read as. Where rounding leads to another
distribution than exact arithmetic, a bound on the difference is added. Elsewhere the optimum is polished in many digits
(smooth problems) or found by its active sets (risks).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import networkx as nx
import numpy as np
import scipy.sparse as sp

from benchmarks.exact import (
    DIGITS,
    SCALES,
    ZERO,
    Exactly,
    Instance,
    Row,
    exactly,
    gibbs,
    number,
    numbers,
    root,
    solved,
)
from convexstruct.arrays import Point
from convexstruct.core.driver import solve
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.oracles.enumeration import labellings
from convexstruct.rounding import UNIT

RANDOM = np.random.Generator


@dataclass(frozen=True)
class Enumerated:
    """min over x of lam/2 x'Kx + l1 |x|_1 - c'Kx + sum_g weight_g M(rows_g K x + offsets_g), in fractions.

    M is the largest entry or, where ``soft``, ln sum e^entry. groups : (weight, rows (L, d), offsets (L,)), a row a
    labelling. lam : one, or one an entry of x. kernel (d, d) : K; None for the identity. positive : entries of x that
    are at least 0.
    """

    groups: list[tuple[Any, Exactly, Exactly]]
    lam: Any = ZERO
    c: Any = ZERO
    l1: Any = ZERO
    kernel: Exactly | None = None
    soft: bool = False
    positive: Any = ()

    def times(self, x: Exactly) -> Exactly:
        return x if self.kernel is None else self.kernel @ x

    def value(self, x: Any) -> Any:
        """The objective; not below it by more than `ERROR` where it is not rational."""
        x = exactly(x) if np.asarray(x).dtype != object else x
        y = self.times(x)
        value = (self.lam * x * y).sum() / 2 + (self.l1 * abs(x)).sum() - (self.c * y).sum()
        scores = [(weight, rows @ y + offsets) for weight, rows, offsets in self.groups]
        value += sum(weight * each.max() for weight, each in scores)
        if not self.soft:
            return value
        with mpmath.workdps(DIGITS):
            rest = mpmath.fsum(number(weight) * gibbs(each)[1] for weight, each in scores)
            return number(value) + rest

    def sums(self, shares: Sequence[Exactly]) -> tuple[Exactly, Any]:
        """(c less the weighted rows, the weighted offsets) at shares of the labellings, an array a group."""
        parts = [(weight * share, rows, offsets) for share, (weight, rows, offsets) in zip(shares, self.groups)]
        return self.c - sum(share @ rows for share, rows, _ in parts), sum(
            share @ offsets for share, _, offsets in parts
        )

    def gibbs_at(self, y: Exactly, factor: Any = 1) -> list[Exactly]:
        """Gibbs distributions of the rows' scores, and of ``factor`` times the offsets."""
        return [gibbs(rows @ y + factor * offsets)[0] for _, rows, offsets in self.groups]

    def square(self, g: Exactly) -> Any:
        """|g|^2 in the geometry of K, where entries >= 0 count if they pull x up."""
        g = np.array([max(x, ZERO) if i in self.positive else x for i, x in enumerate(g)], dtype=object)
        return g @ self.times(g)

    def ray(self, g: Exactly, gain: Any, away: Any = ZERO) -> Any:
        """The largest of t gain - t^2 |g|^2 / (2 lam) over 0 <= t <= 1, |g| less by ``away``."""
        square = self.square(g)
        if away:
            square = max(root(square) - away, ZERO) ** 2
        t = min(ZERO + 1, self.lam * gain / square) if square else ZERO + 1
        return t * gain - t * t * square / (2 * self.lam)

    def norms(self) -> list[Any]:
        """The length of the longest row of each group."""
        return [root(max(row @ self.times(row) for row in rows)) for _, rows, _ in self.groups]

    def optimum(self) -> tuple[Fraction, Exactly, Exactly]:
        """(least value, x, multipliers) of a problem without K or c. At an optimum each group has a set of rows that
        are largest together: for every choice of such sets the objective is a quadratic on an affine space."""
        found = (
            self._least(chosen) for chosen in itertools.product(*(_subsets(len(rows)) for _, rows, _ in self.groups))
        )
        return min((each for each in found if each is not None), key=lambda each: each[0])

    def _least(self, chosen: Sequence[tuple[int, ...]]) -> tuple[Fraction, Exactly, Exactly] | None:
        """The least value where the chosen rows are equal, were they the largest; None where it is not unique."""
        size, ties = self.groups[0][1].shape[1], sum(map(len, chosen)) - len(chosen)
        if ties > size:
            return None
        matrix, right, at = np.full((size + ties, size + ties), ZERO), np.full(size + ties, ZERO), size
        matrix[range(size), range(size)] = self.lam
        for (weight, rows, offsets), (first, *others) in zip(self.groups, chosen):
            right[:size] -= weight * rows[first]
            for p in others:
                matrix[at, :size] = matrix[:size, at] = rows[p] - rows[first]
                right[at] = offsets[first] - offsets[p]
                at += 1
        found = solved(matrix, right)
        if found is None:
            return None
        tied, alphas = iter(found[size:]), []
        for (weight, rows, _), (first, *others) in zip(self.groups, chosen):
            alpha = np.full(len(rows), ZERO)
            alpha[others] = parts = [next(tied) for _ in others]
            alpha[first] = weight - sum(parts)
            alphas.append(alpha)
        return self.value(found[:size]), found[:size], alphas


def _subsets(n: int) -> list[tuple[int, ...]]:
    return [some for k in range(1, n + 1) for some in itertools.combinations(range(n), k)]


# -- labels on graphs --------------------------------------------------------------------------------------------------


def indicators(features: Any, i: int, every: Any) -> tuple[Exactly, Exactly]:
    """Which labels the nodes (L, n, S), and which pairs the edges (L, q, S, S) of an example have, by labelling."""
    node = np.eye(features.n_labels, dtype=int).astype(object)[every]
    u, v = (features.edges[features.edge_example == i] - features.node_start[i]).T
    return node, node[:, u, :, None] * node[:, v, None, :]


def joint(features: Any, i: int, node: Exactly, edge: Exactly, x: Exactly, z: Exactly) -> Exactly:
    """Joint features (L, d) at such tables, or at tables of marginals; x, z : the features of all nodes and edges."""
    here = slice(features.node_start[i], features.node_start[i + 1])
    of_nodes = np.tensordot(node, x[here], axes=(1, 0))  # (L, S, F)
    of_edges = np.moveaxis(np.tensordot(edge, z[features.edge_example == i], axes=(1, 0)), 3, 1)  # (L, K, S, S)
    if features.associative:
        of_edges = of_edges[:, :, range(features.n_labels), range(features.n_labels)]
    return np.concatenate([part.reshape(len(node), -1) for part in (of_nodes, of_edges)], axis=1)


def of_edges(features: Any) -> Exactly:
    given = features.edge_features
    return exactly(np.ones((features.n_edges, features.n_edge_features)) if given is None else given)


def halves(features: Any, i: int) -> tuple[Exactly, Exactly]:
    """The vertices of the local polytope of two labels: node marginals 0, 1/2 and 1."""
    nodes, edges = [], []
    ends = features.edges[features.edge_example == i] - features.node_start[i]
    for twice in itertools.product((0, 1, 2), repeat=int(features.lengths[i])):  # 2 mu_v(1)
        pairs = [(twice[u], twice[v]) for u, v in ends]
        both = [{max(0, p + q - 2), min(p, q)} for p, q in pairs]  # 2 mu_e(1, 1) is one of these
        for choice in itertools.product(*both):
            nodes.append([[2 - m, m] for m in twice])
            edges.append([[[2 - p - q + b, q - b], [p - b, b]] for (p, q), b in zip(pairs, choice)])
    half = Fraction(1, 2)
    return np.array(nodes, dtype=object) * half, np.array(edges, dtype=object).reshape(len(nodes), -1, 2, 2) * half


# -- structural SVMs ---------------------------------------------------------------------------------------------------

#: Graph, number of labels, options of `StructuredSVM.read`.
KINDS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("chain", 2, {}),
    ("chain", 3, {}),
    ("none", 3, {}),
    ("tree", 2, {}),
    ("tree", 3, {"n_edge_features": 2}),
    ("cycle", 2, {}),
    ("cycle", 2, {"n_edge_features": 1}),
    ("cycle", 2, {"associative": True, "inference": "minimum_cut", "n_edge_features": 1}),
    ("cycle", 3, {"associative": True, "inference": "expansion"}),
    ("tree", 2, {"inference": "relaxed"}),
    ("cycle", 2, {"inference": "relaxed"}),
)
#: Share of the instances that come with a kernel.
KERNELS = 0.1


class Margin:
    """A structural SVM in fractions, over labellings, or over vertices of the local polytope where it is relaxed."""

    def __init__(self, problem: StructuredSVM, kernel: Any = None) -> None:
        self.problem, features = problem, problem.features
        self.x = exactly(np.eye(features.n_nodes) if kernel is not None else features.node_features)
        self.z, self.costs = of_edges(features), exactly(problem.loss.costs)
        self.every = [labellings([features.n_labels] * int(n)) for n in features.lengths]
        nodes = [slice(*ends) for ends in pairwise(features.node_start)]
        self.of = list(zip(nodes, features.split_labels(features.truth)))
        self.ceiling, groups = exactly(problem.scale.C) * exactly(problem.weights), []
        for i, every in enumerate(self.every):
            tables = halves(features, i) if problem.oracle.relaxed else indicators(features, i, every)
            groups.append((self.ceiling[i], *self.rows(i, *tables)))
        d, s, whole = groups[0][1].shape[1], features.n_labels, None
        if kernel is not None:
            whole = np.eye(d, dtype=int).astype(object) + ZERO
            whole[: s * len(kernel), : s * len(kernel)] = np.kron(np.eye(s, dtype=int).astype(object), exactly(kernel))
        bound = range(s * features.n_node_features, d) if features.associative else ()
        self.exact = Enumerated(groups, exactly(problem.lam).item(), kernel=whole, positive=bound)
        self.scored = self.exact if kernel is None else Margin(problem).exact  # scores are of the computed features

    def rows(self, i: int, node: Exactly, edge: Exactly) -> tuple[Exactly, Exactly]:
        """e(y) (f(x, y) - f(x, y*)) and the loss, of labellings y as tables."""
        features, (nodes, labels) = self.problem.features, self.of[i]
        own = joint(features, i, *indicators(features, i, labels[None]), self.x, self.z)
        rise = joint(features, i, node, edge, self.x, self.z) - own
        loss = (node * self.costs[nodes]).sum(axis=(1, 2))
        if self.problem.loss.zero_one:
            loss = np.array([int(np.any(table.argmax(axis=1) != labels)) for table in node], dtype=object) + ZERO
        return (rise * loss[:, None] if self.problem.scaling == "slack" else rise), loss

    def dual(self, witness: Point, above: bool = True) -> Any:
        """The largest D at t times the witness, 0 <= t <= 1, its shares scaled to sum to at most 1.

        ``above``: plus a bound on the effect of the rounding of the computed distributions, so that no correct bound is
        larger. Otherwise without it: a lower bound on the optimum. None where no bound on that effect is known."""
        if "node_marginals" in witness:
            witness = {"marginal_shares": np.ones(self.problem.n_examples), **witness}
        kind = next((kind for kind in ("label", "gibbs", "marginal") if f"{kind}_shares" in witness), "none")
        if kind == "none":
            return ZERO
        features, shares = self.problem.features, exactly(np.atleast_2d(witness[f"{kind}_shares"]))
        sums = np.maximum(shares.sum(axis=0), ZERO + 1)
        shares = shares / sums
        if np.any((shares > 0) & (shares * self.ceiling <= exactly(1e-290))):
            return None  # so small a share may be rounded to a larger one, which may prove more
        away = np.where(sums > 1, 8 * exactly(UNIT), ZERO)  # the scaling is rounded
        if kind == "gibbs":
            alphas = [0 * losses for _, _, losses in self.exact.groups]
            for theta, b, row in zip(witness["gibbs"], witness["gibbs_loss"], shares):
                # rounding moves scores by a few units of the sum of their terms, at most
                terms = (abs(self.x).sum() + abs(self.z).sum()) * max(abs(exactly(theta)))
                moved = exactly(UNIT) * (1024 + 512 * (terms + exactly(b) * self.costs.sum()))
                if not moved < 1e-3:
                    return None
                away = np.maximum(away, 2 * moved)
                for alpha, q, share in zip(alphas, self.scored.gibbs_at(exactly(theta), exactly(b).item()), row):
                    alpha += share * q
            g, gain = self.exact.sums(alphas)
        else:
            g, gain = ZERO, ZERO
            for i, weights in enumerate((shares * self.ceiling).T):
                if kind == "label":
                    tables = indicators(features, i, witness["labels"][:, self.of[i][0]])
                else:
                    node, edge = exactly(witness["node_marginals"]), exactly(witness["edge_marginals"])
                    tables = node[self.of[i][0]][None], edge[features.edge_example == i][None]
                rows, losses = self.rows(i, *tables)
                g, gain = g - weights @ rows, gain + weights @ losses
        away = away * self.ceiling * above
        gain += sum(a * losses.max() for a, (_, _, losses) in zip(away, self.exact.groups))
        return self.exact.ray(g, gain, away @ np.array(self.exact.norms(), dtype=object) if away.any() else ZERO)


def margin(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Two examples of up to three nodes, every kind of oracle, scaling, loss and dual witness."""
    if rng.random() < KERNELS:
        return margin_kernel(rng, ordinary)
    kind, size, given = KINDS[rng.integers(len(KINDS))]
    options = dict(given)
    lengths = [3, 3] if kind == "cycle" else rng.integers(1, 4, size=2).tolist()
    labels = [rng.integers(size, size=n) for n in lengths]
    columns = np.ones(3) if ordinary else 10.0 ** rng.choice(SCALES, size=3)
    columns = columns[: rng.integers(1, 4)]
    nodes: list[Any] = [np.clip(rng.normal(size=(n, len(columns))) * columns, -1.7e308, 1.7e308) for n in lengths]
    if rng.random() < 0.2:
        nodes = [sp.csr_array(x) for x in nodes]
    edges: Any = kind
    if kind in ("tree", "cycle"):
        edges = [nx.path_graph(n) if kind == "tree" else nx.cycle_graph(n) for n in lengths]
    if width := options.pop("n_edge_features", 0):
        options["edge_features"] = [np.abs(numbers(rng, (graph.number_of_edges(), width), ordinary)) for graph in edges]
    loss: Any = rng.choice(["hamming", "zero_one", "matrix", "tables"])
    options["scaling"] = "slack" if rng.random() < 0.4 else "margin"
    if "inference" in options:
        loss, options["scaling"] = ("hamming" if loss == "zero_one" else loss), "margin"
    told = f"{kind}, {size} labels, {loss}, {options}"
    if loss == "matrix":
        loss = np.abs(numbers(rng, (size, size), ordinary)) * (1 - np.eye(size))
    elif loss == "tables":
        loss = [np.abs(numbers(rng, (n, size), ordinary)) * (1 - np.eye(size)[y]) for n, y in zip(lengths, labels)]
    scale = rng.choice(["C", "lam", "C_mean", "beta"])
    options[scale] = float(rng.uniform(0.1, 10.0)) if ordinary else float(10.0 ** rng.choice(SCALES))
    if rng.random() < 0.3:
        options["weights"] = np.abs(numbers(rng, 2, ordinary)) + (0.1 if ordinary else 1e-300)
    try:
        problem = StructuredSVM.read(nodes, labels, size, edges=edges, loss=loss, **options)
    except ValueError as refused:
        if "multiples of one" not in str(refused):
            raise
        return None
    exact, points = Margin(problem), []
    for k in range(3):
        w = numbers(rng, problem.dimension, ordinary)
        if (
            k == 0 and not ordinary
        ):  # the labels' weights are equal: scores of any size cancel, the hinge is near the loss
            w = np.append(np.tile(rng.normal(size=len(columns)), size), w[size * len(columns) :] * 0.0)
        points.append({"w": problem.project(w)})
        if problem.oracle.relaxed and rng.random() < 0.5:
            points[-1]["shifts"] = numbers(rng, (len(problem.forests.nodes), size), ordinary)
    return Instance(
        problem,
        [(point, ordinary) for point in points],
        [(witness(rng, problem, ordinary), ordinary) for _ in range(3)],
        lambda point: exact.exact.value(point["w"]), exact.dual, told, ordinary, problem.trivial_value,
    )  # fmt: skip


def margin_kernel(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Bounds near the optimum, D at the optimal witness, of a kernel that is exactly semidefinite, often singular."""
    lengths, size = rng.integers(1, 4, size=2).tolist(), int(rng.integers(2, 4))
    factor = rng.integers(-9, 10, size=(sum(lengths), int(rng.integers(1, sum(lengths) + 1))))  # exact products
    scale = 2.0 ** (-4 if ordinary else rng.integers(-40, 40, size=len(factor)))
    kernel = (factor @ factor.T) * scale * np.reshape(scale, (-1, 1))
    if not kernel.any():
        return None
    choices = {"scaling": ["margin", "slack"], "edges": ["chain", "none"], "loss": ["hamming", "zero_one"]}
    options: dict[str, Any] = {name: str(rng.choice(each)) for name, each in choices.items()}
    options["C"] = float(10.0 ** rng.uniform(*((-1, 1) if ordinary else (-8, 8))))
    problem = StructuredSVM.read(None, [rng.integers(size, size=n) for n in lengths], size, kernel=kernel, **options)
    exact, best = Margin(problem, kernel), solve(problem, tol=1e-9, max_iterations=60)
    if best.dual_point is None or "node_marginals" in best.dual_point:  # these sum to 1 but for rounding
        return None
    below = exact.dual(best.dual_point, above=False)
    if below is None or exact.dual(best.dual_point) is None:
        return None
    moved = [best.point["w"] * (1.0 + by * rng.normal(size=problem.dimension)) for by in (0.0, 1e-9, 1e-6, 1e-3)]
    return Instance(
        problem,
        [({"w": w}, ordinary) for w in moved],
        [(best.dual_point, ordinary), (witness(rng, problem, ordinary), ordinary)],
        lambda point: below, exact.dual, f"kernel, {options}", ordinary, problem.trivial_value,
    )  # fmt: skip


def witness(rng: RANDOM, problem: StructuredSVM, ordinary: bool) -> dict[str, Any]:
    """Labellings; or where the problem takes them Gibbs measures or marginals."""
    features, n, kinds = problem.features, problem.n_examples, ["labels", "labels"]
    if problem.scaling == "margin" and not problem.loss.zero_one:
        kinds += ["gibbs"] * problem.oracle.summable
        forest = features.n_edges == 0 or nx.is_forest(nx.Graph(features.edges.tolist()))
        kinds += ["marginals"] * (forest or problem.oracle.relaxed)
    kind, m = rng.choice(kinds), int(rng.integers(1, 6))
    shares = rng.dirichlet(np.full(m, 0.3), size=n).T * (rng.random() if rng.random() < 0.3 else 1.0)
    if not ordinary and rng.random() < 0.3:
        shares = shares * 10.0 ** rng.choice(SCALES[:9], size=shares.shape)
    if kind == "labels":
        return {"labels": rng.integers(features.n_labels, size=(m, features.n_nodes)), "label_shares": shares}
    if kind == "gibbs":
        thetas = numbers(rng, (m, problem.dimension), ordinary)
        return {"gibbs": thetas, "gibbs_loss": np.abs(numbers(rng, m, ordinary)), "gibbs_shares": shares}
    one = np.eye(features.n_labels)[rng.integers(features.n_labels, size=(4, features.n_nodes))]
    u, v = features.edges.T
    pairs = one[:, u, :, None] * one[:, v, None, :]
    tables = {"node_marginals": one.mean(axis=0), "edge_marginals": pairs.mean(axis=0)}  # exact: shares of 1/4
    return {**tables, "marginal_shares": shares.sum(axis=0).clip(0, 1)}


ROWS: dict[type, tuple[Row, ...]] = {StructuredSVM: (margin,)}
