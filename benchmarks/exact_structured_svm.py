"""Structural SVMs in exact arithmetic, all labellings written out: the true values for `rounding_structured_svm`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import scipy.sparse as sp

from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.oracles.enumeration import labellings
from convexstruct.rounding import UNIT

#: Table: rows of exact numbers. Parts: weighted marginals of nodes and of edges, their loss, and for each example how
#: far its computed distribution may differ from the exact one.
Table = list[list[Fraction]]
Parts = tuple[Table, list[Table], Fraction, list[Fraction]]


class Exact:
    """A problem in fractions, every labelling written out with its loss; norms of Psi by the Gram matrix of the nodes,
    which is X X' or the given kernel."""

    def __init__(self, problem: StructuredSVM, kernel: Any = None) -> None:
        self.problem = problem
        features = problem.features
        x = features.node_features
        self.x = fractions(x.toarray() if sp.issparse(x) else x)
        z = np.ones((features.n_edges, 1)) if features.edge_features is None else features.edge_features
        self.z = fractions(z)
        self.gram = fractions(kernel) if kernel is not None else [[_dot(p, q) for q in self.x] for p in self.x]
        self.lam = Fraction(problem.lam)
        self.ceiling = [Fraction(problem.scale.C) * Fraction(float(omega)) for omega in problem.weights]
        self.costs = fractions(problem.loss.costs)
        self.truth = [y.tolist() for y in features.split_labels(features.truth)]
        self.every = [labellings([features.n_labels] * int(n)).tolist() for n in features.lengths]
        self.losses = [[self.loss(i, y) for y in every] for i, every in enumerate(self.every)]
        self.nodes = [range(int(a), int(b)) for a, b in zip(features.node_start[:-1], features.node_start[1:])]
        self.edges = [np.flatnonzero(features.edge_example == i).tolist() for i in range(problem.n_examples)]

    def loss(self, i: int, y: list[int]) -> Fraction:
        if self.problem.loss.zero_one:
            return Fraction(int(y != self.truth[i]))
        first = int(self.problem.features.node_start[i])
        return sum((self.costs[first + v][label] for v, label in enumerate(y)), Fraction(0))

    def weight(self, i: int, at: int) -> Fraction:
        """e_i(y) of the labelling in place ``at``."""
        return self.losses[i][at] if self.problem.scaling == "slack" else Fraction(1)

    # -- P -------------------------------------------------------------------------------------------------------------

    def tables(self, w: Any) -> tuple[Table, list[Table]]:
        """Scores of the nodes' labels, and of the edges' pairs of labels."""
        node, edge = (
            fractions(part.reshape(len(part), math.prod(part.shape[1:]))) for part in self.problem.features.split(w)
        )
        size = self.problem.features.n_labels
        scores = [[_dot(row, x) for row in node] for x in self.x]
        tables = []
        for z in self.z:
            flat = [_dot(z, column) for column in zip(*edge)]
            if self.problem.features.associative:
                flat = [flat[s] if s == t else Fraction(0) for s in range(size) for t in range(size)]
            tables.append([flat[s * size : (s + 1) * size] for s in range(size)])
        return scores, tables

    def score(self, i: int, y: list[int], node: Table, edge: list[Table]) -> Fraction:
        value, first = Fraction(0), self.nodes[i].start
        for v in self.nodes[i]:
            value += node[v][y[v - first]]
        for e in self.edges[i]:
            u, v = (int(end) - first for end in self.problem.features.edges[e])
            value += edge[e][y[u]][y[v]]
        return value

    def primal(self, point: Mapping[str, Any]) -> Fraction:
        """The objective at w: over labellings, over the local polytope where the problem is the relaxed one, or with
        the bound that the shifts stand for."""
        w = point["w"]
        node, edge = self.tables(w)
        value = self.lam / 2 * sum((Fraction(float(each)) ** 2 for each in w), Fraction(0))
        for i, every in enumerate(self.every):
            truth = self.score(i, self.truth[i], node, edge)
            if self.problem.oracle.relaxed:
                costly = [[a + b for a, b in zip(*pair)] for pair in zip(node, self.costs)]
                if "shifts" in point:
                    worst = self._shifted(i, costly, edge, fractions(point["shifts"])) - truth
                else:
                    worst = self._relaxed(i, costly, edge) - truth
            else:
                margins = [truth - self.score(i, y, node, edge) for y in every]
                slack = self.problem.scaling == "slack"
                worst = max(e * (1 - m) if slack else e - m for e, m in zip(self.losses[i], margins))
            value += self.ceiling[i] * max(worst, Fraction(0))
        return value

    def _relaxed(self, i: int, node: Table, edge: list[Table]) -> Fraction:
        """The maximum over the local polytope of two labels: its vertices have node marginals 0, 1/2 and 1."""
        first, best = self.nodes[i].start, None
        for twice in itertools.product((0, 1, 2), repeat=len(self.nodes[i])):  # 2 mu_v(1)
            value = Fraction(0)
            for v, m in zip(self.nodes[i], twice):
                value += ((2 - m) * node[v][0] + m * node[v][1]) / 2
            for e in self.edges[i]:
                p, q = (twice[int(end) - first] for end in self.problem.features.edges[e])
                table = edge[e]
                ends = (max(0, p + q - 2), min(p, q))  # 2 mu_e(1, 1) lies between
                value += max(
                    ((2 - p - q + both) * table[0][0] + (q - both) * table[0][1] + (p - both) * table[1][0]
                     + both * table[1][1]) / 2 for both in ends
                )  # fmt: skip
            best = value if best is None else max(best, value)
        assert best is not None
        return best

    def _shifted(self, i: int, node: Table, edge: list[Table], shifts: Table) -> Fraction:
        """sum over forests of the greatest score, node scores shared out evenly but for the shifts."""
        forests, features = self.problem.forests, self.problem.features
        flat, copies = forests.nodes.tolist(), forests.copies.astype(int).tolist()
        of_node = {v: [row for row, u in enumerate(flat) if u == v] for v in self.nodes[i]}
        total = Fraction(0)
        for f, part in enumerate(forests.parts):
            rows = [row for row in range(forests.start[f], forests.start[f + 1]) if flat[row] in of_node]
            place = {flat[row]: k for k, row in enumerate(rows)}
            share = [
                [
                    node[flat[row]][s] / copies[flat[row]] + shifts[row][s]
                    - sum((shifts[k][s] for k in of_node[flat[row]]), Fraction(0)) / copies[flat[row]]
                    for s in range(features.n_labels)
                ]
                for row in rows
            ]  # fmt: skip
            own = [e for e in part.edges.tolist() if e in self.edges[i]]
            total += max(
                sum((share[k][label] for k, label in enumerate(y)), Fraction(0))
                + sum(
                    (edge[e][y[place[int(u)]]][y[place[int(v)]]] for e in own for u, v in [features.edges[e]]),
                    Fraction(0),
                )
                for y in itertools.product(range(features.n_labels), repeat=len(rows))
            )
        return total

    # -- D -------------------------------------------------------------------------------------------------------------

    def dual(self, witness: Mapping[str, Any], above: bool = True) -> Fraction | None:
        """The largest D at t times the witness, 0 <= t <= 1, its shares scaled to sum to at most 1.

        ``above``: plus a bound on the effect of the rounding of the computed distributions, so that no correct bound is
        larger. Otherwise without it: a lower bound on the optimum. None where no bound on that effect is known."""
        kinds = {"label": self._of_labels, "gibbs": self._of_gibbs, "marginal": self._of_marginals}
        if "node_marginals" in witness:
            witness = {"marginal_shares": np.ones(self.problem.n_examples), **witness}
        kind = next((kind for kind in kinds if f"{kind}_shares" in witness), None)
        if kind is None:
            return Fraction(0)
        shares = fractions(np.atleast_2d(witness[f"{kind}_shares"]))
        sums = [max(sum(column, Fraction(0)), Fraction(1)) for column in zip(*shares)]
        alphas = [[share / s * c for share, s, c in zip(row, sums, self.ceiling)] for row in shares]
        if any(0 < alpha <= Fraction(1e-290) for row in alphas for alpha in row):
            return None  # so small a share may be rounded to a larger one, which may prove more
        found = kinds[kind](witness, alphas)
        if found is None:
            return None
        node, edge, loss, away = found
        if any(s > 1 for s in sums):
            away = [each + 8 * Fraction(UNIT) for each in away]  # the scaling is rounded
        away = away if above else [Fraction(0)] * len(away)
        square, most = self._square(node, edge), self._most()
        loss += sum((a * c * max(e) for a, c, e in zip(away, self.ceiling, self.losses)), Fraction(0))
        off = sum((a * c * m for a, c, m in zip(away, self.ceiling, most)), Fraction(0))
        if off:
            square = max(_root(square) - off, Fraction(0)) ** 2
        t = min(Fraction(1), self.lam * loss / square) if square else Fraction(1)
        return t * loss - t * t * square / (2 * self.lam)

    def _most(self) -> list[Fraction]:
        """A bound on |e_i(y) df_i(y)| for each example, from above."""
        found = []
        for i, (nodes, edges) in enumerate(zip(self.nodes, self.edges)):
            size = sum((_root(self.gram[v][v]) for v in nodes), Fraction(0))
            size += sum((_root(_dot(self.z[e], self.z[e])) for e in edges), Fraction(0))
            found.append(3 * size * max(self.weight(i, at) for at in range(len(self.losses[i]))))
        return found

    def _square(self, node: Table, edge: list[Table]) -> Fraction:
        """|Psi_+|^2 from the weighted marginals: Psi is the same mass at the truth, less these marginals."""
        features, size = self.problem.features, self.problem.features.n_labels
        away = [[-each for each in row] for row in node]
        for v, s in enumerate(features.truth.tolist()):
            away[v][s] += sum(node[v], Fraction(0))
        value = Fraction(0)
        for s in range(size):
            column = [row[s] for row in away]
            value += _dot(column, [_dot(row, column) for row in self.gram])
        turned = [[-each for row in table for each in row] for table in edge]
        for e, (u, v) in enumerate(features.edges.tolist()):
            cell = int(features.truth[u]) * size + int(features.truth[v])
            turned[e][cell] += sum((each for row in edge[e] for each in row), Fraction(0))
        for k in range(features.n_edge_features):
            psi = [_dot([z[k] for z in self.z], [row[cell] for row in turned]) for cell in range(size * size)]
            if features.associative:
                psi = [max(psi[s * size + s], Fraction(0)) for s in range(size)]
            value += _dot(psi, psi)
        return value

    def _gather(self, alphas: list[list[Fraction]]) -> tuple[Table, list[Table], Fraction]:
        """Weighted marginals and loss of multipliers alpha_i(y), a list an example."""
        features, size = self.problem.features, self.problem.features.n_labels
        node = [[Fraction(0)] * size for _ in range(features.n_nodes)]
        edge = [[[Fraction(0)] * size for _ in range(size)] for _ in range(features.n_edges)]
        loss = Fraction(0)
        for i, row in enumerate(alphas):
            first = self.nodes[i].start
            for at, alpha in enumerate(row):
                if not alpha:
                    continue
                y, weighted = self.every[i][at], alpha * self.weight(i, at)
                loss += alpha * self.losses[i][at]
                for v in self.nodes[i]:
                    node[v][y[v - first]] += weighted
                for e in self.edges[i]:
                    u, v = (int(end) - first for end in features.edges[e])
                    edge[e][y[u]][y[v]] += weighted
        return node, edge, loss

    def _of_labels(self, witness: Mapping[str, Any], alphas: Table) -> Parts:
        found = [[Fraction(0)] * len(every) for every in self.every]
        for labels, row in zip(witness["labels"].tolist(), alphas):
            for i, alpha in enumerate(row):
                found[i][self.every[i].index(labels[self.nodes[i].start : self.nodes[i].stop])] += alpha
        return *self._gather(found), [Fraction(0)] * len(found)

    def _of_gibbs(self, witness: Mapping[str, Any], alphas: Table) -> Parts | None:
        """Distributions to 50 digits; the computed ones are those of scores that rounding moves."""
        features = self.problem.features
        found = [[Fraction(0)] * len(every) for every in self.every]
        away = [Fraction(0)] * len(found)
        terms = features.n_node_features + features.n_edge_features + 16
        for theta, b, row in zip(witness["gibbs"], witness["gibbs_loss"], alphas):
            node, edge = self.tables(theta)
            widest = _sizes(self.problem, theta, float(b))
            for i, alpha in enumerate(row):
                moved = 16 * UNIT * (terms * widest[i] + 16 * features.n_labels * len(self.nodes[i]))
                if not moved < 1e-3:
                    return None
                away[i] = max(away[i], Fraction(2 * moved))
                scores = [self.score(i, y, node, edge) + Fraction(b) * e for y, e in zip(self.every[i], self.losses[i])]
                q = [_exp(score - max(scores)) for score in scores]
                for at, each in enumerate(q):
                    found[i][at] += alpha * each / sum(q, Fraction(0))
        return *self._gather(found), away

    def _of_marginals(self, witness: Mapping[str, Any], alphas: Table) -> Parts:
        """On forests conditionals from the last node on; else the point of the local polytope that is nearest by the
        scaling of `agreeing`, which rounding moves."""
        features = self.problem.features
        node, edge = fractions(witness["node_marginals"]), [fractions(table) for table in witness["edge_marginals"]]
        if self.problem.oracle.relaxed:
            node, edge = _agreeing(features.edges.tolist(), node, edge)
            share = [alphas[0][i] for i in range(self.problem.n_examples)]
            node = [[share[features.example[v]] * each for each in row] for v, row in enumerate(node)]
            edge = [
                [[share[features.edge_example[e]] * each for each in row] for row in table]
                for e, table in enumerate(edge)
            ]
            loss = sum((_dot(*pair) for pair in zip(node, self.costs)), Fraction(0))
            return node, edge, loss, [Fraction(1e-13)] * len(share)
        found = []
        for i, every in enumerate(self.every):
            first, row = self.nodes[i].start, []
            for y in every:
                before: set[int] = set()
                alpha = alphas[0][i]
                for v in reversed(self.nodes[i]):
                    to = [
                        e
                        for e in self.edges[i]
                        if v in features.edges[e] and set(features.edges[e].tolist()) - {v} <= before
                    ]
                    before.add(v)
                    if not to:
                        alpha *= node[v][y[v - first]] / sum(node[v], Fraction(0))
                        continue
                    u, w = features.edges[to[0]].tolist()
                    table = edge[to[0]] if w == v else list(zip(*edge[to[0]]))
                    line = table[y[(u if w == v else w) - first]]
                    alpha *= (
                        line[y[v - first]] / sum(line, Fraction(0)) if any(line) else Fraction(1, features.n_labels)
                    )
                row.append(alpha)
            found.append(row)
        return *self._gather(found), [Fraction(0)] * len(found)


def _agreeing(ends: Any, node: Table, edge: list[Table]) -> tuple[Table, list[Table]]:
    """`witness.agreeing` in fractions."""
    node = [[each / sum(row, Fraction(0)) for each in row] for row in node]
    made = []
    for (u, v), table in zip(ends, edge):
        for _ in range(2):  # rows, then columns
            sums, wanted = [sum(row, Fraction(0)) for row in table], node[u]
            table = [
                [each * min(Fraction(1), a / b) if b else each for each in row]
                for row, a, b in zip(table, wanted, sums)
            ]
            table, u, v = [list(row) for row in zip(*table)], v, u
        more = [a - sum(row, Fraction(0)) for a, row in zip(node[u], table)]
        also = [a - sum(row, Fraction(0)) for a, row in zip(node[v], zip(*table))]
        missing = sum(more, Fraction(0)) or Fraction(1)
        made.append([[each + a * b / missing for each, b in zip(row, also)] for row, a in zip(table, more)])
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


def _exp(score: Fraction) -> Fraction:
    """e^score to 50 digits, 0 below e^-700."""
    if score < -700:
        return Fraction(0)
    with mpmath.workdps(50):
        man, exp = mpmath.exp(mpmath.mpf(score.numerator) / score.denominator).man_exp
    return Fraction(int(man)) * Fraction(2) ** int(exp)


def _root(value: Fraction) -> Fraction:
    """The square root to 50 digits."""
    with mpmath.workdps(50):
        man, exp = mpmath.sqrt(mpmath.mpf(value.numerator) / value.denominator).man_exp
    return Fraction(int(man)) * Fraction(2) ** int(exp)


def _dot(left: Iterable[Fraction], right: Iterable[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right)), Fraction(0))


def fractions(table: Any) -> Table:
    return [[Fraction(float(each)) for each in row] for row in np.asarray(table)]
