"""The two best labellings on junction trees, batched over examples that share one tree.

Let y be the best labelling. The second best differs from y somewhere. It is found by one pass upwards, which computes
for each clique c, beside its message M_c, the best score of c and the cliques below it among labellings that agree with
y on the separator of c and differ from it in another variable of these cliques:

    D_c = max { max over a != y_a of T_c(y_s, a),   f_c(y) + max over children k of [D_k + sum over j != k of M_j(y)] }

with T_c the clique's table with the messages of its children added, f_c its own factors, s its separator and a the
variables that it assigns. Each example needs one row of each clique's table, so this takes little time beside the
messages themselves.

Factors and labellings are those of `convexstruct.oracles.tree.junction_tree`. Ties: at each clique, departing there
before departing below it; then the first of the best joint labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.junction_trees import JunctionTree
from convexstruct.oracles.chain.two_best import TwoBest
from convexstruct.oracles.tree.junction_tree import Factor, best, greatest, joint, split, upward


class _Departures(NamedTuple):
    """The best score (n,) among labellings that differ from a given one, and the parts of it from which such a
    labelling is read.

    own : for each clique (n,), the best score of it and the cliques below it among labellings that differ in a variable
        that the clique itself assigns. below : for each clique the pairs (child, score (n,)): the same for labellings
        that agree there and differ in the cliques from that child down.
    """

    score: Vector
    own: list[Vector]
    below: list[list[tuple[int, Vector]]]


def two_best(tree: JunctionTree, factors: Sequence[Factor], n: int) -> TwoBest:
    """The largest and the second largest sum of the factors over labellings, for each of ``n`` examples."""
    scores, first = best(tree, factors, n)
    second, labels = best_other(tree, factors, first)
    return TwoBest(scores, first, second, labels)


def best_other(tree: JunctionTree, factors: Sequence[Factor], given: Labels) -> tuple[Vector, Labels]:
    """The greatest score (n,) of a labelling other than ``given`` (n, n_variables), and one that attains it.

    ``given`` need not be the best. Where nothing else is allowed the score is -inf and ``given`` is returned.
    """
    n = len(given)
    tables, messages = upward(tree, factors, n, greatest)
    departures = _departures(tree, factors, given, tables, messages)
    labels = _read(tree, given, tables, departures)
    alone = np.isneginf(departures.score)
    labels[alone] = given[alone]
    return departures.score, labels


def _departures(
    tree: JunctionTree, factors: Sequence[Factor], given: Labels, tables: list[Tensor], messages: list[Matrix]
) -> _Departures:
    """The recursion for D, upwards."""
    n = len(given)
    rows = np.arange(n)
    staying = [np.zeros(n) for _ in tables]  # f_c(y) + sum of M_j(y) over the children met so far
    leaving = [np.full(n, -np.inf) for _ in tables]  # the same with D_k in place of one of the M_k
    below: list[list[tuple[int, Vector]]] = [[] for _ in tables]
    own: list[Vector] = [np.zeros(0)] * len(tables)
    for scope, table in factors:
        staying[tree.clique_of(scope)] += table[(rows if len(table) > 1 else 0, *(given[:, v] for v in scope))]
    score = np.zeros(0)
    for c in range(tree.n_cliques - 1, -1, -1):
        at = joint(given, tree.separators[c], tree.cards)
        here = tables[c][rows, at]
        here[rows, joint(given, tree.assigned[c], tree.cards)] = -np.inf
        own[c] = here.max(axis=1)
        score = np.maximum(own[c], leaving[c])
        if c:
            up = tree.parent[c]
            message = messages[c][rows, at]
            leaving[up] += message
            below[up] = [(child, value + message) for child, value in below[up]] + [(c, staying[up] + score)]
            leaving[up] = np.maximum(leaving[up], below[up][-1][1])
            staying[up] += message
    return _Departures(score, own, below)


def _read(tree: JunctionTree, given: Labels, tables: list[Tensor], departures: _Departures) -> Labels:
    """A best labelling that differs from ``given``, read downwards."""
    n = len(given)
    rows = np.arange(n)
    labels = np.empty_like(given)
    must = [np.ones(n, dtype=bool), *(np.zeros(n, dtype=bool) for _ in tables[1:])]  # whether to depart below here
    for c, table in enumerate(tables):
        here = table[rows, joint(labels, tree.separators[c], tree.cards)]
        stay = joint(given, tree.assigned[c], tree.cards)
        ways = np.array([departures.own[c], *(value for _, value in departures.below[c])])
        way = ways.argmax(axis=0)
        here[rows[must[c]], stay[must[c]]] = -np.inf
        follow = must[c] & (way > 0)
        for k, (child, _) in enumerate(departures.below[c]):
            must[child] = follow & (way == k + 1)
        split(np.where(follow, stay, here.argmax(axis=1)), tree.assigned[c], tree.cards, labels)
    return labels
