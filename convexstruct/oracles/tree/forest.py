"""Forests: best labelling, log-domain sums with posteriors, sampling; all trees at once, level by level.

Score tables, for P nodes of S labels joined by Q edges without a cycle (`Forest`):

    node (P, S): score of each label of each node; -inf forbids a label
    edge: (Q, S, S), scores of (label of the first end, label of the second); or (S, S) where all edges share one table

Every tree is rooted at its last node. The nodes of all trees at one distance from their roots are a level, so that a
recursion takes as many steps as the deepest tree has levels, whatever the number and the shapes of the trees. Sums:
messages towards the root are logarithms, and posteriors are computed away from it as P(child | parent) P(parent): exact
at any scale of the scores.

Ties: node by node from the root down, the first of the best labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Labels, Matrix, Tensor, Vector
from convexstruct.oracles.log_sum_exp import forbidding, log_sum_exp, no_finite_score

#: The maximum or the log-sum-exp over one axis.
Reduce = Callable[..., Tensor]


class Level(NamedTuple):
    """Nodes at one distance from their roots, children of one parent side by side.

    child, parent, edge (n,): a node, its parent, the edge between them. forward (n,): whether the edge's first end is
    the parent. start (m,), to (m,): the first child's place, and the parent itself, for each of m parents.
    """

    child: Index
    parent: Index
    edge: Index
    forward: Flags
    start: Index
    to: Index


@dataclass(frozen=True, eq=False)
class Forest:
    """A forest laid out level by level; made by `forest`.

    n_nodes, n_edges. roots (n_trees,): the last node of each tree, in ascending order. tree (P,): the tree of each
    node, numbered as the roots are. levels : from the roots' children downwards.
    """

    n_nodes: int
    n_edges: int
    roots: Index
    tree: Index
    levels: tuple[Level, ...]

    @property
    def n_trees(self) -> int:
        return len(self.roots)


class Best(NamedTuple):
    """scores (n_trees,) and labels (P,)."""

    scores: Vector
    labels: Labels


class ForestSums(NamedTuple):
    """log_partition (n_trees,); posteriors node (P, S) and edge (Q, S, S)."""

    log_partition: Vector
    node: Matrix
    edge: Tensor


def forest(n_nodes: int, edges: ArrayLike) -> Forest:
    """Lay out the forest of ``edges`` (Q, 2) on the nodes 0 .. n_nodes - 1. ValueError if the edges close a cycle."""
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    neighbours: list[list[tuple[int, int, bool]]] = [[] for _ in range(n_nodes)]
    for e, (u, v) in enumerate(pairs.tolist()):
        neighbours[u].append((v, e, True))
        neighbours[v].append((u, e, False))
    tree = np.full(n_nodes, -1, dtype=np.intp)
    above = np.full(n_nodes, -1, dtype=np.intp)
    depth = np.zeros(n_nodes, dtype=np.intp)
    found: list[list[tuple[int, int, int, bool]]] = []
    roots: list[int] = []
    for root in range(n_nodes - 1, -1, -1):
        if tree[root] >= 0:
            continue
        tree[root] = len(roots)
        roots.append(root)
        queue = [root]
        for u in queue:
            deadline.check()
            for v, e, forward in neighbours[u]:
                if v == above[u]:
                    continue
                if tree[v] >= 0:
                    raise ValueError(f"edges close a cycle through the nodes {u} and {v}, wanted a forest")
                tree[v], above[v], depth[v] = tree[root], u, depth[u] + 1
                if len(found) < depth[v]:
                    found.append([])
                found[depth[v] - 1].append((u, v, e, forward))
                queue.append(v)
    levels = []
    for entries in found:
        deadline.check()
        parent, child, edge, along = (np.array(column, dtype=np.intp) for column in zip(*sorted(entries)))
        to, start = np.unique(parent, return_index=True)
        levels.append(Level(child, parent, edge, along.astype(bool), start, to))
    last = len(roots) - 1
    order = np.array(roots, dtype=np.intp)[::-1]
    return Forest(n_nodes, len(pairs), order, last - tree, tuple(levels))


def best(layout: Forest, node: Matrix, edge: Tensor) -> Best:
    """The greatest score of each tree and a labelling that attains it."""
    belief, tables = _upward(layout, node, edge, np.max)
    labels = np.empty(layout.n_nodes, dtype=np.int64)
    tops = belief[layout.roots]
    labels[layout.roots] = tops.argmax(axis=1)
    for level, table in zip(layout.levels, tables):
        deadline.check()
        here = table[np.arange(len(level.child)), labels[level.parent]]
        labels[level.child] = here.argmax(axis=1)
    return Best(tops.max(axis=1), labels)


def sum_product(layout: Forest, node: Matrix, edge: Tensor) -> ForestSums:
    """Log partition functions and posteriors. ValueError if every labelling of some tree is forbidden, or its scores
    overflow.

    Roots and conditionals are scaled to sum to one, so that the posteriors are those of some distribution up to a
    relative error that depends on the number of operations alone, and not on the errors of the messages.
    """
    belief, tables = _upward(layout, node, edge, log_sum_exp)
    tops = belief[layout.roots]
    log_partition = log_sum_exp(tops, axis=1)
    if not np.isfinite(log_partition).all():
        k = int(np.flatnonzero(~np.isfinite(log_partition))[0])
        raise no_finite_score(f"tree {k}", best(layout, forbidding(node), forbidding(edge)).scores[k])
    posterior = np.empty_like(node)
    pairs = np.zeros((layout.n_edges, node.shape[1], node.shape[1]))
    posterior[layout.roots] = _conditional(tops[:, None, :])[:, 0]
    for level, table in zip(layout.levels, tables):
        deadline.check()
        joint = _conditional(table)
        joint *= posterior[level.parent][:, :, None]
        posterior[level.child] = joint.sum(axis=1)
        pairs[level.edge[level.forward]] = joint[level.forward]
        pairs[level.edge[~level.forward]] = joint[~level.forward].transpose(0, 2, 1)
    return ForestSums(log_partition, posterior, pairs)


def sample(layout: Forest, node: Matrix, edge: Tensor, rng: np.random.Generator) -> Labels:
    """A labelling (P,), that of each tree drawn with probability proportional to e^score: sums upwards, then each
    child's label drawn given its parent's, by the Gumbel trick."""
    belief, tables = _upward(layout, node, edge, log_sum_exp)
    labels = np.empty(layout.n_nodes, dtype=np.int64)
    tops = belief[layout.roots]
    labels[layout.roots] = (tops + rng.gumbel(size=tops.shape)).argmax(axis=1)
    for level, table in zip(layout.levels, tables):
        deadline.check()
        here = table[np.arange(len(level.child)), labels[level.parent]]
        labels[level.child] = (here + rng.gumbel(size=here.shape)).argmax(axis=1)
    return labels


def _upward(layout: Forest, node: Matrix, edge: Tensor, reduce: Reduce) -> tuple[Matrix, list[Tensor]]:
    """(P, S) each node's scores with its subtree maximised or summed out; for each level the tables (n, label of
    parent, label of child), which include the subtree of the child."""
    belief = node.astype(np.float64, copy=True)
    tables: list[Tensor] = []
    for level in reversed(layout.levels):
        deadline.check()
        table = _oriented(edge, level) + belief[level.child][:, None, :]
        message = reduce(table, axis=2)
        belief[level.to] += np.add.reduceat(message, level.start, axis=0)
        tables.append(table)
    return belief, tables[::-1]


def _oriented(edge: Tensor, level: Level) -> Tensor:
    """The level's edge tables with the parent's label first: (n, S, S)."""
    if edge.ndim == 2:
        return np.where(level.forward[:, None, None], edge, edge.T)
    table = edge[level.edge]
    table[~level.forward] = table[~level.forward].transpose(0, 2, 1)
    return table


def _conditional(table: Tensor) -> Tensor:
    """e^table, each row of the last axis scaled to sum to one (to zero where it is forbidden)."""
    top = table.max(axis=2, keepdims=True)
    with np.errstate(under="ignore"):
        weights = np.exp(table - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=2, keepdims=True)
    weights /= np.where(total > 0, total, 1.0)
    return np.asarray(weights)
