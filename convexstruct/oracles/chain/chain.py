"""Chains: Viterbi, max-marginals, forward-backward, sampling; batched over sequences of unequal lengths.

Score tables, for a batch laid out by `convexstruct.graphs.Chains` (P packed positions, S labels):

    node (P, S): score of each label at each packed position; -inf forbids a label
    edge (S, S): score of (previous label, label), the same at every step; -inf forbids a pair. `viterbi` and
        `sum_product` also take (T - 1, S, S), a table a step, for chains of at most T positions.

The score of a labelling is the sum of its node and edge scores. All labellings and tables are in packed order.

Ties: among the best labellings the one that is smallest when read from its last position to its first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import BLOCK, column_argmax, row_max
from convexstruct.oracles.chain.log_sums import log_messages, messages
from convexstruct.oracles.chain.sums import DROPPED_GAIN, ChainSums, chain_sums, pairs_of, weights_of_pairs
from convexstruct.oracles.chain.terms import sums_by_terms
from convexstruct.oracles.log_sum_exp import forbidding, no_finite_score
from convexstruct.tolerances import POSTERIOR

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
    message = max_messages(chains, node.T.copy(), edge, into)  # chains along the last axis: long rows
    labels = np.empty(chains.n_positions, dtype=np.int64)
    scores = message[:, chains.last].max(axis=0)
    current = np.zeros(0, dtype=np.int64)
    for t in range(chains.n_steps - 1, -1, -1):
        arriving = message[:, chains.rows(t)].copy()
        after = int(chains.start[min(t + 1, chains.n_steps)])
        table = edge if edge.ndim == 2 else edge[min(t, len(edge) - 1)]  # at the last step nothing is added
        following = table.take(current, axis=1)
        arriving[:, : len(current)] += into(following, slice(after, after + len(current))) if into else following
        current = column_argmax(arriving)
        labels[chains.rows(t)] = current
    return scores, labels


def max_messages(
    chains: Chains, message: Matrix, edge: Matrix, into: Callable[[Tensor, slice], Tensor] | None = None
) -> Matrix:
    """The best score (S, P) of a beginning of the chain that ends with each label, in place of node scores (S, P).

    A sum of a message and an edge score is the product of the row (1, edge) and the column (message, 1), rounded once
    as the sum is. BLAS makes a table of them in less than half the time that NumPy adds a row to a column in.
    """
    s = len(message)
    block = -(-chains.n_chains // -(-chains.n_chains * s**2 // BLOCK))  # about equal blocks: a short one takes longer
    room, past, steps = np.empty((s, s, block)), np.ones((s, 2, block)), np.ones((s, s, 2))
    for t in range(1, chains.n_steps):
        deadline.check()
        table = steps[:, :, 1] = edge if edge.ndim == 2 else edge[t - 1]
        before, begin, n = int(chains.start[t - 1]), int(chains.start[t]), int(chains.active[t])
        for low in range(0, n, block):
            k = min(block, n - low)
            here = slice(begin + low, begin + low + k)
            past[:, 0, :k] = message[:, before + low : before + low + k]
            if into is None:
                with np.errstate(invalid="ignore"):  # where BLAS fills its blocks up with zeros
                    arriving = np.matmul(steps, past[:, :, :k], out=room[:, :, :k])
            else:
                arriving = past[:, :1, :k] + into(table[:, :, None], here)
            message[:, here] += arriving.max(axis=0)
    return message


def max_marginals(chains: Chains, node: Matrix, edge: Matrix) -> Matrix:
    """The greatest score of a labelling of the chain that has this label at this position; (P, S)."""
    rank = np.arange(chains.n_positions) - chains.start[chains.step]
    turned = chains.start[chains.lengths[chains.chain] - 1 - chains.step] + rank  # rows of the chains read backwards
    before = max_messages(chains, node.T.copy(), edge)
    after = max_messages(chains, node[turned].T.copy(), edge.T)[:, turned]
    with np.errstate(invalid="ignore"):  # where a label is forbidden
        return np.where(np.isneginf(node), -np.inf, (before + after).T - node)


def sum_product(
    chains: Chains,
    node: Matrix,
    edge: Matrix,
    weights: Vector | None = None,
    squares: bool = False,
    certain: bool = False,
) -> ChainSums:
    """Forward-backward: log partition functions, posteriors and expected pairs; with ``squares`` the sums of the
    squared pair posteriors too.

    Uses `rescaled` where that is exact, else `log_messages`, and `sums_by_terms` where that cannot be used: pairs are
    forbidden, the edge scores range too far, or ``squares`` are wanted; and for tables a step. Edge scores that range
    over at most half of `DROPPED_GAIN` are left as they are: no sum is below e^-range, so `rescaled` is exact.

    ``weights`` (N,), in the caller's order, multiplies each chain's part of the sums over pairs; the other results are
    unweighted. ``certain`` leaves out of these sums the pairs of positions at both of which one label alone is
    possible. ValueError if every labelling of some chain is forbidden, or scores -inf as sums overflow.
    """
    alike, allowed = edge.ndim == 2, bool(np.isfinite(edge).all())
    even = _evened(chains, node, edge) if alike and allowed and np.ptp(edge) > DROPPED_GAIN / 2 else (node, edge)
    sums = rescaled(chains, *even, weights, squares, certain) if alike else None
    if sums is None and alike and allowed and not squares:
        sums = log_messages(chains, *even, weights, certain)
    if sums is None:
        with np.errstate(invalid="ignore", divide="ignore"):  # what is not a number is named below, or seen in the sums
            sums = sums_by_terms(chains, node, edge, weights, squares, certain)
    if not np.isfinite(sums.log_partition).all():  # or scores overflow, which the caller sees in the sums
        lowest = np.flatnonzero(np.isneginf(viterbi(chains, node, edge)[0]))
        if len(lowest):
            k = lowest[0]
            raise no_finite_score(f"chain {k}", viterbi(chains, forbidding(node), forbidding(edge))[0][k])
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
    chains: Chains,
    node: Matrix,
    edge: Matrix,
    weights: Vector | None = None,
    squares: bool = False,
    certain: bool = False,
) -> ChainSums | None:
    """Backward-forward with one matrix product a step and messages rescaled to sum to one.

    With W = e^edge and e_t = e^node: v_t = e_t z_{t+1} / sum, z_t = W v_t, so that W v_t / z_t are the probabilities of
    label t given the one before; posteriors mu_t = (mu_{t-1} / z_t) W v_t, expected pairs W * sum_t (mu_{t-1} / z_t)
    v_t'.

    Returns None where it might not be exact. A label is lost where e_t or v_t is below e^-708: its v is then at most
    e^-708 / min(1, sum). Any two labels can come after the same labels, so the best beginnings of two labels differ by
    at most the range of the edge scores. So the lost labels do not count if range(edge) - ln min(1, sum) stays below
    `DROPPED_GAIN`: together they have at most S^2 e^(`DROPPED_GAIN` - 708) of the probability of a position. Where the
    sum is too small for that, the exponents node + ln z_{t+1} are formed, and their largest is subtracted from them:
    the sum of these exponentials is at least 1.

    Where pairs are forbidden, two labels can have different predecessors, and no label may be lost. None is if the
    smallest positive entries of v, W and e_t, multiplied, are at least e^-`DROPPED_GAIN`: then no term of W v e_t
    underflows, and v is 0 only at labels that no allowed labelling has.
    """
    allowed = edge > -np.inf
    shift = float(edge.max()) if allowed.any() else 0.0  # chains of one position need no pair
    least = float(edge.min(where=allowed, initial=np.inf))
    spread = shift - least
    if not spread <= DROPPED_GAIN:
        return None
    least_total = np.exp(spread - DROPPED_GAIN)
    top = row_max(node)
    later, some = slice(chains.n_chains, chains.n_positions), not allowed.all()
    with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
        transition = np.exp(edge - shift)
        v = np.subtract(node, top[:, None])
        np.exp(v, out=v)
        if some and v.min() == 0.0 and ((v == 0.0) & (node > -np.inf)).any():
            return None
        smallest = _smallest(v) if some else 1.0
        z, scale = np.empty_like(v), np.empty(chains.n_positions)
        onto, ones, after = np.ascontiguousarray(transition.T), np.ones(len(edge)), v[:0]
        for t in range(chains.n_steps - 1, -1, -1):
            deadline.check()
            rows = chains.rows(t)
            here, total = v[rows], scale[rows]
            here[: len(after)] *= after
            np.matmul(here, ones, out=total)  # a product sums short rows faster than sum() does
            if not total.min() >= least_total:
                small = np.flatnonzero(total[: len(after)] < least_total)
                if some or not len(small):
                    return None
                here[small], total[small], top[rows][small] = _summed_in_logs(node[rows][small] + np.log(after[small]))
            here *= (1.0 / total)[:, None]
            after = np.matmul(here, onto, out=z[rows]) if t else after
        if some:
            if not spread - np.log(_smallest(v) * smallest) <= DROPPED_GAIN:
                return None
            z[z == 0.0] = 1.0  # after a label that no allowed labelling has
        z[chains.rows(0)] = (v[chains.rows(0)] @ ones)[:, None]
        posterior, share = np.empty_like(v), z
        np.divide(v[chains.rows(0)], z[chains.rows(0)], out=posterior[chains.rows(0)])
        for t in range(1, chains.n_steps):
            deadline.check()
            rows, before = chains.rows(t), int(chains.start[t - 1])
            np.divide(posterior[before : before + int(chains.active[t])], z[rows], out=share[rows])
            here = np.matmul(share[rows], transition, out=posterior[rows])
            here *= v[rows]
        if not np.all(np.abs(posterior @ ones - 1.0) <= POSTERIOR):
            return None
        share, v = share[later], v[later]
        possible = (posterior > 0).sum(axis=1) if certain else None
        of_rows = weights_of_pairs(chains, later, weights, possible)
        squared = None
        if squares:
            twice = share * share if of_rows is None else share * share * of_rows[:, None]
            squared = pairs_of(twice, v * v) * transition**2
            if not np.isfinite(squared).all():  # of large shares where v is small
                squared = _squared_pairs(share, v, transition, of_rows)
        pairs = pairs_of(share if of_rows is None else share * of_rows[:, None], v) * transition
    parts = np.log(scale) + top
    parts[later] += shift
    return chain_sums(chains, parts, posterior, pairs, squared)


def _squared_pairs(share: Matrix, v: Matrix, transition: Matrix, weights: Vector | None) -> Matrix:
    """sum_t weights_t (share_ti W_ij v_tj)^2, position by position: share_ti v_tj overflows, share_ti W_ij does not."""
    total, pair = np.zeros((2, *transition.shape))
    for t in range(len(share)):
        deadline.check()
        np.multiply(transition, share[t][:, None], out=pair)
        pair *= v[t]
        pair *= pair
        total += pair if weights is None else weights[t] * pair
    return np.asarray(total)


def _summed_in_logs(scores: Matrix) -> tuple[Matrix, Vector, Vector]:
    """e^(scores - top), their sums and top of each row."""
    top = scores.max(axis=1)
    values = np.exp(scores - top[:, None])
    return values, values.sum(axis=1), top


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
