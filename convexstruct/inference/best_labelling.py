"""The best labelling of any model of score tables, in one call: exact where the graph allows, else with a bound.

    score(y) = sum over factors c of table_c(y_c)

Tried in this order: a minimum cut (two labels, scopes of at most two variables, associative), a junction tree (where
its cliques are small), and the relaxation to the local polytope of the factors,

    maximise    sum_v <node_v, mu_v> + sum_c <table_c, z_c>
    subject to  sum_s mu_v(s) = 1,   the sum of z_c over all of y_c but y_v = mu_v for each v of c,   mu, z >= 0,

by HiGHS, whose most probable labels are then changed one at a time while the score rises. The multipliers m of the
agreement of z with mu are messages, and for any messages

    max_y score(y) <= sum_v max_s [node_v(s) + sum_{c at v} m_cv(s)] + sum_c max_{y_c} [table_c(y_c) - sum_v m_cv(y_v)].

The bound of a cut and of the relaxation is this one, computed with its rounding.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import scipy
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import Labels, Vector
from convexstruct.features.graphs.factors import Factors
from convexstruct.graphs import starts
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.oracles.loopy.minimum_cut import messages as messages_of_flow
from convexstruct.oracles.loopy.minimum_cut import minimum_cut
from convexstruct.oracles.loopy.pairwise import pairwise
from convexstruct.rounding import Rounded, exact, gamma, largest_of, product, summed
from convexstruct.validation.arguments import described, number, refuse, sentence
from convexstruct.validation.arrays import real

#: Passes over all variables in which single labels are changed; most relaxations need two or three.
SWEEPS = 20
FORBIDDEN = "model forbids every labelling, wanted one that is allowed"


class Labelling(NamedTuple):
    """A labelling and what is proved of it.

    labels : by node of a graph, or (n,) in the order of the variables. score : its score. upper : no labelling has a
    greater score. exact : whether the method finds a best labelling, up to the rounding by which upper exceeds score.
    method : "minimum cut", "junction tree" or "relaxation".
    """

    labels: Any
    score: float
    upper: float
    exact: bool
    method: str


def best_labelling(
    model: nx.Graph | Factors, theta: ArrayLike | None = None, *, time_limit: float | None = None
) -> Labelling:
    """The labelling of the greatest score.

    Parameters
    ----------
    model : a networkx graph whose nodes have ``scores`` (S_v,), one a label, and whose edges may have ``scores``
        (S_u, S_v), read from the earlier node to the later one in the graph's order (of a ``DiGraph`` in the edge's own
        direction). Or `Factors` with ``theta`` (d,), whose tables are A theta. A score of -inf forbids what it is for.
    time_limit : seconds after which the relaxation is given up; the bound is then that of no messages.

    Raises
    ------
    ValueError
        If an argument is malformed, a score is NaN or +inf, or every labelling is forbidden.
    """
    limit = None if time_limit is None else number("time_limit", time_limit, above=0)
    if isinstance(model, Factors):
        if theta is None:
            raise ValueError("theta is None, wanted the parameters of the factors")
        read = real("theta", theta, (model.dimension,), why="one a column of the design")
        return _best(model, model.masked(model.design @ read), limit)
    if theta is not None:
        raise ValueError("theta is given, wanted None with a graph: its nodes and edges have scores")
    factors, flat, names = _of_graph(model)
    found = _best(factors, flat, limit)
    return found._replace(labels=dict(zip(names, found.labels.tolist())))


def _of_graph(graph: Any) -> tuple[Factors, Vector, list[Any]]:
    """The factors of a graph's scores, the stacked scores, and the names of the nodes."""
    if not isinstance(graph, nx.Graph) or graph.is_multigraph() or not len(graph):
        refuse("model", graph, "a networkx Graph or DiGraph with at least one node, or Factors")
    names = list(graph)
    place = {name: v for v, name in enumerate(names)}
    tables = [_scores(f"scores of node {described(name)}", graph.nodes[name], ("labels",)) for name in names]
    cards = [len(table) for table in tables]
    scopes: list[tuple[int, ...]] = [(v,) for v in range(len(names))]
    for first, second, data in graph.edges(data=True):
        if "scores" not in data:
            continue
        u, v = place[first], place[second]
        if u == v:
            raise sentence(f"model joins node {described(first)} with itself")
        u, v = (u, v) if graph.is_directed() else (min(u, v), max(u, v))
        what = f"scores of the edge {described(names[u])}, {described(names[v])}"
        tables.append(_scores(what, data, (cards[u], cards[v])))
        scopes.append((u, v))
    flat = np.concatenate([table.ravel() for table in tables])
    return Factors(tuple(cards), tuple(scopes), sp.csr_array(sp.eye_array(len(flat), format="csr"))), flat, names


def _scores(name: str, data: Any, shape: tuple[int | str, ...]) -> Any:
    if "scores" not in data:
        raise sentence(f"{name} are missing, wanted an attribute 'scores' of shape {shape}")
    table = np.asarray(data["scores"])
    forbidden = np.isneginf(table) if table.dtype.kind == "f" else np.zeros(table.shape, dtype=bool)
    read = real(name, np.where(forbidden, 0.0, table) if forbidden.any() else data["scores"], shape)
    return np.where(forbidden, -np.inf, read)


def _best(factors: Factors, flat: Vector, limit: float | None) -> Labelling:
    structure = _Structure(factors, flat)
    with deadline.within(limit):
        found = _by_cut(structure)
        if found is not None:
            return found
        try:
            score, labels = FactorInference(factors).best(flat)
        except (ValueError, deadline.DeadlinePassed):  # a clique has too many joint labels
            return _relaxed(structure)
    if math.isinf(score):
        raise ValueError(FORBIDDEN)
    # a score is the sum of one entry of each factor, in whatever order the cliques add them
    sizes = np.maximum.reduceat(np.abs(np.where(np.isfinite(flat), flat, 0.0)), factors.start[:-1])
    rounding = gamma(2 * len(sizes) + factors.n_variables) * math.fsum(sizes)
    return structure.labelled(labels, score + 2.0 * rounding, True, "junction tree")


class _Structure:
    """The local polytope of factors, with the stacked tables ``flat`` (T,).

    node (V,) : the sums of the tables of one variable each, over all labels of all variables, with their rounding.
    table : the tables of the other, "wide" factors. node_allowed, table_allowed : what is not forbidden of these.
    of_nodes, of_tables : sparse; a row r for each wide factor c, variable v of it and label l, with 1 at the label l of
    v, and at the entries of c in which v has it.
    """

    def __init__(self, factors: Factors, flat: Vector) -> None:
        self.factors, self.flat = factors, flat
        self.wide = [c for c, scope in enumerate(factors.scopes) if len(scope) > 1]
        self.first, cards = starts(factors.cards), factors.cards
        self.table_start = starts([math.prod(factors.shapes[c]) for c in self.wide])
        entries = [np.arange(factors.start[c], factors.start[c + 1]) for c in range(len(factors.scopes))]
        narrow = [c for c, scope in enumerate(factors.scopes) if len(scope) == 1]
        gather = _ones(
            [self.first[factors.scopes[c][0]] + np.arange(len(entries[c])) for c in narrow],
            [entries[c] for c in narrow],
            (int(self.first[-1]), len(flat)),
        )
        finite = np.where(np.isneginf(flat), 0.0, flat)
        self.node = product(gather, exact(finite))
        self.node_allowed = gather @ np.isneginf(flat) == 0
        inside = np.concatenate([entries[c] for c in self.wide]) if self.wide else np.zeros(0, dtype=np.intp)
        self.table, self.table_allowed = finite[inside], ~np.isneginf(flat[inside])
        labels, places, at, rows = [], [], [], 0
        for c, begin in zip(self.wide, self.table_start):
            shape = factors.shapes[c]
            joint = np.unravel_index(np.arange(math.prod(shape)), shape)
            for v, label in zip(factors.scopes[c], joint):
                labels.append(self.first[v] + np.arange(cards[v]))
                at.append(rows + label)
                places.append(begin + np.arange(len(label)))
                rows += cards[v]
        self.of_nodes = _ones([np.arange(rows)], labels, (rows, int(self.first[-1])))
        self.of_tables = _ones(at, places, (rows, len(self.table)))

    def upper(self, messages: Vector) -> float:
        """The bound that messages (rows,) give; -inf where all labels of a variable or entries of a table are
        forbidden."""
        moved = exact(messages)
        node = self.node + product(sp.csr_array(self.of_nodes.T), moved)
        table = exact(self.table) - product(sp.csr_array(self.of_tables.T), moved)
        found = 0.0
        for scores, allowed, start in (
            (node, self.node_allowed, self.first), (table, self.table_allowed, self.table_start),
        ):  # fmt: skip
            counts = np.add.reduceat(allowed.astype(np.intp), start[:-1]) if len(start) > 1 else np.zeros(0, dtype=int)
            if not counts.all():
                return -math.inf
            if len(counts):
                found = summed(largest_of(scores[np.flatnonzero(allowed)], starts(counts)[:-1])) + found
        return float(found.upper) if isinstance(found, Rounded) else found

    def labelled(self, labels: Labels, upper: float, exactly: bool, method: str) -> Labelling:
        score = math.fsum(self.flat[self.factors.entries(labels[None])[0]])
        return Labelling(labels, score, max(upper, score), exactly, method)


def _ones(rows: list[Any], columns: list[Any], shape: tuple[int, int]) -> sp.csr_array:
    """A sparse matrix with 1 at these places."""
    at = tuple(np.concatenate(part) if part else np.zeros(0, dtype=np.intp) for part in (rows, columns))
    return sp.csr_array((np.ones(len(at[0])), at), shape=shape)


def _by_cut(structure: _Structure) -> Labelling | None:
    """By a minimum cut; None where the model is not one of two labels, pairs and associative tables."""
    factors = structure.factors
    scopes = [factors.scopes[c] for c in structure.wide]
    if set(factors.cards) != {2} or not all(len(scope) == 2 for scope in scopes):
        return None
    tables = structure.table.reshape(-1, 2, 2)
    agreeing = (tables[:, 0, 0] + tables[:, 1, 1]) - (tables[:, 0, 1] + tables[:, 1, 0])
    if not (structure.node_allowed.all() and structure.table_allowed.all() and (agreeing >= 0).all()):
        return None
    scores = pairwise(structure.node.value.reshape(-1, 2), np.array(scopes, dtype=np.intp).reshape(-1, 2), tables)
    cut = minimum_cut(scores, 0.0)
    return structure.labelled(
        cut.labels, structure.upper(messages_of_flow(scores, cut.flow).ravel()), True, "minimum cut"
    )


def _relaxed(structure: _Structure) -> Labelling:
    """By the relaxation; of no messages where the time is over."""
    n, V = structure.factors.n_variables, len(structure.node_allowed)
    rows = structure.of_nodes.shape[0]
    objective = np.concatenate((structure.node.value, structure.table))
    size = float(np.abs(objective).max()) or 1.0
    variable = np.repeat(np.arange(n), structure.factors.cards)
    sums = _ones([variable], [np.arange(V)], (n, V))
    equations = sp.block_array([[sums, None], [-structure.of_nodes, structure.of_tables]], format="csr")
    right = np.concatenate((np.ones(n), np.zeros(rows)))
    allowed = np.concatenate((structure.node_allowed, structure.table_allowed))
    bounds = np.column_stack((np.zeros(len(allowed)), np.where(allowed, np.inf, 0.0)))
    left = deadline.left()
    messages, marginals = np.zeros(rows), np.where(structure.node_allowed, structure.node.value, -np.inf)
    if left > 0:
        options = {"time_limit": left}
        solved = scipy.optimize.linprog(
            -objective / size, None, None, equations, right, bounds, method="highs", options=options
        )
        if solved.status == 2:
            raise ValueError(FORBIDDEN)
        if solved.status == 0:
            messages, marginals = -size * solved.eqlin.marginals[n:], solved.x[:V]
    labels = np.array([part.argmax() for part in np.split(marginals, structure.first[1:-1])])
    with deadline.without():
        labels = _improved(structure.factors, structure.flat, labels)
        upper = min(structure.upper(messages), structure.upper(np.zeros(rows)))
    if math.isinf(upper):
        raise ValueError(FORBIDDEN)
    return structure.labelled(labels, upper, False, "relaxation")


def _improved(factors: Factors, flat: Vector, labels: Labels) -> Labels:
    """``labels`` after changes of one label at a time, each to the best there is, until none raises the score."""
    labels = labels.copy()
    entries = factors.entries(labels[None])[0]
    for _ in range(SWEEPS):
        before = labels.copy()
        for v, card in enumerate(factors.cards):
            at, stride = factors.holding(v)
            base = entries[at] - stride * labels[v]
            scores = flat[base[:, None] + stride[:, None] * np.arange(card)].sum(axis=0)
            best = int(scores.argmax())
            if scores[best] > scores[labels[v]]:
                labels[v] = best
                entries[at] = base + stride * best
        if (labels == before).all():
            break
    return labels
