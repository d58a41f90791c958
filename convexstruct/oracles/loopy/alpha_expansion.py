"""Good labellings for many labels with metric pairwise terms, by alpha-expansion: approximate.

A move for a label alpha finds the best labelling in which each node keeps its label or takes alpha, by one minimum cut
(Boykov, Veksler, Zabih 2001). Sweeps over the labels end when no move improves the score. The moves are minimum cuts
if, for all labels s, t and alpha,

    edge(alpha, alpha) + edge(s, t) >= edge(s, alpha) + edge(alpha, t),

which holds for Potts weights >= 0 and wherever minus the score is a metric. The labelling found cannot be improved by
any such move; it need not be the best. With energies -node + const >= 0 and Potts weights its energy is at most twice
the least. The upper bound on the greatest score is the optimum over the local polytope
(`convexstruct.oracles.loopy.linear_relaxation`).

Parts are independent: a move is made in each part whose own score it raises.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Labels, Tensor, Vector
from convexstruct.oracles.loopy.linear_relaxation import linear_relaxation
from convexstruct.oracles.loopy.minimum_cut import minimum_cut
from convexstruct.oracles.loopy.pairwise import Pairwise
from convexstruct.tolerances import ROUNDING


class Expansion(NamedTuple):
    """A labelling that no expansion improves.

    scores (N,): its score in each part. labels (P,). upper (N,): an upper bound on the greatest score. messages
    (Q, 2, S): the messages that give the bound (`Pairwise.upper`).
    """

    scores: Vector
    labels: Labels
    upper: Vector
    messages: Tensor


def alpha_expansion(scores: Pairwise) -> Expansion:
    """Start with the label of greatest node score at each node, and make expansions until none raises the score.
    ValueError if a table is not metric (the first such edge is named, with the labels)."""
    check_metric(scores)
    labels = np.asarray(scores.node.argmax(axis=1), dtype=np.int64)
    value = scores.score(labels)
    since = 0
    while since < scores.n_labels:  # it ends, since each move made raises a score and labellings are finitely many
        for alpha in range(scores.n_labels):
            moved = _expanded(scores, labels, alpha)
            found = scores.score(moved)
            better = found > value + ROUNDING * np.abs(value)
            since = 0 if better.any() else since + 1
            labels = np.where(better[scores.part], moved, labels)
            value = np.where(better, found, value)
            if since >= scores.n_labels:
                break
    relaxed, value = linear_relaxation(scores), scores.score(labels)
    return Expansion(value, labels, np.maximum(relaxed.upper, value), relaxed.messages)


def _expanded(scores: Pairwise, labels: Labels, alpha: int) -> Labels:
    """The best labelling in which each node keeps its label or takes ``alpha``."""
    u, v = labels[scores.edges[:, 0]], labels[scores.edges[:, 1]]
    node = np.column_stack((scores.node[np.arange(len(labels)), labels], scores.node[:, alpha]))
    kept, taken = (scores.at(u, v), scores.at(u, alpha)), (scores.at(alpha, v), scores.at(alpha, alpha))
    edge = np.stack((*kept, *taken), axis=1).reshape(-1, 2, 2)
    cut = minimum_cut(Pairwise(node, scores.edges, edge, scores.part, scores.n_parts))
    return np.where(cut.labels == 1, alpha, labels)


def check_metric(scores: Pairwise) -> None:
    """Refuse tables whose expansions are not minimum cuts. ValueError if a table violates the inequality above; the
    first such edge and the labels are named."""
    if scores.n_edges == 0:
        return
    if scores.potts:
        if (scores.edge < 0).any():
            e = int(np.argmax(scores.edge < 0))
            raise ValueError(
                f"edges[{e}] = {tuple(scores.edges[e].tolist())} has the weight {scores.edge[e]:g}, wanted Potts "
                "weights >= 0 for alpha-expansion"
            )
        return
    tables = scores.edge if scores.edge.ndim == 3 else scores.edge[None]
    lowest = -ROUNDING * max(1.0, float(np.abs(tables).max()))
    for alpha in range(scores.n_labels):
        slack = tables + tables[:, alpha, alpha, None, None] - tables[:, :, alpha, None] - tables[:, alpha, None, :]
        if slack.min() < lowest:
            e, s, t = (int(i) for i in np.argwhere(slack < lowest)[0])
            raise ValueError(
                f"edges[{e}] = {tuple(scores.edges[e].tolist())} is not metric: with labels {s}, {t} and {alpha} "
                f"edge({alpha}, {alpha}) + edge({s}, {t}) is less than edge({s}, {alpha}) + edge({alpha}, {t}) by "
                f"{-slack[e, s, t]:g}, wanted at least as much for alpha-expansion"
            )
