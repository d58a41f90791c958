"""Structural SVMs in exact arithmetic, all labellings written out: the true values for `rounding_structured_svm`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.exact import ZERO, Exactly, exactly, exp, root
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.oracles.enumeration import labellings
from convexstruct.rounding import UNIT

#: Weighted marginals of nodes (P, S) and of edges (Q, S, S), their loss, and for each example how far its computed
#: distribution may differ from the exact one.
Parts = tuple[Exactly, Exactly, Any, Exactly]


class Exact:
    """A problem in fractions, every labelling written out with its loss; norms of Psi by the Gram matrix of the nodes,
    which is X X' or the given kernel. ``weights`` are e_i(y), the losses where they scale the slack, else 1."""

    def __init__(self, problem: StructuredSVM, kernel: Any = None) -> None:
        self.problem, self.size = problem, problem.features.n_labels
        features = problem.features
        self.x = exactly(features.node_features)
        one = np.ones((features.n_edges, features.n_edge_features))
        self.z = exactly(one if features.edge_features is None else features.edge_features)
        self.gram = self.x @ self.x.T if kernel is None else exactly(kernel)
        self.lam = exactly(problem.lam).item()
        self.ceiling = exactly(problem.scale.C) * exactly(problem.weights)
        self.costs = exactly(problem.loss.costs)
        self.truth = features.split_labels(features.truth)
        self.every = [labellings([self.size] * int(n)) for n in features.lengths]
        self.first = features.node_start[:-1]
        self.nodes = [range(int(a), int(b)) for a, b in itertools.pairwise(features.node_start)]
        self.edges = [np.flatnonzero(features.edge_example == i) for i in range(problem.n_examples)]
        self.losses = [self.loss(i, every) for i, every in enumerate(self.every)]
        slack = problem.scaling == "slack"
        self.weights = [losses if slack else 0 * losses + 1 for losses in self.losses]

    def loss(self, i: int, every: Any) -> Exactly:
        if self.problem.loss.zero_one:
            return np.any(every != self.truth[i], axis=1).astype(object) + ZERO
        return self.costs[self.nodes[i], every].sum(axis=1)

    # -- P -------------------------------------------------------------------------------------------------------------

    def tables(self, w: Any) -> tuple[Exactly, Exactly]:
        """Scores of the nodes' labels (P, S), and of the edges' pairs of labels (Q, S, S)."""
        node, edge = map(exactly, self.problem.features.split(w))
        if self.problem.features.associative:
            edge = edge.reshape(len(edge), 1, -1) * np.eye(self.size, dtype=object)
        return self.x @ node.T, np.tensordot(self.z, edge, axes=1).reshape(-1, self.size, self.size)

    def scores(self, i: int, every: Any, node: Exactly, edge: Exactly) -> Exactly:
        """Those of labellings, one a row."""
        total = node[self.nodes[i], every].sum(axis=1)
        for e in self.edges[i]:
            u, v = self.problem.features.edges[e] - self.first[i]
            total = total + edge[e][every[:, u], every[:, v]]
        return total

    def primal(self, point: Mapping[str, Any]) -> Any:
        """The objective at w: over labellings, over the local polytope where the problem is the relaxed one, or with
        the bound that the shifts stand for."""
        w = exactly(point["w"])
        node, edge = self.tables(point["w"])
        value = self.lam / 2 * (w @ w)
        for i, every in enumerate(self.every):
            truth = self.scores(i, self.truth[i][None], node, edge)[0]
            if not self.problem.oracle.relaxed:
                worst = (self.losses[i] - self.weights[i] * (truth - self.scores(i, every, node, edge))).max()
            elif "shifts" in point:
                worst = self._shifted(i, node + self.costs, edge, exactly(point["shifts"])) - truth
            else:
                worst = self._relaxed(i, node + self.costs, edge) - truth
            value += self.ceiling[i] * max(worst, ZERO)
        return value

    def _relaxed(self, i: int, node: Exactly, edge: Exactly) -> Any:
        """The maximum over the local polytope of two labels: its vertices have node marginals 0, 1/2 and 1."""
        found = []
        for twice in itertools.product((0, 1, 2), repeat=len(self.nodes[i])):  # 2 mu_v(1)
            value = sum((2 - m) * node[v][0] + m * node[v][1] for v, m in zip(self.nodes[i], twice))
            for e in self.edges[i]:
                p, q = (twice[end - self.first[i]] for end in self.problem.features.edges[e])
                ends = (max(0, p + q - 2), min(p, q))  # 2 mu_e(1, 1) lies between
                tables = (np.array([[2 - p - q + both, q - both], [p - both, both]], dtype=object) for both in ends)
                value += max((edge[e] * table).sum() for table in tables)
            found.append(value / 2)
        return max(found)

    def _shifted(self, i: int, node: Exactly, edge: Exactly, shifts: Exactly) -> Any:
        """sum over forests of the greatest score, node scores shared out evenly but for the shifts."""
        forests = self.problem.forests
        flat, copies = np.asarray(forests.nodes), np.array(forests.copies.astype(int).tolist(), dtype=object)
        total, trees = ZERO, forests.trees.features
        for k in np.flatnonzero(forests.example == i).tolist():
            rows = list(range(trees.node_start[k], trees.node_start[k + 1]))
            at = flat[rows]
            even = [shifts[flat == v].sum(axis=0) for v in at]
            share = (node[at] - np.array(even, dtype=object).reshape(-1, self.size)) / copies[at][:, None]
            share, every = share + shifts[rows], labellings([self.size] * len(rows))
            scores = share[range(len(rows)), every].sum(axis=1)
            for e in forests.edges[trees.edge_example == k].tolist():
                u, v = (at.tolist().index(end) for end in self.problem.features.edges[e])
                scores = scores + edge[e][every[:, u], every[:, v]]
            total += scores.max()
        return total

    # -- D -------------------------------------------------------------------------------------------------------------

    def dual(self, witness: Mapping[str, Any], above: bool = True) -> Any:
        """The largest D at t times the witness, 0 <= t <= 1, its shares scaled to sum to at most 1.

        ``above``: plus a bound on the effect of the rounding of the computed distributions, so that no correct bound is
        larger. Otherwise without it: a lower bound on the optimum. None where no bound on that effect is known."""
        kinds = {"label": self._of_labels, "gibbs": self._of_gibbs, "marginal": self._of_marginals}
        if "node_marginals" in witness:
            witness = {"marginal_shares": np.ones(self.problem.n_examples), **witness}
        kind = next((kind for kind in kinds if f"{kind}_shares" in witness), None)
        if kind is None:
            return ZERO
        shares = exactly(np.atleast_2d(witness[f"{kind}_shares"]))
        sums = np.maximum(shares.sum(axis=0), ZERO + 1)
        alphas = shares / sums * self.ceiling
        if np.any((alphas > 0) & (alphas <= exactly(1e-290))):
            return None  # so small a share may be rounded to a larger one, which may prove more
        found = kinds[kind](witness, alphas)
        if found is None:
            return None
        node, edge, loss, away = found
        if np.any(sums > 1):
            away = away + 8 * exactly(UNIT)  # the scaling is rounded
        away = away * self.ceiling * above
        square = self._square(node, edge)
        loss += sum(a * losses.max() for a, losses in zip(away, self.losses))
        if away.any():
            square = max(root(square) - away @ self._most(), ZERO) ** 2
        t = min(ZERO + 1, self.lam * loss / square) if square else ZERO + 1
        return t * loss - t * t * square / (2 * self.lam)

    def _most(self) -> Exactly:
        """A bound on |e_i(y) df_i(y)| for each example, from above."""
        sizes: list[Any] = [sum(root(self.gram[v, v]) for v in nodes) for nodes in self.nodes]
        sizes = [s + sum(root(self.z[e] @ self.z[e]) for e in edges) for s, edges in zip(sizes, self.edges)]
        return np.array([3 * s * weights.max() for s, weights in zip(sizes, self.weights)], dtype=object)

    def _square(self, node: Exactly, edge: Exactly) -> Any:
        """|Psi_+|^2 from the weighted marginals: Psi is the same mass at the truth, less these marginals."""
        features, s = self.problem.features, self.size
        away, turned = -node, -edge
        away[range(len(node)), features.truth] += node.sum(axis=1)
        turned[(range(len(edge)), *features.truth[features.edges].T)] += edge.sum(axis=(1, 2))
        psi = np.tensordot(self.z.T, turned, axes=1)
        if features.associative:
            psi = np.maximum(psi[:, range(s), range(s)], ZERO)
        return (away * (self.gram @ away)).sum() + (psi * psi).sum()

    def _gather(self, alphas: list[Exactly]) -> tuple[Exactly, Exactly, Any]:
        """Weighted marginals and loss of multipliers alpha_i(y), an array an example."""
        features = self.problem.features
        node = np.full((features.n_nodes, self.size), ZERO)
        edge = np.full((features.n_edges, self.size, self.size), ZERO)
        for i, (alpha, every) in enumerate(zip(alphas, self.every)):
            weighted = alpha * self.weights[i]
            for v in self.nodes[i]:
                np.add.at(node[v], every[:, v - self.first[i]], weighted)
            for e in self.edges[i]:
                np.add.at(edge[e], tuple(every[:, features.edges[e] - self.first[i]].T), weighted)
        return node, edge, sum(alpha @ losses for alpha, losses in zip(alphas, self.losses))

    def _of_labels(self, witness: Mapping[str, Any], alphas: Exactly) -> Parts:
        found = [0 * losses for losses in self.losses]
        for labels, row in zip(witness["labels"], alphas):
            for i, alpha in enumerate(row):
                found[i][np.all(self.every[i] == labels[self.nodes[i]], axis=1)] += alpha
        return *self._gather(found), 0 * self.ceiling

    def _of_gibbs(self, witness: Mapping[str, Any], alphas: Exactly) -> Parts | None:
        """Distributions to 60 digits; the computed ones are those of scores that rounding moves."""
        features = self.problem.features
        found, away = [0 * losses for losses in self.losses], 0 * self.ceiling
        terms = features.n_node_features + features.n_edge_features + 16
        for theta, b, row in zip(witness["gibbs"], witness["gibbs_loss"], alphas):
            node, edge = self.tables(theta)
            widest = _sizes(self.problem, theta, float(b))
            for i, alpha in enumerate(row):
                moved = 16 * UNIT * (terms * widest[i] + 16 * features.n_labels * len(self.nodes[i]))
                if not moved < 1e-3:
                    return None
                away[i] = max(away[i], exactly(2 * moved).item())
                scores = self.scores(i, self.every[i], node, edge) + exactly(b) * self.losses[i]
                q = np.array([exp(score - scores.max()) for score in scores], dtype=object)
                found[i] += alpha * q / q.sum()
        return *self._gather(found), away

    def _of_marginals(self, witness: Mapping[str, Any], alphas: Exactly) -> Parts:
        """On forests conditionals from the last node on; else the point of the local polytope that is nearest by the
        scaling of `agreeing`, which rounding moves."""
        features, share = self.problem.features, alphas[0]
        node, edge = exactly(witness["node_marginals"]), exactly(witness["edge_marginals"])
        if self.problem.oracle.relaxed:
            node, edge = _agreeing(features.edges, node, edge)
            node = share[features.example][:, None] * node
            edge = share[features.edge_example][:, None, None] * edge
            return node, edge, (node * self.costs).sum(), 0 * share + exactly(1e-13)
        found = []
        for i, every in enumerate(self.every):
            before: set[int] = set()
            alpha = np.full(len(every), share[i])
            for v in reversed(self.nodes[i]):
                to = [e for e in self.edges[i] if v in features.edges[e] and {*features.edges[e]} - {v} <= before]
                before.add(v)
                here = every[:, v - self.first[i]]
                if not to:
                    alpha = alpha * (node[v] / node[v].sum())[here]
                    continue
                u, w = features.edges[to[0]]
                table = edge[to[0]].T if w == v else edge[to[0]]  # rows by the label of v's end
                sums = table.sum(axis=0)
                shares = np.where(sums == 0, ZERO + 1, table) / np.where(sums == 0, self.size, sums)
                alpha = alpha * shares[here, every[:, (u if w == v else w) - self.first[i]]]
            found.append(alpha)
        return *self._gather(found), 0 * share


def _agreeing(ends: Any, node: Exactly, edge: Exactly) -> tuple[Exactly, Exactly]:
    """`witness.agreeing` in fractions."""
    node, made = node / node.sum(axis=1, keepdims=True), 0 * edge
    for e, (u, v) in enumerate(ends):
        table = edge[e]
        for wanted in (node[u], node[v]):  # rows, then columns
            sums = table.sum(axis=1)
            table = (table * np.minimum(1, wanted / np.where(sums == 0, wanted + 1, sums))[:, None]).T
        more, also = node[u] - table.sum(axis=1), node[v] - table.sum(axis=0)
        made[e] = table + np.outer(more, also) / (more.sum() or 1)
    return node, made


def _sizes(problem: StructuredSVM, theta: Any, b: float) -> list[float]:
    """The largest sums of absolute terms of a score of each example."""
    features = problem.features
    with np.errstate(all="ignore"):
        node, edge = (np.abs(part) for part in features.split(theta))
        of_nodes = (np.asarray(abs(features.node_features) @ node.T) + b * problem.loss.costs).max(axis=1)
        total = np.bincount(features.example, weights=of_nodes, minlength=features.n_examples)
        if features.n_edges:
            z = np.ones((features.n_edges, 1)) if features.edge_features is None else np.abs(features.edge_features)
            of_edges = z @ edge.reshape(len(edge), -1).max(axis=1)
            total = total + np.bincount(features.edge_example, weights=of_edges, minlength=features.n_examples)
    found: list[float] = total.tolist()
    return found
