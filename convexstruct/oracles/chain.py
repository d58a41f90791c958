"""Chains: Viterbi, second best, forward-backward, sampling; batched over sequences of unequal lengths.

Score tables, for a batch laid out by `convexstruct.graphs.Chains` (P packed positions, S labels):

    node (P, S): score of each label at each packed position; -inf forbids a label
    edge (S, S): score of (previous label, label), the same at every step; -inf forbids a pair

The score of a labelling is the sum of its node and edge scores. All labellings and tables are in packed order.

Ties: among the best labellings the one that is smallest when read from its last position to its first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convexstruct.graphs import Chains
from convexstruct.tolerances import POSTERIOR

Scores = NDArray[np.float64]
Labels = NDArray[np.int64]

#: Work of one block of chains is kept near this many numbers, so that it stays in the cache.
BLOCK = 1 << 17
#: Log-domain messages below this (relative to the largest term that entered them) are recomputed exactly.
UNDERFLOW = -640.0
#: Up to this range of the edge scores no posterior that rescaled messages lose can exceed e^-45.
SAFE_RANGE = 350.0


@dataclass(frozen=True)
class ChainSums:
    """What a sum over all labellings yields.

    log_partition (N,): ln sum over labellings of e^score, for each chain (caller's order).
    node (P, S): posterior of each label at each packed position.
    edge (S, S): expected number of each pair (previous label, label), summed over steps and chains with their weights.
    """

    log_partition: Scores
    node: Scores
    edge: Scores


def viterbi(chains: Chains, node: Scores, edge: Scores) -> tuple[Scores, Labels]:
    """The best labelling of each chain: max over labellings of the sum of node and edge scores.

    Returns the best scores (N,), in the caller's order of chains, and the labels (P,), packed.
    """
    n_labels = node.shape[1]
    into = np.ascontiguousarray(edge.T)  # into[current, previous]: the maximum runs over a contiguous axis
    back = np.zeros((chains.n_positions, n_labels), dtype=np.int32)
    block = max(1, BLOCK // (n_labels * n_labels))
    best = node[chains.rows(0)].copy()
    final = np.empty((chains.n_chains, n_labels))
    for t in range(1, chains.n_steps):
        n, begin = int(chains.active[t]), int(chains.start[t])
        final[n : chains.active[t - 1]] = best[n:]
        following = np.empty((n, n_labels))
        for low in range(0, n, block):
            high = min(n, low + block)
            candidates = best[low:high, None, :] + into[None]
            choice = candidates.argmax(axis=2)
            back[begin + low : begin + high] = choice
            following[low:high] = np.take_along_axis(candidates, choice[:, :, None], axis=2)[:, :, 0]
        best = following + node[begin : begin + n]
    final[: len(best)] = best
    sorted_last = final.argmax(axis=1)
    scores = np.empty(chains.n_chains)
    scores[chains.order] = final[np.arange(chains.n_chains), sorted_last]
    labels = np.empty(chains.n_positions, dtype=np.int64)
    current = sorted_last
    for t in range(chains.n_steps - 1, -1, -1):
        n, begin = int(chains.active[t]), int(chains.start[t])
        here = sorted_last[:n].copy()
        if t + 1 < chains.n_steps:
            follow = int(chains.active[t + 1])
            rows = int(chains.start[t + 1]) + np.arange(follow)
            here[:follow] = back[rows, current]
        labels[begin : begin + n] = here
        current = here
    return scores, labels


def sum_product(chains: Chains, node: Scores, edge: Scores, weights: Scores | None = None) -> ChainSums:
    """Forward-backward: log partition functions, posteriors and expected pairs.

    Uses the rescaled matrix-product version where it is exact, and log-domain messages elsewhere. Rescaled messages
    lose a label only below 1e-308 of the largest; with edge scores within `SAFE_RANGE` of each other the posterior of
    such a label is below e^-45. Outside that range, or where the posteriors do not sum to one, log messages take over.

    ``weights`` (N,), in the caller's order, multiplies each chain's share of ``edge``; the rest is unweighted.
    """
    finite = np.isfinite(edge)
    if finite.all() and float(edge.max() - edge.min()) <= SAFE_RANGE:
        sums = rescaled(chains, node, edge, weights)
        if sums is not None:
            return sums
    return log_domain(chains, node, edge, weights)


def rescaled(chains: Chains, node: Scores, edge: Scores, weights: Scores | None = None) -> ChainSums | None:
    """Forward-backward with one matrix product a step and messages rescaled to sum to one.

    With W = e^edge and e_t = e^node: alpha_t = (alpha_{t-1} W) e_t / z_t, u_t = e_t beta_t / z_t, beta_{t-1} = u_t W';
    posteriors alpha_t beta_t, expected pairs W * sum_t alpha_{t-1} u_t'. Returns None where it would not be exact.
    """
    top = node.max(axis=1)
    shift = float(edge.max())
    with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
        transition = np.exp(edge - shift)
        potential = np.exp(node - top[:, None])
        alpha = np.empty_like(potential)
        scale = np.empty(chains.n_positions)
        for t in range(chains.n_steps):
            rows = chains.rows(t)
            here = alpha[rows]
            if t:
                before = int(chains.start[t - 1])
                np.matmul(alpha[before : before + int(chains.active[t])], transition, out=here)
                here *= potential[rows]
            else:
                here[:] = potential[rows]
            total = here.sum(axis=1)
            scale[rows] = total
            here /= total[:, None]
        backward = transition.T.copy()
        beta = np.ones_like(alpha)
        potential /= scale[:, None]
        for t in range(chains.n_steps - 1, 0, -1):
            rows = chains.rows(t)
            before = int(chains.start[t - 1])
            message = potential[rows]
            message *= beta[rows]  # from here on `potential` holds u_t
            np.matmul(message, backward, out=beta[before : before + int(chains.active[t])])
        posterior = np.multiply(alpha, beta, out=beta)
        total = posterior.sum(axis=1)
    if not np.all(np.abs(total - 1.0) <= POSTERIOR):
        return None
    pairs = _pairs(chains, alpha, potential, weights) * transition
    steps = np.log(scale) + top
    steps[chains.n_chains :] += shift
    log_partition = np.bincount(chains.chain, weights=steps, minlength=chains.n_chains).astype(np.float64)
    return ChainSums(log_partition, posterior, pairs)


def _pairs(chains: Chains, alpha: Scores, message: Scores, weights: Scores | None) -> Scores:
    """sum over steps of alpha_{t-1} u_t', weighted by chain."""
    pairs = np.zeros((alpha.shape[1], alpha.shape[1]))
    for t in range(1, chains.n_steps):
        before, n = int(chains.start[t - 1]), int(chains.active[t])
        left = alpha[before : before + n]
        if weights is not None:
            left = left * weights[chains.order[:n], None]
        pairs += left.T @ message[chains.rows(t)]
    return pairs


def log_domain(chains: Chains, node: Scores, edge: Scores, weights: Scores | None = None) -> ChainSums:
    """Forward-backward on log messages: exact at every temperature.

    Each message is ln(e^a W) with a and W shifted to have maximum 0; entries that come out below `UNDERFLOW` may have
    lost terms, and those alone are recomputed by logsumexp.
    """
    forward = np.empty_like(node)
    for t in range(chains.n_steps):
        rows = chains.rows(t)
        if t:
            before = int(chains.start[t - 1])
            forward[rows] = node[rows] + _log_product(forward[before : before + int(chains.active[t])], edge)
        else:
            forward[rows] = node[rows]
    backward = np.zeros_like(node)
    reverse = np.ascontiguousarray(edge.T)
    pairs = np.zeros_like(edge)
    final = forward[chains.last]
    top = final.max(axis=1)
    log_partition = top + np.log(np.exp(final - top[:, None]).sum(axis=1))
    by_row = log_partition[chains.chain]
    n_labels = edge.shape[0]
    block = max(1, BLOCK // (n_labels * n_labels))
    for t in range(chains.n_steps - 1, 0, -1):
        rows = chains.rows(t)
        before, n = int(chains.start[t - 1]), int(chains.active[t])
        message = node[rows] + backward[rows]
        backward[before : before + n] = _log_product(message, reverse)
        for low in range(0, n, block):
            high = min(n, low + block)
            joint = forward[before + low : before + high, :, None] + edge[None]
            joint += message[low:high, None, :]
            joint -= by_row[before + low : before + high, None, None]
            np.exp(joint, out=joint)
            if weights is not None:
                joint *= weights[chains.order[low:high], None, None]
            pairs += joint.sum(axis=0)
    posterior = np.exp(forward + backward - by_row[:, None])
    return ChainSums(log_partition, posterior, pairs)


def _log_product(message: Scores, edge: Scores) -> Scores:
    """ln sum_i e^(message[n, i] + edge[i, j]) for each row n and column j."""
    row_top = message.max(axis=1)
    column_top = edge.max(axis=0)
    row_shift = np.where(np.isfinite(row_top), row_top, 0.0)
    column_shift = np.where(np.isfinite(column_top), column_top, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        product = np.log(np.exp(message - row_shift[:, None]) @ np.exp(edge - column_shift))
    lost_row, lost_column = np.nonzero(product < UNDERFLOW)
    for low in range(0, len(lost_row), BLOCK // len(edge) + 1):
        some = slice(low, low + BLOCK // len(edge) + 1)
        i, j = lost_row[some], lost_column[some]
        terms = (message[i] - row_shift[i, None]) + (edge[:, j].T - column_shift[j, None])
        top = terms.max(axis=1)
        safe = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore", under="ignore"):
            product[i, j] = safe + np.log(np.exp(terms - safe[:, None]).sum(axis=1))
    product += row_shift[:, None]
    product += column_shift
    return np.asarray(product)


def sample(chains: Chains, node: Scores, edge: Scores, rng: np.random.Generator) -> Labels:
    """One labelling a chain, drawn with probability proportional to e^score; labels (P,), packed.

    Forward filtering in the log domain, then backward sampling by the Gumbel trick (exact at every temperature).
    """
    forward = np.empty_like(node)
    for t in range(chains.n_steps):
        rows = chains.rows(t)
        if t:
            before = int(chains.start[t - 1])
            forward[rows] = node[rows] + _log_product(forward[before : before + int(chains.active[t])], edge)
        else:
            forward[rows] = node[rows]
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
