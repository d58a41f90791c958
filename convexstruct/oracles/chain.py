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
#: Chains taken at a time at least, so that rows stay long.
LEAST = 16
#: A regret beyond this many nats counts for nothing in double precision.
NEGLIGIBLE = 60.0
#: Share of the log messages that may be summed again.
AGAIN = 0.05
#: Log-domain messages below this (relative to the largest term that entered them) are recomputed exactly.
UNDERFLOW = -640.0
#: What a label may gain, in nats, from where rescaled messages lose it: it is lost below e^-708 (see `rescaled`).
GAIN = 660.0
#: Sweeps that make the edge scores more even, and the range up to which none is needed.
SWEEPS = 8
EVEN = 100.0


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

    Forward max-messages, then the labels are read backwards, comparing once more only what leads to the label chosen.
    Returns the best scores (N,), in the caller's order of chains, and the labels (P,), packed.
    """
    message = node.T.copy()  # chains run along the last axis, so that every operation is a long row
    block = max(1, BLOCK // edge.size)
    for t in range(1, chains.n_steps):
        before, begin, n = int(chains.start[t - 1]), int(chains.start[t]), int(chains.active[t])
        for low in range(0, n, block):
            some = slice(low, min(n, low + block))
            arriving = message[:, None, before + some.start : before + some.stop] + edge[:, :, None]
            message[:, begin + some.start : begin + some.stop] += arriving.max(axis=0)
    labels = np.empty(chains.n_positions, dtype=np.int64)
    scores = message[:, chains.last].max(axis=0)
    current = np.zeros(0, dtype=np.int64)
    for t in range(chains.n_steps - 1, -1, -1):
        arriving = message[:, chains.rows(t)].copy()
        arriving[:, : len(current)] += edge[:, current]
        current = arriving.argmax(axis=0)
        labels[chains.rows(t)] = current
    return scores, labels


def sum_product(chains: Chains, node: Scores, edge: Scores, weights: Scores | None = None) -> ChainSums:
    """Forward-backward: log partition functions, posteriors and expected pairs.

    Uses the rescaled matrix-product version where it is exact, log messages by matrix products elsewhere, and regrets
    where pairs are forbidden or too many messages would have to be summed again.

    ``weights`` (N,), in the caller's order, multiplies each chain's share of ``edge``; the rest is unweighted.
    """
    if np.isfinite(edge).all():
        even = _evened(chains, node, edge)
        for method in (rescaled, log_messages):
            sums = method(chains, *even, weights)
            if sums is not None:
                return sums
    return log_domain(chains, node, edge, weights)


def _evened(chains: Chains, node: Scores, edge: Scores) -> tuple[Scores, Scores]:
    """The same scores of labellings from edge scores of a smaller range: edge - r - c', their parts moved to the nodes.

    What is alike in a row of ``edge`` belongs to the label before, what is alike in a column to the label after. Each
    sweep centres all rows, then all columns.
    """
    even = edge
    for _ in range(SWEEPS if np.ptp(edge) > EVEN else 0):
        even = even - 0.5 * (even.max(axis=1) + even.min(axis=1))[:, None]
        even = even - 0.5 * (even.max(axis=0) + even.min(axis=0))
    if even is edge:
        return node, edge
    row = (edge - even)[:, 0]
    column = (edge - even)[0] - row[0]
    node = node.copy()
    node[chains.n_chains :] += column
    node[chains.previous] += row
    return node, even


def rescaled(chains: Chains, node: Scores, edge: Scores, weights: Scores | None = None) -> ChainSums | None:
    """Forward-backward with one matrix product a step and messages rescaled to sum to one.

    With W = e^edge and e_t = e^node: alpha_t = (alpha_{t-1} W) e_t / z_t, u_t = e_t beta_t / z_t, beta_{t-1} = u_t W';
    posteriors alpha_t beta_t, expected pairs W * sum_t alpha_{t-1} u_t'.

    Returns None where it might not be exact. A label is lost where e_t or alpha_t is below e^-708: its alpha is then at
    most e^-708 / min(1, z). As the next label may be the same, no label's future is better than another's by more than
    the range of the edge scores. So what is lost does not count if range(edge) - ln min(1, z) stays below `GAIN`.
    """
    if np.ptp(edge) > GAIN:
        return None
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
        if not float(np.ptp(edge)) - np.log(min(1.0, float(scale.min()))) <= GAIN:
            return None
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


def log_messages(chains: Chains, node: Scores, edge: Scores, weights: Scores | None = None) -> ChainSums | None:
    """Forward-backward with log messages, each step a matrix product whose lost entries are summed again.

    f_t = node_t + ln(e^{f_{t-1}} W), b_{t-1} = ln(e^{node_t + b_t} W'), posteriors e^{f_t + b_t - ln Z}. Exact at every
    temperature. Returns None where more than `AGAIN` of a direction's messages are lost: regrets are faster there.
    """
    forward, backward = node.copy(), np.zeros_like(node)
    allowed = [int(AGAIN * node.size), int(AGAIN * node.size)]
    into, back = _Product(edge), _Product(np.ascontiguousarray(edge.T))
    for t in range(1, chains.n_steps):
        before = slice(int(chains.start[t - 1]), int(chains.start[t - 1] + chains.active[t]))
        arriving, again = into(forward[before])
        forward[chains.rows(t)] += arriving
        allowed[0] -= again
        if allowed[0] < 0:
            return None
    ahead = node.copy()  # node + backward
    for t in range(chains.n_steps - 1, 0, -1):
        before = slice(int(chains.start[t - 1]), int(chains.start[t - 1] + chains.active[t]))
        backward[before], again = back(ahead[chains.rows(t)])
        ahead[before] += backward[before]
        allowed[1] -= again
        if allowed[1] < 0:
            return None
    log_partition = np.logaddexp.reduce(forward[chains.last], axis=1)
    with np.errstate(under="ignore", divide="ignore"):
        log_share = log_partition if weights is None else log_partition - np.log(weights)
        posterior = np.exp(forward + backward - log_partition[chains.chain, None])
        total = posterior.sum(axis=1)
        if not np.all(np.abs(total - 1.0) <= POSTERIOR):
            return None
        pairs = _log_pairs(forward[chains.previous], ahead[chains.later], edge, log_share[chains.chain[chains.later]])
    return ChainSums(log_partition, posterior, pairs)


def _log_pairs(before: Scores, after: Scores, edge: Scores, log_partition: Scores) -> Scores:
    """sum over rows n of e^(before[n, i] + edge[i, j] + after[n, j] - log_partition[n]); no term exceeds a weight.

    A matrix product, but for what would underflow in it: rows whose scale is beyond e^-`UNDERFLOW`, and entries of
    ``edge`` below `UNDERFLOW`.
    """
    left, right, top = before.max(axis=1), after.max(axis=1), float(edge.max())
    rise = left + right + top - log_partition
    plain = rise <= -UNDERFLOW
    pairs = np.exp(before[plain] - (left - rise)[plain, None]).T @ np.exp(after[plain] - right[plain, None])
    pairs *= np.exp(edge - top)
    deep = edge - top < UNDERFLOW
    for i, j in zip(*np.nonzero(deep)):
        pairs[i, j] = np.exp(before[plain, i] + (edge[i, j] + after[plain, j] - log_partition[plain])).sum()
    steep = np.flatnonzero(~plain)
    size = BLOCK // edge.size + 1
    for some in (steep[low : low + size] for low in range(0, len(steep), size)):
        pairs += np.exp(before[some, :, None] + edge + (after[some] - log_partition[some, None])[:, None, :]).sum(
            axis=0
        )
    return np.asarray(pairs)


def log_domain(chains: Chains, node: Scores, edge: Scores, weights: Scores | None = None) -> ChainSums:
    """Forward-backward in the log domain, measured against the best completion: exact at every temperature.

    Backward max-messages m_t(s), the best score of what follows label s at step t, turn each step into regrets

        r_t(s', s) = edge(s', s) + node_t(s) + m_t(s) - m_{t-1}(s') <= 0,    max over s of r_t(s', s) = 0.

    The score of a labelling is the best score less the regrets along it, so a step with a regret beyond `NEGLIGIBLE`
    (e^-60 = 9e-27) leads to labellings that do not count in double precision, and is left out. What remains are plain
    sums of products of e^r, rescaled at each step. Chains are taken in blocks whose steps fit into the cache.
    """
    block = max(LEAST, BLOCK // edge.size)
    log_partition = np.empty(chains.n_chains)
    by_label = np.ascontiguousarray(node.T)  # chains run along the last axis, so that every operation is a long row
    posterior = np.empty_like(by_label)
    pairs = np.zeros_like(edge)
    for low in range(0, chains.n_chains, block):
        high = min(chains.n_chains, low + block)
        steps = [
            slice(int(start) + low, int(start) + min(high, int(active)))
            for start, active in zip(chains.start, chains.active)
            if active > low
        ]
        share = None if weights is None else weights[chains.order[low:high]]
        top, regret = _regrets(by_label, edge, steps)
        logs, added = _sum_regrets(top, regret, steps, share, posterior)
        log_partition[chains.order[low:high]] = logs
        pairs += added
    return ChainSums(log_partition, np.ascontiguousarray(posterior.T), pairs)


def kernels(chains: Chains, node: Scores, edge: Scores) -> tuple[Scores, list[Scores]]:
    """The Gibbs distribution as a Markov chain run forwards: exact at every temperature.

    Returns the posterior of each label at each packed position (P, S), and for each step t >= 1 the probabilities
    (n, S, S) of a label given the previous one, for the n chains still running (rows of unreachable labels are zero).
    """
    by_label = np.ascontiguousarray(node.T)
    steps = [chains.rows(t) for t in range(chains.n_steps)]
    top, regret = _regrets(by_label, edge, steps)
    beta = np.ones((len(top), steps[-1].stop - steps[-1].start))
    forward = [np.zeros((0, len(top), len(top)))] * len(steps)
    for t in range(len(steps) - 1, 0, -1):
        step = regret[t] * beta
        arriving = step.sum(axis=1)
        step /= np.where(arriving > 0, arriving, 1.0)[:, None, :]
        forward[t] = np.ascontiguousarray(step.transpose(2, 0, 1))
        beta = np.ones((len(top), steps[t - 1].stop - steps[t - 1].start))
        beta[:, : arriving.shape[1]] = arriving / arriving.max(axis=0)
    posterior = np.empty_like(node)
    first = np.exp(top - top.max(axis=0)) * beta
    posterior[steps[0]] = (first / first.sum(axis=0)).T
    for t in range(1, len(steps)):
        before = posterior[steps[t - 1]][: len(forward[t])]
        posterior[steps[t]] = np.matmul(before[:, None, :], forward[t])[:, 0, :]
    return posterior, forward


def _regrets(node: Scores, edge: Scores, steps: list[slice]) -> tuple[Scores, list[Scores]]:
    """Scores of the best labelling through each first label (S, n), and e^regret (S, S, n) of each later step."""
    n_labels = edge.shape[0]
    regret = [np.zeros((n_labels, n_labels, 0))] * len(steps)
    future = np.zeros((n_labels, steps[-1].stop - steps[-1].start))
    for t in range(len(steps) - 1, 0, -1):
        step = edge[:, :, None] + (node[:, steps[t]] + future)
        best = step.max(axis=1)
        step -= np.where(np.isfinite(best), best, 0.0)[:, None, :]
        regret[t] = np.exp(step, where=step > -NEGLIGIBLE, out=np.zeros_like(step))
        future = np.zeros((n_labels, steps[t - 1].stop - steps[t - 1].start))
        future[:, : best.shape[1]] = best
    return node[:, steps[0]] + future, regret


def _sum_regrets(
    top: Scores, regret: list[Scores], steps: list[slice], share: Scores | None, posterior: Scores
) -> tuple[Scores, Scores]:
    """Log partition functions (n,) and expected pairs (S, S) of a block; its columns of ``posterior`` are filled."""
    best = top.max(axis=0)
    logs = best.copy()
    alpha = np.exp(top - best)
    for t, columns in enumerate(steps):
        n = columns.stop - columns.start
        if t:
            alpha = np.einsum("in,ijn->jn", alpha[:, :n], regret[t])
        total = alpha.sum(axis=0)
        alpha /= total
        logs[:n] += np.log(total)
        posterior[:, columns] = alpha
    pairs = np.zeros((len(top), len(top)))
    beta = np.ones_like(alpha)
    for t in range(len(steps) - 1, -1, -1):
        n = steps[t].stop - steps[t].start
        if beta.shape[1] < n:  # chains that end here join
            beta = np.concatenate((beta, np.ones((len(top), n - beta.shape[1]))), axis=1)
        here = posterior[:, steps[t]]
        here *= beta
        here /= here.sum(axis=0)
        if t:
            before = posterior[:, steps[t - 1]][:, :n]
            arriving = np.einsum("ijn,jn->in", regret[t], beta)
            total = (before * arriving).sum(axis=0)
            beta *= (1.0 if share is None else share[:n]) / total  # a share may be 0
            pairs += np.einsum("in,ijn,jn->ij", before, regret[t], beta)
            beta = arriving / arriving.max(axis=0)
    return logs, pairs


class _Product:
    """ln sum_i e^(message[n, i] + edge[i, j]) for each row n and column j, and how many were lost and summed again."""

    def __init__(self, edge: Scores) -> None:
        top = edge.max(axis=0)
        self.edge, self._shift = edge, np.where(np.isfinite(top), top, 0.0)
        with np.errstate(under="ignore"):
            self._factor = np.exp(edge - self._shift)

    def __call__(self, message: Scores) -> tuple[Scores, int]:
        top = message.max(axis=1)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore", under="ignore"):
            product = np.log(np.exp(message - shift[:, None]) @ self._factor)
        row, column = np.nonzero(product < UNDERFLOW)
        size = BLOCK // len(self.edge) + 1
        for low in range(0, len(row), size):
            i, j = row[low : low + size], column[low : low + size]
            terms = (message[i] - shift[i, None]) + (self.edge[:, j].T - self._shift[j, None])
            most = terms.max(axis=1)
            safe = np.where(np.isfinite(most), most, 0.0)
            with np.errstate(divide="ignore", under="ignore"):
                product[i, j] = safe + np.log(np.exp(terms - safe[:, None]).sum(axis=1))
        product += shift[:, None]
        product += self._shift
        return np.asarray(product), len(row)


def sample(chains: Chains, node: Scores, edge: Scores, rng: np.random.Generator) -> Labels:
    """One labelling a chain, drawn with probability proportional to e^score; labels (P,), packed.

    Forward filtering in the log domain, then backward sampling by the Gumbel trick (exact at every temperature).
    """
    forward = np.empty_like(node)
    product = _Product(edge)
    for t in range(chains.n_steps):
        rows = chains.rows(t)
        if t:
            before = int(chains.start[t - 1])
            forward[rows] = node[rows] + product(forward[before : before + int(chains.active[t])])[0]
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
