r"""Labels drawn from planted scores on a graph: p(y) ~ exp((sum_v scores_v[y_v] + sum_(u,v) table[y_u, y_v]) / noise).

On forests the draw is exact, and with noise 0 it is a labelling of the highest score. On graphs with cycles a Gibbs
sampler draws one node after the other, and its distribution comes near to p; with noise 0 it ends where no change of
one label raises the score. All examples are drawn at once, level by level or node by node.
"""

from __future__ import annotations

import numpy as np
import scipy

from convexstruct.arrays import Index, Labels, Matrix


def draw_forest(parent: Index, scores: Matrix, table: Matrix, noise: float, rng: np.random.Generator) -> Labels:
    """A labelling (P,) of a forest whose edges are (parent[v], v).

    parent (P,): a flat node before v, or -1 at a root. scores (P, S). table (S, S) [parent's label, label].
    """
    scale = 1.0 / noise if noise else 1.0
    belief, table = scores * scale, table * scale
    shake = rng.gumbel(size=scores.shape) if noise else np.zeros(scores.shape)
    levels = _levels(parent)
    for nodes in reversed(levels[1:]):
        pairs = belief[nodes][:, None, :] + table  # (n, parent's label, label)
        np.add.at(belief, parent[nodes], scipy.special.logsumexp(pairs, axis=2) if noise else pairs.max(axis=2))
    belief += shake
    labels = np.zeros(len(parent), dtype=np.int64)
    labels[levels[0]] = belief[levels[0]].argmax(axis=1)
    for nodes in levels[1:]:
        labels[nodes] = (belief[nodes] + table[labels[parent[nodes]]]).argmax(axis=1)
    return labels


def _levels(parent: Index) -> list[Index]:
    """The nodes of each depth, roots first."""
    depth = [0] * len(parent)
    for v, u in enumerate(parent.tolist()):
        if u >= 0:
            depth[v] = depth[u] + 1
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def draw_graphs(
    edges: Index,
    node_start: Index,
    scores: Matrix,
    table: Matrix,
    noise: float,
    rng: np.random.Generator,
    labels: Labels,
    sweeps: int,
) -> Labels:
    """A labelling (P,) of graphs with cycles, by ``sweeps`` rounds over the nodes from ``labels`` on.

    edges (Q, 2) flat nodes (u, v). scores (P, S). table (S, S) [label of u, label of v]. With noise 0 the rounds go on
    until nothing changes, however many they are.
    """
    scale = 1.0 / noise if noise else 1.0
    scores, table = scores * scale, table * scale
    both = np.stack((table.T, table))  # [side of the node asked, label of the other end] -> scores of its labels
    rank = np.arange(len(scores)) - np.repeat(node_start[:-1], np.diff(node_start))
    asked, other = np.concatenate((edges[:, 0], edges[:, 1])), np.concatenate((edges[:, 1], edges[:, 0]))
    side = np.repeat([0, 1], len(edges))
    rounds = []
    for k in range(int(rank.max()) + 1):  # the k-th nodes of all examples at once: no edge joins two of them
        nodes = np.flatnonzero(rank == k)
        ends = np.flatnonzero(rank[asked] == k)
        rounds.append((nodes, np.searchsorted(nodes, asked[ends]), side[ends], other[ends]))
    labels = labels.copy()
    done = 0
    while noise == 0 or done < sweeps:
        before = labels.copy()
        for nodes, at, sides, others in rounds:
            belief = scores[nodes]
            np.add.at(belief, at, both[sides, labels[others]])
            if noise:
                belief += rng.gumbel(size=belief.shape)
            labels[nodes] = belief.argmax(axis=1)
        done += 1
        if noise == 0 and np.array_equal(before, labels):
            break
    return labels
