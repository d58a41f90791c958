"""Rows of `exact.py` for labelled graphs: structural SVMs, conditional random fields and kernel fields.

Scores are the package's own text on exact numbers; maxima and log-sums over labellings are written out. A lower bound
is held against the exact D at its witness, where that is known; else against the least of the exact objectives.
"""

from __future__ import annotations

import itertools
from functools import partial
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from benchmarks.exact import (
    EXACT,
    RANDOM,
    SCALES,
    ZERO,
    Exactly,
    Instance,
    Row,
    exactly,
    log_sum_exp,
    moved,
    numbers,
    short_run,
    twin,
    weights,
)
from convexstruct.arrays import Point, Vector
from convexstruct.families.gaussian_process import GaussianProcessSequences
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.families.log_linear.basis import REACH_NATS
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.oracles.enumeration import labellings
from convexstruct.rounding import UNIT

# -- labels on graphs --------------------------------------------------------------------------------------------------


class Graphs:
    """The examples of a problem with features in exact numbers, and tables (nodes, edges) of all their labellings.

    every : by example, all labellings as tables, (L, n, S) and (L, q, S, S). own : that of the truth, L = 1. sizes : by
    example, the sum of the sizes of all its features.
    """

    def __init__(self, features: Any, relaxed: bool = False, node_features: Any = None) -> None:
        given = features.edge_features
        self.features = twin(
            features,
            node_features=exactly(features.node_features if node_features is None else node_features),
            edge_features=None if given is None else exactly(given),
        )
        self.nodes = [slice(*ends) for ends in pairwise(features.node_start)]
        self.ends = [features.edges[features.edge_example == i] - at.start for i, at in enumerate(self.nodes)]
        self.truth = features.split_labels(features.truth)
        self.own = [self.tables(i, y[None]) for i, y in enumerate(self.truth)]
        x, z = self.features.node_features, self.features.edge_features
        sizes = self.split(abs(x), exactly(np.ones((features.n_edges, 1, 1))) if z is None else abs(z)[:, None])
        self.sizes = [sum(map(np.sum, each)) for each in sizes]
        many = [labellings([features.n_labels] * len(y)) for y in self.truth]
        self.every = [self.halves(i) if relaxed else self.tables(i, each) for i, each in enumerate(many)]

    def tables(self, i: int, labels: Any) -> tuple[Exactly, Exactly]:
        """Indicators of labellings (L, n)."""
        node = exactly(np.eye(self.features.n_labels))[labels]
        u, v = self.ends[i].T
        return node, node[:, u, :, None] * node[:, v, None, :]

    def halves(self, i: int) -> tuple[Exactly, Exactly]:
        """The vertices of the local polytope of two labels: node marginals 0, 1/2 and 1."""
        nodes, edges = [], []
        for twice in itertools.product((0, 1, 2), repeat=len(self.truth[i])):  # 2 mu_v(1)
            pairs = [(twice[u], twice[v]) for u, v in self.ends[i]]
            both = [{max(0, p + q - 2), min(p, q)} for p, q in pairs]  # 2 mu_e(1, 1) is one of these
            for choice in itertools.product(*both):
                nodes.append([[2 - m, m] for m in twice])
                edges.append([[[2 - p - q + b, q - b], [p - b, b]] for (p, q), b in zip(pairs, choice)])
        return exactly(nodes) / 2, exactly(np.reshape(edges, (len(nodes), -1, 2, 2))) / 2

    def split(self, node: Exactly, edge: Exactly) -> list[tuple[Exactly, Exactly]]:
        """By example, tables of all nodes (P, S) and edges (Q, S, S), or one for all edges."""
        features = self.features
        edge = np.broadcast_to(edge, (features.n_edges, *edge.shape[-2:]))
        return [(node[at], edge[features.edge_example == i]) for i, at in enumerate(self.nodes)]

    def rises(self, w: Exactly) -> list[Exactly]:
        """By example, how far the score of each labelling lies above that of the truth."""
        found = []
        for here, *both in zip(
            self.split(self.features.node_scores(w), self.features.edge_scores(w)), self.every, self.own
        ):
            of, own = (sum((x * y).reshape(len(x), -1).sum(axis=1) for x, y in zip(tables, here)) for tables in both)
            found.append(of - own)
        return found

    def joint(self, parts: list[tuple[tuple[Exactly, Exactly], Exactly]]) -> Exactly:
        """The sum of joint features less those of the truth; by example tables (L, ...) and their weights (L,)."""
        sums = [[np.tensordot(weights, table - own, axes=1) for table, own in zip(tables, self.own[i])]
                for i, (tables, weights) in enumerate(parts)]  # fmt: skip
        node, edge = (np.concatenate(each) for each in zip(*sums))
        return self.features.adjoint(node, edge)


def powers(rng: RANDOM, reach: int, shape: Any = None) -> Any:
    return np.ldexp(1.0, rng.integers(-reach, reach + 1, size=shape))


# -- structural SVMs ---------------------------------------------------------------------------------------------------

#: Graph, number of labels, options of `StructuredSVM.read`; without a kernel, and with one.
KINDS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("chain", 2, {}),
    ("chain", 3, {}),
    ("none", 3, {}),
    ("tree", 2, {}),
    ("tree", 3, {"n_edge_features": 2}),
    ("cycle", 2, {}),
    ("cycle", 2, {"n_edge_features": 1}),
    ("cycle", 2, {"associative": True, "inference": "minimum_cut", "n_edge_features": 1}),
    ("tree", 2, {"inference": "relaxed"}),
    ("cycle", 2, {"inference": "relaxed"}),
)
#: Share of the instances that come with a kernel.
KERNELS = 0.1


class Margin:
    """A structural SVM in exact numbers, over labellings, or over vertices of the local polytope where it is relaxed.

    kernel : between nodes, whose features are then indicators, and |x|^2 is x'Kx.
    """

    def __init__(self, problem: StructuredSVM, kernel: Any = None) -> None:
        self.problem, self.lam, features = problem, EXACT.mpf(problem.lam), problem.features
        self.kernel = None if kernel is None else exactly(kernel)
        self.scored = Graphs(features, problem.oracle.relaxed)
        self.graphs = self.scored if kernel is None else Graphs(features, node_features=np.eye(len(kernel)))
        self.costs, self.ceiling = exactly(problem.loss.costs), problem.scale.C * exactly(problem.weights)
        self.losses = [self.loss(i, each[0]) for i, each in enumerate(self.graphs.every)]
        self.sizes = self.graphs.sizes
        if self.kernel is not None:
            roots = np.sqrt(np.diagonal(self.kernel))
            self.sizes = [sum(roots[at]) + len(ends) for at, ends in zip(self.graphs.nodes, self.graphs.ends)]

    def loss(self, i: int, node: Exactly) -> Exactly:
        if self.problem.loss.zero_one:
            return exactly([int(np.any(table.argmax(axis=1) != self.graphs.truth[i])) for table in node])
        return (node * self.costs[self.graphs.nodes[i]]).sum(axis=(1, 2))

    def value(self, w: Vector) -> Any:
        x, slack = exactly(w), self.problem.scaling == "slack"
        each = zip(self.graphs.rises(x), self.losses)
        hinges = [max(loss * (1 + rise) if slack else loss + rise) for rise, loss in each]
        return self.lam * (x @ x) / 2 + self.ceiling @ np.array(hinges)

    def square(self, g: Exactly) -> Any:
        """|g|^2, of which weights that are at least 0 count if they pull up."""
        if self.kernel is None:
            g = np.where(self.problem.features.nonnegative, np.maximum(g, 0), g)
            return g @ g
        cut = self.problem.features.n_labels * len(self.kernel)
        node = g[:cut].reshape(-1, len(self.kernel))
        return (node * (node @ self.kernel)).sum() + g[cut:] @ g[cut:]

    def dual(self, witness: Point, above: bool = True) -> Any:
        """The largest D at t times the witness, 0 <= t <= 1, its shares scaled to sum to at most 1.

        ``above``: plus a bound on the effect of the rounding of the computed distributions, so that no correct bound is
        larger. Otherwise a lower bound on the optimum. None where no bound on that effect is known."""
        problem, graphs, slack = self.problem, self.graphs, self.problem.scaling == "slack"
        if "node_marginals" in witness:
            witness = {"marginal_shares": np.ones(problem.n_examples), **witness}
        kind = next((kind for kind in ("label", "gibbs", "marginal") if f"{kind}_shares" in witness), "none")
        if kind == "none":
            return ZERO
        shares = exactly(np.atleast_2d(witness[f"{kind}_shares"]))
        sums = np.maximum(shares.sum(axis=0), 1)
        shares = shares / sums * self.ceiling
        if np.any((shares > 0) & (shares <= 1e-290)):
            return None  # so small a share may be rounded to a larger one, which may prove more
        away = 8 * UNIT * exactly((sums > 1) * 1.0)  # the scaling is rounded
        if kind == "gibbs":
            alphas = [0 * loss for loss in self.losses]
            for theta, b, row in zip(witness["gibbs"], witness["gibbs_loss"], shares):
                # rounding moves scores by a few units of the sum of their terms, at most
                terms = sum(self.scored.sizes) * np.abs(theta).max(initial=0.0) + b * self.costs.sum()
                most = UNIT * (1024 + 512 * terms)
                if not most < 1e-3:
                    return None
                away = np.maximum(away, 2 * most)
                for alpha, rise, loss, share in zip(alphas, self.scored.rises(exactly(theta)), self.losses, row):
                    q = np.exp(rise + b * loss - max(rise + b * loss))
                    alpha += share * q / q.sum()
            parts = list(zip(graphs.every, alphas))
        elif kind == "label":
            parts = [(graphs.tables(i, witness["labels"][:, at]), shares[:, i]) for i, at in enumerate(graphs.nodes)]
        else:
            node, edge = (exactly(witness[f"{name}_marginals"]) for name in ("node", "edge"))
            ends = np.stack([edge.sum(axis=2), edge.sum(axis=1)], axis=1)
            if (node.sum(axis=1) != 1).any() or (ends != node[problem.features.edges]).any():
                return None  # the problem makes them agree
            tables = graphs.split(node, edge)
            parts = [(tuple(each[None] for each in two), shares[:, i]) for i, two in enumerate(tables)]
        losses = [self.loss(i, tables[0]) for i, (tables, _) in enumerate(parts)]
        gain = sum(alpha @ loss for (_, alpha), loss in zip(parts, losses))
        scaled = [(tables, alpha * loss if slack else alpha) for (tables, alpha), loss in zip(parts, losses)]
        square = self.square(-graphs.joint(scaled))
        if above and away.any():
            away, most = away * self.ceiling, [max(loss) for loss in self.losses]
            length = sum(2 * a * size * (loss if slack else 1) for a, size, loss in zip(away, self.sizes, most))
            gain, square = gain + sum(away * most), max(np.sqrt(square) - length, 0) ** 2
        t = min(1, self.lam * gain / square) if square else 1
        return t * gain - t * t * square / (2 * self.lam)


def graphs(kind: str, lengths: Any) -> Any:
    """Chains, no edges, stars or cycles, as `read` takes them."""
    if kind in ("chain", "none"):
        return kind
    return [nx.star_graph(n - 1) if kind == "tree" or n < 3 else nx.cycle_graph(n) for n in lengths]


def margin(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Two examples of up to three nodes, every kind of oracle, scaling, loss and dual witness."""
    if rng.random() < KERNELS:
        return margin_kernel(rng, ordinary)
    kind, size, given = KINDS[rng.integers(len(KINDS))]
    lengths, options = [3, 3] if kind == "cycle" else rng.integers(1, 4, size=2).tolist(), dict(given)
    labels = [rng.integers(size, size=n) for n in lengths]
    columns = (np.ones(3) if ordinary else 10.0 ** rng.choice(SCALES, size=3))[: rng.integers(1, 4)]
    nodes: list[Any] = [np.clip(rng.normal(size=(n, len(columns))) * columns, -1.7e308, 1.7e308) for n in lengths]
    nodes = [sp.csr_array(x) for x in nodes] if rng.random() < 0.2 else nodes
    options["edges"] = edges = graphs(kind, lengths)
    if width := options.pop("n_edge_features", 0):
        options["edge_features"] = [np.abs(numbers(rng, (graph.number_of_edges(), width), ordinary)) for graph in edges]
    loss: Any = rng.choice(["hamming", "zero_one", "matrix", "tables"])
    options["scaling"] = "slack" if rng.random() < 0.4 else "margin"
    if "inference" in options:
        loss, options["scaling"] = ("hamming" if loss == "zero_one" else loss), "margin"
    if loss == "matrix":
        loss = np.abs(numbers(rng, (size, size), ordinary)) * (1 - np.eye(size))
    elif loss == "tables":
        loss = [np.abs(numbers(rng, (n, size), ordinary)) * (1 - np.eye(size)[y]) for n, y in zip(lengths, labels)]
    scale = rng.choice(["C", "lam", "C_mean", "beta"])
    options[scale] = float(rng.uniform(0.1, 10.0)) if ordinary else float(10.0 ** rng.choice(SCALES))
    options["weights"] = weights(rng, 2, ordinary)
    try:
        problem = StructuredSVM.read(nodes, labels, size, loss=loss, **options)
    except ValueError as refused:
        if "multiples of one" not in str(refused) and "underflows" not in str(refused):
            raise
        return None
    exact, points = Margin(problem), []
    for k in range(2):
        w = numbers(rng, problem.dimension, ordinary)
        if k == 0 and not ordinary:  # scores of any size cancel: the labels' weights are equal
            w = np.append(np.tile(rng.normal(size=len(columns)), size), w[size * len(columns) :] * 0.0)
        points.append({"w": problem.project(w)})
        if problem.oracle.relaxed and rng.random() < 0.5:
            points[-1]["shifts"] = numbers(rng, (len(problem.forests.nodes), size), ordinary)
    mixtures = [witness(rng, problem, ordinary) for _ in range(3)]
    ends = short_run(problem)
    return Instance(problem, lambda point: exact.value(point["w"]), exact.dual, ordinary, points, mixtures, ends)


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
    exact, ends = Margin(problem, kernel), short_run(problem)
    below = exact.dual(ends[1], above=False)
    if below is None or exact.dual(ends[1]) is None:
        return None
    mixtures = [witness(rng, problem, ordinary)]
    return Instance(problem, lambda _: below, exact.dual, ordinary, witnesses=mixtures, ends=ends)


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


# -- likelihoods -------------------------------------------------------------------------------------------------------


def conditional(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Conditional random fields on chains, stars or cycles, with and without forbidden pairs and penalties."""
    s, reach = int(rng.integers(1, 4)), 1 if ordinary else int(rng.choice([4, 30, 100]))
    lengths = rng.integers(1, 5 if s < 3 else 4, size=int(rng.integers(1, 4))).tolist()
    labels, options = [rng.integers(s, size=n) for n in lengths], dict[str, Any]()
    kind, penalty = rng.integers(4, size=2).tolist()
    options["edges"] = edges = graphs(("chain", "chain", "tree", "cycle")[kind], lengths)
    if kind > 1 and rng.integers(2):
        options["edge_features"] = [powers(rng, reach) * rng.normal(size=(g.number_of_edges(), 1)) for g in edges]
    options |= {"l1": powers(rng, reach) if penalty % 2 else 0.0, "beta": powers(rng, reach) if penalty > 1 else None}
    options["weights"] = weights(rng, len(lengths), ordinary)
    inputs = [powers(rng, reach, 2) * rng.normal(size=(n, 2)) for n in lengths]
    problem = ConditionalRandomField.read(inputs, labels, s, **options)
    if rng.integers(4) == 0 and s > 1:
        options["forbidden"] = rng.random((s, s)) < 0.3
        options["forbidden"][tuple(problem.features.truth[problem.features.edges].T)] = False
        problem = ConditionalRandomField.read(inputs, labels, s, **options)
    ends, value = short_run(problem), likelihood(problem)

    def mixed(theta: Vector) -> Point:
        shares, features = rng.dirichlet(np.ones(3), size=problem.n_examples).T, problem.features
        far = (1.0 if ordinary else 10.0 ** rng.uniform(-3, 3)) * rng.normal(size=len(theta))
        drawn = features.truth if rng.integers(2) else rng.integers(features.n_labels, size=features.n_nodes)
        each = {"gibbs": np.array([theta, far]), "gibbs_shares": shares[:2]}
        return each | {"labels": drawn[None], "label_shares": shares[2:]}

    near = [moved(rng, ends[0], 10.0 ** rng.uniform(-16, 0))["theta"] for _ in range(6)]
    return Instance(
        problem, value, ordinary=ordinary and problem.penalty != Penalty(),  # theta may run away to any size
        ends=ends, within=partial(stated, problem),
        witnesses=[each for theta in near for each in (problem.witness(theta), mixed(theta))],
    )  # fmt: skip


def stated(problem: ConditionalRandomField, point: Point) -> bool:
    """Whether lower bounds are stated over a point: without a penalty where no score exceeds `REACH_NATS`."""
    features = Graphs(problem.features).features
    theta = exactly(point["theta"])
    scores = np.append(features.node_scores(theta), features.edge_scores(theta) if features.n_edges else ZERO)
    return problem.penalty != Penalty() or abs(scores).max() <= REACH_NATS


def likelihood(problem: ConditionalRandomField) -> Any:
    """P as a function of a point."""
    exact, (lam, l1) = Graphs(problem.features), (EXACT.mpf(each) for each in (problem.penalty.lam, problem.penalty.l1))
    banned = exactly(np.zeros((1, 1)) if problem.forbidden is None else problem.forbidden * 1.0)
    allowed = [(edge * banned).reshape(len(edge), -1).sum(axis=1) == 0 for _, edge in exact.every]

    def value(point: Point) -> Any:
        theta = exactly(point["theta"])
        losses = [log_sum_exp(rise[kept]) for rise, kept in zip(exact.rises(theta), allowed)]
        return exactly(problem.ceiling) @ losses + lam / 2 * (theta @ theta) + l1 * abs(theta).sum()

    return value


def gaussian(rng: RANDOM, ordinary: bool) -> Instance | None:
    """(32) with a few positions. K is a product of whole numbers times a power of two, so semidefinite exactly."""
    s, d = rng.integers(1, 4, size=2).tolist()
    lengths, factor = rng.integers(1, 4 if s < 3 else 3, size=int(rng.integers(1, 4))), rng.integers(-3, 4, size=(d, 2))
    reach = 2 if ordinary else int(rng.choice([4, 60, 400]))
    problem = GaussianProcessSequences.from_gram(
        (factor @ factor.T) * powers(rng, reach), [rng.integers(s, size=n) for n in lengths.tolist()], s,
        places=[rng.integers(d, size=n) for n in lengths.tolist()],
        eta=powers(rng, reach) * bool(rng.integers(4)), lam=powers(rng, reach), stationary=bool(rng.integers(2)),
    )  # fmt: skip
    rows = np.split(problem.rows, np.cumsum(lengths)[:-1])

    def value(point: Point) -> Any:
        u = exactly(point["u"])
        t = problem.multiply(u)
        label, transition = problem.split(t)
        found = EXACT.mpf(problem.lam) / 2 * (u @ t) - problem.truth @ t
        for at in rows:
            y, steps = labellings([s] * len(at)), np.arange(len(at) - 1)
            pairs = transition[y[:, :-1], y[:, 1:]] if problem.stationary else transition[steps, y[:, :-1], y[:, 1:]]
            found += log_sum_exp(label[at, y].sum(axis=1) + pairs.sum(axis=1))
        return found

    return Instance(problem, value, ordinary=ordinary, ends=short_run(problem))


ROWS: dict[type, tuple[Row, ...]] = {
    StructuredSVM: (margin,),
    ConditionalRandomField: (conditional,),
    GaussianProcessSequences: (gaussian,),
}
