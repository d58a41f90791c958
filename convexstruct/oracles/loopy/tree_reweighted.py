r"""An upper bound on ln Z of pairwise models from spanning trees, valid for any messages (Wainwright, Jaakkola, Willsky
2005).

ln Z is convex in the score tables. Where tables of K spanning trees have the model's tables as their mean,

    ln Z(tables) <= 1/K sum_t ln Z(tables of tree t).

The least such bound is the maximum of a concave function, the mean score plus the tree-reweighted entropy; where belief
propagation with rho_e, the share of the trees that hold pair e, converges, it finds this maximum. Its messages split
the tables: with a_eu = rho_e m_eu, every tree takes the node tables B_u = table_u + sum_{e at u} a_eu, and for each of
its pairs E_e = (table_e - a_eu - a_ev) / rho_e. Their mean over the trees is the model's tables for any a, so the bound
always holds; at a fixed point all trees have the same marginals, and it is the least for these rho.

**Rounding.** With S the labels, n the variables and M the sum over a tree of the largest |B| and |E| and of ln S, no
number in its sums is larger than M; each is the result of at most 8 n roundings, and of n log-sum-exps, which err by
UNIT (2 S + 16 ln S + 40). The error of B is at most gamma(degree + 4) times the sum of the magnitudes of its terms,
that of rho_e E_e at most 6 UNIT times the same sum for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from networkx.utils import UnionFind

from convexstruct.arrays import Flags, Index, Vector
from convexstruct.oracles.loopy.belief_propagation import FactorGraph
from convexstruct.oracles.tree.forest import Forest, forest, sum_product
from convexstruct.rounding import TINY, UNIT, Rounded, gamma

#: The least number of trees: with more rho is more even and the bound a little lower, but each call takes longer.
LEAST_TREES = 4


class SpanningTrees(NamedTuple):
    """K spanning forests that hold every pair at least once.

    rho (factors,) : the share of the forests that hold each factor; 1 for factors of one variable. held (K, pairs) :
    which of the pairs each forest holds. pairs (pairs,) : the factors of two variables. ends (pairs, 2) : their
    variables. layout : the K forests side by side, forest t on the nodes t n to (t + 1) n - 1. copies : the pair of
    each edge of ``layout``.
    """

    rho: Vector
    held: Flags
    pairs: Index
    ends: Index
    layout: Forest
    copies: Index


def spanning_trees(n_variables: int, scopes: Sequence[Sequence[int]], least: int = LEAST_TREES) -> SpanningTrees | None:
    """Spanning forests, each built greedily from the pairs that the forests before hold least often, at least ``least``
    and until every pair is held; None where a factor has more than two variables."""
    if max(map(len, scopes)) > 2:
        return None
    pairs = np.array([c for c, scope in enumerate(scopes) if len(scope) == 2], dtype=np.intp)
    ends = np.array([scopes[c] for c in pairs], dtype=np.intp).reshape(-1, 2)
    used = np.zeros(len(pairs), dtype=np.int64)
    rows: list[Flags] = []
    order = np.random.default_rng(0).permutation(len(pairs))  # decides between pairs held equally often
    while len(rows) < least or (used == 0).any():
        joined = UnionFind()
        row = np.zeros(len(pairs), dtype=bool)
        for e in order[np.argsort(used[order], kind="stable")].tolist():
            u, v = ends[e].tolist()
            if joined[u] != joined[v]:
                joined.union(u, v)
                row[e] = True
        used += row
        rows.append(row)
    held = np.array(rows)
    rho = np.ones(len(scopes))
    rho[pairs] = used / len(rows)
    tree, copies = np.nonzero(held)
    layout = forest(len(rows) * n_variables, ends[copies] + tree[:, None] * n_variables)
    return SpanningTrees(rho, held, pairs, ends, layout, copies)


def upper_bound(graph: FactorGraph, trees: SpanningTrees, tables: Vector, messages: Vector) -> Rounded:
    """An upper bound on ln Z of the stacked tables (T,), with its allowance; ``messages`` (M,) may be any, such as
    those of `propagate`."""
    cards = np.array(graph.cards)
    n, most, k = len(cards), int(cards.max()), len(trees.held)
    node = np.where(np.arange(most) < cards[:, None], 0.0, -np.inf)
    size = np.zeros((n, most))  # sums of the magnitudes of the terms of node
    degree = np.bincount(trees.ends.ravel(), minlength=n) + np.bincount(
        [int(w) for each in graph.shapes if len(each.shape) == 1 for w in _variables(graph, each.messages[0])],
        minlength=n,
    )
    split = np.zeros((graph.n_factors, 2, most))
    own = np.zeros((graph.n_factors, most, most))
    for each in graph.shapes:
        table = tables[each.entries]
        if len(each.shape) == 1:
            at = _variables(graph, each.messages[0])
            np.add.at(node[:, : each.shape[0]], at, table)
            np.add.at(size[:, : each.shape[0]], at, np.abs(table))
            continue
        own[each.factors, : each.shape[0], : each.shape[1]] = table.reshape(-1, *each.shape)
        for axis, places in enumerate(each.messages):
            a = trees.rho[each.factors][:, None] * messages[places]
            at = _variables(graph, places)
            np.add.at(node[:, : each.shape[axis]], at, a)
            np.add.at(size[:, : each.shape[axis]], at, np.abs(a))
            split[each.factors, axis, : each.shape[axis]] = a
    share = trees.rho[trees.pairs][:, None, None]
    first, second = split[trees.pairs, 0][:, :, None], split[trees.pairs, 1][:, None, :]
    edge = (own[trees.pairs] - first - second) / share
    of_edges = np.abs(own[trees.pairs]) + np.abs(first) + np.abs(second)
    sums = sum_product(trees.layout, np.tile(node, (k, 1)), edge[trees.copies]).log_partition
    value = math.fsum(sums.tolist()) / k
    widest_node = np.abs(np.where(np.isfinite(node), node, 0.0)).max(axis=1)
    widest_edge = np.abs(edge).max(axis=(1, 2), initial=0.0)
    reach = float(widest_node.sum()) + n * math.log(most) + float((trees.held @ widest_edge).max(initial=0.0))
    of_sums = gamma(8 * n + 8) * reach + n * UNIT * (2 * most + 16 * math.log(most) + 40)
    of_tables = float(gamma(int(degree.max(initial=0)) + 4) * size.max(axis=1).sum())
    of_tables += 6 * UNIT * float(of_edges.max(axis=(1, 2), initial=0.0).sum())
    if not math.isfinite(value + reach):
        return Rounded(math.inf)
    return Rounded.of(value, of_sums, of_tables, 4 * UNIT * abs(value), (n + len(edge)) * TINY)


def _variables(graph: FactorGraph, places: Index) -> Index:
    """The variable of each of the messages at ``places`` (F, card); (F,)."""
    return np.searchsorted(graph.first, graph.to[places[:, 0]], side="right") - 1
