"""Sums over labellings with scores measured against the best completion: nothing overflows, negligible terms are 0.

Used where pairs are forbidden or the faster recursions would lose labellings that count. Score tables and orders are
those of `convexstruct.oracles.chain.chain`.
"""

from __future__ import annotations

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import BLOCK
from convexstruct.oracles.chain.sums import NEGLIGIBLE, ChainSums

#: At least so many chains are worked on at a time, so that the rows of the arrays stay long.
LEAST_CHAINS = 16


def regret_messages(
    chains: Chains, node: Matrix, edge: Matrix, weights: Vector | None = None, squares: bool = False
) -> ChainSums:
    """Forward-backward with scores measured against the best completion: exact at any scale of the scores.

    Backward max-messages m_t(s), the best score of what follows label s at step t, turn each step into regrets

        r_t(s', s) = edge(s', s) + node_t(s) + m_t(s) - m_{t-1}(s') <= 0,    max over s of r_t(s', s) = 0.

    The score of a labelling is the best score among those with its first label plus the sum of its r_t. So labellings
    with some r_t below -`NEGLIGIBLE` (e^-60 = 9e-27) do not count in double precision, and are left out. The rest are
    plain sums of products of e^r, rescaled at each step. Chains are taken in blocks whose steps fit into the cache.
    """
    block = max(LEAST_CHAINS, BLOCK // edge.size)
    log_partition = np.empty(chains.n_chains)
    by_label = np.ascontiguousarray(node.T)  # chains along the last axis: operations run over long rows
    posterior = np.empty_like(by_label)
    pairs = np.zeros_like(edge)
    squared = np.zeros_like(edge) if squares else None
    for low in range(0, chains.n_chains, block):
        high = min(chains.n_chains, low + block)
        steps = [
            slice(int(start) + low, int(start) + min(high, int(active)))
            for start, active in zip(chains.start, chains.active)
            if active > low
        ]
        share = None if weights is None else weights[chains.order[low:high]]
        top, regret = _regrets(by_label, edge, steps)
        log_partition[chains.order[low:high]] = _sum_regrets(top, regret, steps, share, posterior, pairs, squared)
    return ChainSums(log_partition, np.ascontiguousarray(posterior.T), pairs, squared)


def _regrets(node: Matrix, edge: Matrix, steps: list[slice]) -> tuple[Matrix, list[Tensor]]:
    """Scores of the best labelling through each first label (S, n), and e^regret (S, S, n) of each later step."""
    n_labels = edge.shape[0]
    regret = [np.zeros((n_labels, n_labels, 0))] * len(steps)
    future = np.zeros((n_labels, steps[-1].stop - steps[-1].start))
    for t in range(len(steps) - 1, 0, -1):
        deadline.check()
        step = edge[:, :, None] + (node[:, steps[t]] + future)
        best = step.max(axis=1)
        step -= np.where(np.isfinite(best), best, 0.0)[:, None, :]
        regret[t] = np.exp(step, where=step > -NEGLIGIBLE, out=np.zeros_like(step))
        future = np.zeros((n_labels, steps[t - 1].stop - steps[t - 1].start))
        future[:, : best.shape[1]] = best
    return node[:, steps[0]] + future, regret


def _sum_regrets(
    top: Matrix,
    regret: list[Tensor],
    steps: list[slice],
    share: Vector | None,
    posterior: Matrix,
    pairs: Matrix,
    squared: Matrix | None,
) -> Vector:
    """Log partition functions (n,) of a block; its columns of ``posterior`` are filled, its pairs (S, S) added."""
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
    beta = np.ones_like(alpha)
    for t in range(len(steps) - 1, -1, -1):
        deadline.check()
        n = steps[t].stop - steps[t].start
        if beta.shape[1] < n:  # chains that end here join
            beta = np.concatenate((beta, np.ones((len(top), n - beta.shape[1]))), axis=1)
        here = posterior[:, steps[t]]
        here *= beta
        here /= here.sum(axis=0)
        if t:
            before = posterior[:, steps[t - 1]][:, :n]
            arriving = np.einsum("ijn,jn->in", regret[t], beta)
            beta /= (before * arriving).sum(axis=0)
            left = before if share is None else before * share[:n]  # a share may be 0
            pairs += np.einsum("in,ijn,jn->ij", left, regret[t], beta)
            if squared is not None:
                squared += np.einsum("in,ijn,jn->ij", left * before, regret[t] ** 2, beta**2)
            beta = arriving / arriving.max(axis=0)
    return np.asarray(logs)
