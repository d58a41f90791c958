"""Good labellings for many labels with metric pairwise terms, by alpha-expansion: approximate.

A move for a label alpha finds the best labelling in which each node keeps its label or takes alpha, by one minimum cut
(Boykov, Veksler, Zabih 2001). Sweeps over the labels end when no move improves the score. The moves are minimum cuts
if, for all labels s, t and alpha,

    edge(alpha, alpha) + edge(s, t) >= edge(s, alpha) + edge(alpha, t),

which holds for Potts weights >= 0 and wherever minus the score is a metric. The labelling found cannot be improved by
any such move; it need not be the best. With energies -node + const >= 0 and Potts weights its energy is at most twice
the least. Every result is marked as approximate (``exact`` is False) and holds an upper bound on the greatest score:

    "tables"        sum of the greatest entries of all tables; one pass over the tables, seldom close
    "relaxation"    the optimum over the local polytope (`convexstruct.oracles.loopy.linear_relaxation`)

Parts are independent: a move is made in each part whose own score it raises.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Labels, Tensor, Vector
from convexstruct.oracles.loopy.linear_relaxation import linear_relaxation
from convexstruct.oracles.loopy.minimum_cut import minimum_cut
from convexstruct.oracles.loopy.pairwise import Pairwise
from convexstruct.tolerances import ROUNDING


class Expansion(NamedTuple):
    """A labelling that no expansion improves.

    scores (N,): its score in each part. labels (P,). upper (N,): an upper bound on the greatest score. sweeps: how many
    were made. messages (Q, 2, S): the messages that give the bound (`Pairwise.upper`), where it is that of the
    relaxation. exact: always False; the labelling may be the best, but is not claimed to be.
    """

    scores: Vector
    labels: Labels
    upper: Vector
    sweeps: int
    messages: Tensor | None = None
    exact: bool = False


def alpha_expansion(
    scores: Pairwise, start: ArrayLike | None = None, bound: Literal["tables", "relaxation"] = "tables"
) -> Expansion:
    """Improve ``start`` (P,), by default the label of greatest node score at each node, by expansions until none raises
    the score.

    Raises
    ------
    ValueError
        If a table is not metric (the first such edge is named, with the labels), or start or bound is invalid.
    """
    if bound not in ("tables", "relaxation"):
        raise ValueError(f"bound is {bound!r}, wanted 'tables' or 'relaxation'")
    check_metric(scores)
    labels = _start(scores, start)
    value = scores.score(labels)
    sweeps, since = 0, 0
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
        sweeps += 1
    upper, messages = scores.upper(), None
    if bound == "relaxation":
        relaxed = linear_relaxation(scores)
        upper, messages = relaxed.upper, relaxed.messages
    value = scores.score(labels)
    return Expansion(value, labels, np.maximum(upper, value), sweeps, messages)


def _expanded(scores: Pairwise, labels: Labels, alpha: int) -> Labels:
    """The best labelling in which each node keeps its label or takes ``alpha``."""
    u, v = labels[scores.edges[:, 0]], labels[scores.edges[:, 1]]
    node = np.column_stack((scores.node[np.arange(len(labels)), labels], scores.node[:, alpha]))
    kept, taken = (scores.at(u, v), scores.at(u, alpha)), (scores.at(alpha, v), scores.at(alpha, alpha))
    edge = np.stack((*kept, *taken), axis=1).reshape(-1, 2, 2)
    cut = minimum_cut(Pairwise(node, scores.edges, edge, scores.part, scores.n_parts))
    return np.where(cut.labels == 1, alpha, labels)


def check_metric(scores: Pairwise) -> None:
    """Refuse tables whose expansions are not minimum cuts.

    Raises
    ------
    ValueError
        If a table violates the inequality above; the first such edge and the labels are named.
    """
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


def _start(scores: Pairwise, start: ArrayLike | None) -> Labels:
    if start is None:
        return np.asarray(scores.node.argmax(axis=1), dtype=np.int64)
    labels = np.asarray(start)
    if labels.shape != (scores.n_nodes,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"start has shape {labels.shape} and type {labels.dtype}, wanted {scores.n_nodes} whole numbers"
        )
    if labels.min() < 0 or labels.max() >= scores.n_labels:
        raise ValueError(f"start holds {labels.min()} to {labels.max()}, wanted labels 0 to {scores.n_labels - 1}")
    return labels.astype(np.int64)
