"""Chains: Viterbi, second best, forward-backward, sampling; batched over sequences of unequal lengths.

Score tables, for a batch laid out by `convexstruct.graphs.Chains` (P packed positions, S labels):

    node (P, S): score of each label at each packed position; -inf forbids a label
    edge (S, S): score of (previous label, label), the same at every step; -inf forbids a pair

The score of a labelling is the sum of its node and edge scores. All labellings and tables are in packed order.

Ties: among the best labellings the one that is smallest when read from its last position to its first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import BLOCK, row_max
from convexstruct.oracles.chain.log_sums import log_messages, messages
from convexstruct.oracles.chain.regrets import regret_messages
from convexstruct.oracles.chain.sums import ChainSums, pairs_of
from convexstruct.tolerances import POSTERIOR

#: Rescaled messages drop a label whose entry is below e^-708. The result counts as exact if a dropped label can gain at
#: most so many nats later (see `rescaled`).
DROPPED_GAIN = 660.0
#: Sweeps of `_evened`, which narrows the range of the edge scores: after one alone, sums may still need the slower
#: recursions.
EVENING_SWEEPS = 8


def viterbi(
    chains: Chains, node: Matrix, edge: Matrix, into: Callable[[Tensor, slice], Tensor] | None = None
) -> tuple[Vector, Labels]:
    """The best labelling of each chain: max over labellings of the sum of node and edge scores.

    Forward max-messages, then the labels are read backwards; for each position only the scores that lead to the next
    label are computed again. Returns the best scores (N,), in the caller's order of chains, and the labels (P,),
    packed.

    into : the scores of pairs that lead to some packed rows (a slice, n of them), from those of ``edge``, (..., 1) or
        (..., n), where they depend on the position.
    """
    if into is None:
        into = _unchanged
    message = node.T.copy()  # chains along the last axis: operations run over long rows
    block = max(1, BLOCK // edge.size)
    for t in range(1, chains.n_steps):
        deadline.check()
        before, begin, n = int(chains.start[t - 1]), int(chains.start[t]), int(chains.active[t])
        for low in range(0, n, block):
            some = slice(low, min(n, low + block))
            here = slice(begin + some.start, begin + some.stop)
            arriving = message[:, None, before + some.start : before + some.stop] + into(edge[:, :, None], here)
            message[:, here] += arriving.max(axis=0)
    labels = np.empty(chains.n_positions, dtype=np.int64)
    scores = message[:, chains.last].max(axis=0)
    current = np.zeros(0, dtype=np.int64)
    for t in range(chains.n_steps - 1, -1, -1):
        arriving = message[:, chains.rows(t)].copy()
        after = int(chains.start[min(t + 1, chains.n_steps)])
        arriving[:, : len(current)] += into(edge[:, current], slice(after, after + len(current)))
        current = arriving.argmax(axis=0)
        labels[chains.rows(t)] = current
    return scores, labels


def _unchanged(edge: Tensor, _: slice) -> Tensor:
    return edge


def sum_product(
    chains: Chains, node: Matrix, edge: Matrix, weights: Vector | None = None, squares: bool = False
) -> ChainSums:
    """Forward-backward: log partition functions, posteriors and expected pairs; with ``squares`` the sums of the
    squared pair posteriors too.

    Uses `rescaled` where that is exact, else `log_messages`, and `regret_messages` where that cannot be used: pairs are
    forbidden, the edge scores range too far, or ``squares`` are wanted. Edge scores that range over at most half of
    `DROPPED_GAIN` are left as they are: no z is below e^-range, so `rescaled` is exact.

    ``weights`` (N,), in the caller's order, multiplies each chain's part of the sums over pairs; the other results are
    unweighted. ValueError if every labelling of some chain is forbidden.
    """
    allowed = bool(np.isfinite(edge).all())
    even = _evened(chains, node, edge) if allowed and np.ptp(edge) > DROPPED_GAIN / 2 else (node, edge)
    sums = rescaled(chains, *even, weights, squares)
    if sums is None and allowed and not squares:
        sums = log_messages(chains, *even, weights)
    if sums is None:
        with np.errstate(invalid="ignore", divide="ignore"):  # what is not a number is named below, or seen in the sums
            sums = regret_messages(chains, node, edge, weights, squares)
    if not np.isfinite(sums.log_partition).all():  # or scores overflow, which the caller sees in the sums
        forbidden = np.flatnonzero(np.isneginf(viterbi(chains, node, edge)[0]))
        if len(forbidden):
            k = forbidden[0]
            raise ValueError(f"scores forbid every labelling of chain {k}, wanted at least one of finite score")
    return sums


def _evened(chains: Chains, node: Matrix, edge: Matrix) -> tuple[Matrix, Matrix]:
    """Tables that give every labelling the same score, with edge scores of a smaller range: edge - r - c', where r and
    c are added to node scores.

    A constant in a row of ``edge`` is moved to the node score of the label before, a constant in a column to that of
    the label after. Each sweep centres all rows, then all columns.
    """
    even = edge
    for _ in range(EVENING_SWEEPS):
        even = even - 0.5 * (even.max(axis=1) + even.min(axis=1))[:, None]
        even = even - 0.5 * (even.max(axis=0) + even.min(axis=0))
    row = (edge - even)[:, 0]
    column = (edge - even)[0] - row[0]
    moved = node + row
    moved[chains.last] = node[chains.last]
    moved[chains.n_chains :] += column
    return moved, even


def rescaled(
    chains: Chains, node: Matrix, edge: Matrix, weights: Vector | None = None, squares: bool = False
) -> ChainSums | None:
    """Forward-backward with one matrix product a step and messages rescaled to sum to one.

    With W = e^edge and e_t = e^node: alpha_t = (alpha_{t-1} W) e_t / z_t, u_t = e_t beta_t / z_t, beta_{t-1} = u_t W';
    posteriors alpha_t beta_t, expected pairs W * sum_t alpha_{t-1} u_t'.

    Returns None where it might not be exact. A label is lost where e_t or alpha_t is below e^-708: its alpha is then at
    most e^-708 / min(1, z). Any two labels can be followed by the same labels, so the best completions of two labels
    differ by at most the range of the edge scores. So the lost labels do not count if range(edge) - ln min(1, z) stays
    below `DROPPED_GAIN`.

    Where pairs are forbidden, two labels can have different successors, and no label may be lost. None is if the
    smallest positive entries of alpha, W and e_t, multiplied, are at least e^-`DROPPED_GAIN`: then no term of alpha W
    e_t underflows, and alpha is 0 only at labels that no allowed labelling has. Where alpha is not, no pair's posterior
    alpha W u exceeds 1, so that u does not overflow.
    """
    allowed = edge > -np.inf
    shift = float(edge.max()) if allowed.any() else 0.0  # chains of one position need no pair
    least = float(edge.min(where=allowed, initial=np.inf))
    spread = shift - least
    if not spread <= DROPPED_GAIN:
        return None
    least_total = np.exp(spread - DROPPED_GAIN)
    top = row_max(node)
    ones = np.ones(len(edge))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
        transition = np.exp(edge - shift)
        potential = np.subtract(node, top[:, None])
        np.exp(potential, out=potential)
        alpha = np.empty_like(potential)
        scale = np.empty(chains.n_positions)
        for t in range(chains.n_steps):
            deadline.check()
            rows = chains.rows(t)
            here, total = alpha[rows], scale[rows]
            if t:
                before = int(chains.start[t - 1])
                np.matmul(alpha[before : before + int(chains.active[t])], transition, out=here)
                here *= potential[rows]
            else:
                here[:] = potential[rows]
            np.matmul(here, ones, out=total)  # a product sums short rows faster than sum() does
            if not total.min() >= least_total:
                return None
            here *= (1.0 / total)[:, None]
        if not allowed.all():
            lost = potential.min() == 0.0 and ((potential == 0.0) & (node > -np.inf)).any()
            if lost or not spread - np.log(_smallest(alpha) * _smallest(potential)) <= DROPPED_GAIN:
                return None
        backward = transition.T.copy()
        beta = np.empty_like(alpha)
        beta[chains.last] = 1.0
        potential *= (1.0 / scale)[:, None]
        for t in range(chains.n_steps - 1, 0, -1):
            deadline.check()
            rows = chains.rows(t)
            before = int(chains.start[t - 1])
            message = potential[rows]
            message *= beta[rows]  # from here on `potential` holds u_t
            np.matmul(message, backward, out=beta[before : before + int(chains.active[t])])
        posterior = np.multiply(alpha, beta, out=beta)
        total = posterior @ ones
    if not np.all(np.abs(total - 1.0) <= POSTERIOR):
        return None
    pairs = pairs_of(chains, alpha, potential, weights) * transition
    squared = None
    if squares:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            squared = pairs_of(chains, alpha**2, potential**2, weights) * transition**2
        if not np.isfinite(squared).all():  # where alpha is very small, u is very large, and its square overflows
            return None
    steps = np.log(scale) + top
    steps[chains.n_chains :] += shift
    log_partition = np.bincount(chains.chain, weights=steps, minlength=chains.n_chains).astype(np.float64)
    return ChainSums(log_partition, posterior, pairs, squared)


def _smallest(values: Matrix) -> float:
    """The smallest positive entry of numbers from 0 to 1."""
    least = float(values.min())
    return least if least > 0.0 else float(values.min(where=values > 0.0, initial=1.0))


def sample(chains: Chains, node: Matrix, edge: Matrix, rng: np.random.Generator) -> Labels:
    """One labelling of each chain, drawn with probability proportional to e^score; labels (P,), packed.

    Forward filtering in the log domain, then backward sampling by the Gumbel trick (exact at any scale of the scores).
    """
    found = messages(chains, node, edge)
    forward = _messages_by_terms(chains, node, edge) if found is None else found.message
    forward += rng.gumbel(size=forward.shape)
    labels = np.empty(chains.n_positions, dtype=np.int64)
    into = np.ascontiguousarray(edge.T)
    current = np.zeros(0, dtype=np.int64)
    for t in range(chains.n_steps - 1, -1, -1):
        scores = forward[chains.rows(t)]
        scores[: len(current)] += into[current]
        current = scores.argmax(axis=1)
        labels[chains.rows(t)] = current
    return labels


def _messages_by_terms(chains: Chains, node: Matrix, edge: Matrix) -> Matrix:
    """Log forward messages (P, S), each sum over its terms, whatever the range of the edge scores."""
    forward = node.copy()
    size = max(1, BLOCK // edge.size)
    for t in range(1, chains.n_steps):
        before, begin, n = int(chains.start[t - 1]), int(chains.start[t]), int(chains.active[t])
        for low in range(0, n, size):
            high = min(n, low + size)
            terms = forward[before + low : before + high, :, None] + edge
            forward[begin + low : begin + high] += np.logaddexp.reduce(terms, axis=1)
    return forward
