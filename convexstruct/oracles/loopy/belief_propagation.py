r"""Loopy belief propagation on factor graphs: damped messages in logarithms, and the Bethe approximation of ln Z.

    score(x) = sum_c table_c(x_c)
    m_cv(x_v) = ln sum over x_c with this x_v of exp(table_c(x_c) / rho_c + sum_{u in c, u != v} [b_u(x_u) - m_cu(x_u)])
    b_v = sum_c rho_c m_cv,      b_c = table_c / rho_c + sum_{u in c} [b_u - m_cu]      (logarithms, to be normalised)
    ln Z ~ sum_c <b_c, table_c> + sum_v H(b_v) - sum_c rho_c [sum_{v in c} H(b_v) - H(b_c)]

with messages m from each factor c to its variables v and beliefs b; rho = 1 in belief propagation, with which the last
line is the Bethe approximation. On a tree the beliefs are the marginals, and the last line is ln Z. Elsewhere a fixed
point is a stationary point of the last line over beliefs that agree; ln Z may lie above or below its value, there may
be several fixed points, and the iteration need not converge to one. With pairs of variables and rho_c the share of
spanning trees that hold pair c (Wainwright, Jaakkola, Willsky 2005) the last line is concave, and its maximum is at
least ln Z; `convexstruct.oracles.loopy.tree_reweighted` computes an upper bound that holds without convergence.

All factors of one shape, and all members of a batch, are updated at once (a "flooding" round). Source: Yedidia,
Freeman, Weiss (2005) for the Bethe approximation; paper 4, 20.5, for its use in learning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Matrix, Tensor, Vector
from convexstruct.graphs import starts
from convexstruct.oracles.log_sum_exp import log_sum_exp

#: Weight of the old message in the new one: 0.5 ends most oscillations, and about doubles the number of rounds where
#: there are none.
DAMPING = 0.5
#: The largest number of rounds, and the largest change of a message, in nats, at which they end: a change of 1e-9
#: changes beliefs by less.
ROUNDS, CHANGE = 1000, 1e-9


class Shape(NamedTuple):
    """All factors of one shape. factors (F,) : their numbers. entries (F, size) : their places in the stacked tables.
    messages : for each axis (F, card), the places of the messages to that variable."""

    shape: tuple[int, ...]
    factors: Index
    entries: Index
    messages: tuple[Index, ...]


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """Variables and factors as index arrays; made by `factor_graph`.

    cards : number of labels of each variable. shapes : the factors by shape. to (M,) : for each entry of the messages
    its label's place among all labels of all variables. owner (M,) : its factor. first (n + 1,) : the place of each
    variable's first label. n_entries : T, the size of the stacked tables. n_factors : their number.
    """

    cards: tuple[int, ...]
    shapes: tuple[Shape, ...]
    to: Index
    owner: Index
    first: Index
    n_entries: int
    n_factors: int


class Beliefs(NamedTuple):
    """The result of belief propagation, for each member of a batch.

    entries (B, T) : beliefs of all factors, stacked as their tables. labels (B, V) : beliefs of all variables, one
    after the other. log_partition (B,) : the approximation of ln Z at these beliefs, of no use where not converged.
    messages (B, M) : the last messages, to continue from. change (B,) : the largest change of a message in the last
    round, in nats. converged (B,) : whether that is within the tolerance. rounds : how many were made.
    """

    entries: Matrix
    labels: Matrix
    log_partition: Vector
    messages: Matrix
    change: Vector
    converged: Flags
    rounds: int


def factor_graph(cards: Sequence[int], scopes: Sequence[Sequence[int]]) -> FactorGraph:
    """The index arrays of a factor graph. scopes : the variables of each factor, in the order of its table's axes."""
    first = starts(cards)
    sizes = [math.prod(cards[v] for v in scope) for scope in scopes]
    start = starts(sizes)
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for c, scope in enumerate(scopes):
        by_shape.setdefault(tuple(cards[v] for v in scope), []).append(c)
    shapes, to, owner, used = [], [], [], 0
    for shape, listed in by_shape.items():
        which = np.array(listed, dtype=np.intp)
        places = []
        for axis, card in enumerate(shape):
            variables = np.array([scopes[c][axis] for c in listed])
            places.append((used + np.arange(len(listed) * card)).reshape(-1, card))
            to.append((first[variables][:, None] + np.arange(card)).ravel())
            owner.append(np.repeat(which, card))
            used += len(listed) * card
        shapes.append(Shape(shape, which, start[which][:, None] + np.arange(math.prod(shape)), tuple(places)))
    return FactorGraph(
        tuple(map(int, cards)), tuple(shapes), np.concatenate(to), np.concatenate(owner), first, int(start[-1]),
        len(sizes),
    )  # fmt: skip


def propagate(
    graph: FactorGraph,
    tables: Matrix,
    messages: Matrix | None = None,
    rho: Vector | None = None,
    *,
    damping: float = DAMPING,
    rounds: int = ROUNDS,
) -> Beliefs:
    """Update messages until none changes by more than `CHANGE` nats, or for ``rounds`` rounds.

    Parameters
    ----------
    tables : (B, T) the stacked tables of each member of the batch, or (T,) of one; finite.
    messages : (B, M) to start from; 0 by default, with which the beliefs of variables are uniform.
    rho : (factors,) positive; 1 by default. For factors of one variable it must be 1.
    """
    tables = np.atleast_2d(tables)
    weight = np.ones(graph.n_factors) if rho is None else rho
    of_message = weight[graph.owner]
    gather = sp.csr_array(
        (of_message, (np.arange(len(graph.to)), graph.to)), shape=(len(graph.to), int(graph.first[-1]))
    )
    divided = [tables[:, each.entries] / weight[each.factors][:, None] for each in graph.shapes]
    current = np.zeros((len(tables), len(graph.to))) if messages is None else messages
    moved = np.full(len(tables), np.inf)
    done = 0
    while done < rounds and not (moved <= CHANGE).all():
        deadline.check()
        into = _into(graph, gather, current)
        new = np.empty_like(current)
        for each, table in zip(graph.shapes, divided):
            joint = _joint(each, table, into)
            for axis, places in enumerate(each.messages):
                others = tuple(k + 2 for k in range(len(each.shape)) if k != axis)
                sent = log_sum_exp(joint, others) - into[:, places]
                new[:, places] = sent - sent.max(axis=2, keepdims=True)
        moved = np.abs(new - current).max(axis=1)
        current = new if done == 0 and messages is None else damping * current + (1.0 - damping) * new
        done += 1
    into = _into(graph, gather, current)
    entries = np.empty_like(tables)
    labels = _softmaxed(graph, current @ gather)
    entropy = _entropies(graph, labels)
    log_partition = entropy.sum(axis=1)
    for each, table in zip(graph.shapes, divided):
        joint = _joint(each, table, into).reshape(*table.shape)
        belief = np.exp(joint - log_sum_exp(joint, (2,))[:, :, None])
        belief /= belief.sum(axis=2, keepdims=True)
        entries[:, each.entries] = belief
        log_partition += np.einsum("bft,bft->b", belief, tables[:, each.entries])
        variables = [np.searchsorted(graph.first, graph.to[places[:, 0]], side="right") - 1 for places in each.messages]
        shared = sum(entropy[:, v] for v in variables) - _entropy(belief).sum(axis=2)
        log_partition -= shared @ weight[each.factors]
    return Beliefs(entries, labels, log_partition, current, moved, moved <= CHANGE, done)


def _into(graph: FactorGraph, gather: sp.csr_array, messages: Matrix) -> Matrix:
    """The messages from variables to factors: each variable's log belief less the factor's own message; (B, M)."""
    belief = np.asarray(messages @ gather)
    return np.asarray(belief[:, graph.to] - messages)


def _joint(each: Shape, table: Tensor, into: Matrix) -> Tensor:
    """table / rho + the messages of all variables of the factor; (B, F, *shape)."""
    joint = table.reshape(*table.shape[:2], *each.shape)
    for axis, places in enumerate(each.messages):
        said = into[:, places]
        joint = joint + said.reshape(*said.shape[:2], *(-1 if k == axis else 1 for k in range(len(each.shape))))
    return joint


def _softmaxed(graph: FactorGraph, logs: Matrix) -> Matrix:
    """Each variable's labels normalised."""
    lengths, first = np.diff(graph.first), graph.first[:-1]
    p = np.exp(logs - np.repeat(np.maximum.reduceat(logs, first, axis=1), lengths, axis=1))
    return np.asarray(p / np.repeat(np.add.reduceat(p, first, axis=1), lengths, axis=1))


def _entropy(p: Tensor) -> Tensor:
    """-p ln p, 0 where p = 0."""
    return np.asarray(-p * np.log(np.where(p > 0, p, 1.0)))


def _entropies(graph: FactorGraph, labels: Matrix) -> Matrix:
    """The entropy of each variable's belief; (B, n)."""
    return np.asarray(np.add.reduceat(_entropy(labels), graph.first[:-1], axis=1))
