r"""Projection onto the local marginal polytope (paper 2, E.3) in CVXPY, its dual, and the same over all labellings.

    tables        the quadratic program over clique tables, E.3 and E.3.1
    tables_dual   over the multipliers of agreements and sums, (34), (36), (38)
    labellings    over distributions of all labellings, without agreements; for junction trees only

Symbols: a the entries of all tables, flat, group after group as in `CliqueTables`; m likewise; row c of S sums table c,
row k of A is one agreement, left minus right marginal; z the sum of every table; xi is the multiplier of A a = 0 and
lambda that of S a = z, with the signs of `tables`. m is a parameter.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from convexstruct.arrays import Index
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.graphs import starts
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.projection.boxes import PAPER
from convexstruct.oracles.polytope.clique_tables import CliqueTables

#: The largest number of labellings, of all components together, that `labellings` accepts.
LIMIT = 20_000


class Rows:
    """The equations of a problem as sparse matrices, and its data for each entry.

    sums (cliques, entries), agreements (multipliers, entries); clique (entries,) the clique of each entry;
    d (entries,), z (cliques,).
    """

    def __init__(self, problem: MarginalProjection) -> None:
        self.problem = problem
        structure = problem.structure
        sizes = np.concatenate([np.full(len(c), prod(cards)) for c, cards in zip(structure.component, structure.cards)])
        self.clique = np.repeat(np.arange(len(sizes)), sizes)
        self.sums = sums_by(self.clique, len(sizes))
        self.agreements = agreements(structure)
        self.d = np.concatenate(problem.d)[self.clique]
        self.z = np.concatenate([problem.scale[component] for component in structure.component])
        self.m = cp.Parameter(structure.n_entries, name="m", value=problem.m)

    def present(self) -> MarginalProjection:
        """The problem with the present m of the formulation."""
        return replace(self.problem, m=np.asarray(self.m.value))

    def distance(self, a: Any) -> Any:
        """The objective at a."""
        return 0.5 * cp.sum_squares(cp.multiply(self.d, a - self.m))


def agreements(structure: CliqueTables) -> sp.csr_array:
    """A, left minus right marginal, one row for each multiplier; sparse (n_multipliers, n_entries)."""
    index = structure.split(np.arange(structure.n_entries, dtype=np.float64))
    rows, columns, signs, start = [], [], [], 0
    for each in structure.agreements:
        size = prod(each.cards)
        for side, sign in ((each.left, 1.0), (each.right, -1.0)):
            tables = index[side.group][side.rows].astype(np.intp)
            cell = np.zeros(structure.cards[side.group], dtype=np.intp)
            for axis, labels in zip(side.axes, each.cards):
                shape = [labels if other == axis else 1 for other in range(cell.ndim)]
                cell = cell * labels + np.arange(labels).reshape(shape)
            place = start + size * np.arange(len(tables))[:, None] + cell.ravel()
            rows.append(place.ravel())
            columns.append(tables.ravel())
            signs.append(np.full(tables.size, sign))
        start += size * len(each.component)
    whole = (structure.n_multipliers, structure.n_entries)
    if not rows:
        return sp.csr_array(whole)
    entries = np.concatenate(signs), (np.concatenate(rows), np.concatenate(columns))
    return sp.csr_array(sp.coo_array(entries, shape=whole))


@stated("the local marginal polytope, clique by clique", PAPER, "E.3, E.3.1", optimum="p* of tables")
def tables(problem: MarginalProjection) -> Formulation:
    r"""The quadratic program of E.3:

        min  sum_c d_c^2 / 2 |a_c - m_c|^2
        s.t. a >= 0,  sum_y a_c(y) = z for every clique c
             a_c and a_c' have the same marginal on the variables that they share

    Source: paper 2, E.3 and, for edges alone, E.3.1. Variable a (entries,); parameter m.
    """
    of = Rows(problem)
    a = cp.Variable(len(of.d), name="a")
    agree = [of.agreements @ a == 0] if of.agreements.shape[0] else []

    def recover(_: Formulation) -> Recovered:
        xi = -np.asarray(agree[0].dual_value) if agree else np.zeros(0)
        return Recovered(of.present(), {"a": np.asarray(a.value)}, {"xi": xi})

    parts = {
        "simplex": equation([a >= 0, of.sums @ a == of.z], r"a_c \ge 0, \quad \sum_{y} a_c(y) = z, \quad \forall c"),
    }
    if agree:
        parts["agree"] = equation(agree, r"\sum_{y \sim y_S} a_c(y) = \sum_{y \sim y_S} a_{c'}(y), \quad S = c \cap c'")
    return Formulation(
        name="tables",
        objective=cp.Minimize(of.distance(a)),
        objective_latex=r"\min_a\quad \sum_c \frac{d_c^2}{2} \lVert a_c - m_c \rVert^2",
        parts=parts,
        variables={"a": a},
        parameters={"m": of.m},
        source="paper 2, E.3",
        recover=recover,
    )


@stated("its dual over agreements and sums", PAPER, "(33)-(38)", optimum="p* of tables")
def tables_dual(problem: MarginalProjection) -> Formulation:
    r"""The dual of `tables`:

        max  - sum_c |g_c|^2 / (2 d_c^2) + <m, g> - sum_c lambda_c z                                            (34)
        s.t. g_c <= lambda_c - (the sum of the multipliers xi of its agreements in each entry)                  (33)

    where the slack of the inequality is the multiplier of a >= 0, and a = m - g / d^2 at the optimum. Source: paper 2,
    E.3, (33)-(34) and, for edges alone, (37)-(38). Variables xi (multipliers,), lambda (cliques,), g (entries,).
    """
    of = Rows(problem)
    lam, g = cp.Variable(len(of.z), name="lambda"), cp.Variable(len(of.d), name="g")
    limit, variables = of.sums.T @ lam, {"lambda": lam, "g": g}
    if of.agreements.shape[0]:
        variables["xi"] = cp.Variable(of.agreements.shape[0], name="xi")
        limit = limit - of.agreements.T @ variables["xi"]

    def recover(_: Formulation) -> Recovered:
        present = of.present()
        xi = np.asarray(variables["xi"].value) if "xi" in variables else np.zeros(0)
        return Recovered(present, {"a": present.m - np.asarray(g.value) / of.d**2}, {"xi": xi})

    return Formulation(
        name="tables_dual",
        objective=cp.Maximize(of.m @ g - 0.5 * cp.sum_squares(cp.multiply(1.0 / of.d, g)) - of.z @ lam),
        objective_latex=r"\max_{\xi,\lambda}\quad -\sum_c \frac{1}{2 d_c^2} \lVert g_c \rVert^2 + \langle m, g \rangle "
        r"- \sum_c \lambda_c z",
        objective_label="34",
        parts={
            "33": equation(g <= limit, r"g_c = d_c^2 (m_c - a_c) \le \lambda_c - \textstyle\sum_{c'} \pm \xi_{cc'}")
        },
        variables=variables,
        parameters={"m": of.m},
        source="paper 2, E.3, (33)-(34)",
        recover=recover,
    )


@stated(
    "distributions of all labellings, on junction trees",
    PAPER,
    "ours, from E.3",
    optimum="p* of tables",
    enumerated=True,
)
def labellings(problem: MarginalProjection, limit: int = LIMIT) -> Formulation:
    r"""Over a distribution (times z) q of all labellings of each component:

        min  sum_c d_c^2 / 2 |a_c - m_c|^2
        s.t. a = V q,  q >= 0,  sum of a component's q = z

    where V[e, y] is 1 if labelling y contains entry e, else 0. Source: ours, after E.3: "if the graphical model is tree
    structured, then it will also guarantee global consistency". Variables q (labellings,), a (entries,); parameter m.
    Its solution proves no lower bound: a dual witness consists of multipliers of agreements, and this program has no
    agreement constraints.

    Raises
    ------
    ValueError
        If the cliques form no junction tree (the local polytope is larger then), or there are more than ``limit``
        labellings.
    """
    of = Rows(problem)
    vertices, component = corners(problem.structure, limit)
    q, a = cp.Variable(vertices.shape[1], name="q"), cp.Variable(len(of.d), name="a")
    sums = sums_by(component, problem.structure.n_components)

    def recover(_: Formulation) -> Recovered:
        return Recovered(of.present(), {"a": np.asarray(a.value)}, None)

    return Formulation(
        name="labellings",
        objective=cp.Minimize(of.distance(a)),
        objective_latex=r"\min_q\quad \sum_c \frac{d_c^2}{2} \lVert a_c - m_c \rVert^2",
        parts={
            "V": equation(a == vertices @ q, r"a_c(y_c) = \sum_{y \sim y_c} q(y)"),
            "q": equation([q >= 0, sums @ q == problem.scale], r"q \ge 0, \quad \sum_y q(y) = z"),
        },
        variables={"q": q, "a": a},
        parameters={"m": of.m},
        source="ours, for E.3 of paper 2, enumerated",
        recover=recover,
    )


def corners(structure: CliqueTables, limit: int) -> tuple[sp.csc_array, Index]:
    """V, sparse (entries, labellings), and the component of each labelling.

    Raises
    ------
    ValueError
        As `labellings` does.
    """
    variable, cards = variables(structure)
    first = starts([prod(shape) for shape in structure.shapes])
    rows: list[int] = []
    columns: list[int] = []
    component: list[int] = []
    count = 0
    for k in range(structure.n_components):
        cliques = [
            (g, int(row), variable[g][row])
            for g, of in enumerate(structure.component)
            for row in range(*np.searchsorted(of, (k, k + 1)))
        ]
        mine = sorted({int(v) for _, _, names in cliques for v in names})
        junction_tree([{int(v) for v in names} for _, _, names in cliques], len(mine))
        count += prod(cards[v] for v in mine)
        if count > limit:
            raise ValueError(f"there are more than {limit} labellings, wanted a smaller instance for an enumeration")
        for labels in product(*(range(cards[v]) for v in mine)):
            value = dict(zip(mine, labels))
            for g, row, names in cliques:
                at = np.ravel_multi_index([value[int(v)] for v in names], structure.cards[g])
                rows.append(int(first[g]) + row * prod(structure.cards[g]) + int(at))
                columns.append(len(component))
            component.append(k)
    shape = (structure.n_entries, len(component))
    return sp.csc_array((np.ones(len(rows)), (rows, columns)), shape=shape), np.array(component)


def variables(structure: CliqueTables) -> tuple[list[Index], list[int]]:
    """For each group the number of the variable on each axis, (n, axes), and the number of labels of each variable.
    Axes that an agreement identifies are the same variable."""
    sizes = [len(of) * len(cards) for of, cards in zip(structure.component, structure.cards)]
    first = starts(sizes)
    ends: list[list[Index]] = [[np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]]
    for each in structure.agreements:
        for position in range(len(each.cards)):
            for end, side in zip(ends, (each.left, each.right)):
                width = len(structure.cards[side.group])
                end.append(first[side.group] + side.rows * width + side.axes[position])
    left, right = (np.concatenate(end) for end in ends)
    total = int(first[-1])
    tied = connected_components(sp.coo_array((np.ones(len(left)), (left, right)), shape=(total, total)))[1]
    variable = [tied[a:b].reshape(-1, len(c)) for a, b, c in zip(first, first[1:], structure.cards)]
    cards = [0] * (int(tied.max(initial=-1)) + 1)
    for of, shape in zip(variable, structure.cards):
        for axis, labels in enumerate(shape):
            for v in of[:, axis]:
                cards[int(v)] = labels
    return variable, cards


def junction_tree(cliques: list[set[int]], n_variables: int) -> None:
    """Raise ValueError unless the cliques form a junction tree: unless their maximum spanning tree, with the numbers of
    shared variables as weights, has the weight sum_c |c| - n."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(cliques)))
    for i, one in enumerate(cliques):
        graph.add_weighted_edges_from((i, j, len(one & other)) for j, other in enumerate(cliques[:i]) if one & other)
    carried = sum(weight for _, _, weight in nx.maximum_spanning_tree(graph).edges(data="weight"))
    if carried != sum(map(len, cliques)) - n_variables:
        raise ValueError(
            "the cliques form no junction tree: tables that agree locally need not belong to a distribution"
        )
