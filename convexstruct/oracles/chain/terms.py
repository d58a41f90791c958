"""Sums over labellings position by position, each over its terms in the log domain: exact at any scale of the scores.

Used where pairs are forbidden, the faster recursions would lose labellings that count, or every step has an edge table
of its own. Score tables and orders are
those of `convexstruct.oracles.chain.chain`.
"""

from __future__ import annotations

import math

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import BLOCK
from convexstruct.oracles.chain.sums import ChainSums, chain_sums, weights_of_pairs

#: Labels that are this many nats less likely than another after the same label get the probability 0.
NEGLIGIBLE = 60.0
#: Sums over chains add up at least so many, one after the other.
LEAST_ROWS = 128
#: At least so many chains are worked on at a time, so that the rows of the arrays stay long.
LEAST_CHAINS = 16


def sums_by_terms(
    chains: Chains,
    node: Matrix,
    edge: Matrix,
    weights: Vector | None = None,
    squares: bool = False,
    certain: bool = False,
) -> ChainSums:
    """Backwards the messages b_t(s), the log-sum of the scores of what follows label s at step t; then

        p_t(s | s') = e^[edge(s', s) + node_t(s) + b_t(s) - b_{t-1}(s')],

    scaled to sum to 1 over s, and the posteriors forwards. Chains are taken in blocks whose steps fit into the cache.
    Arguments as `convexstruct.oracles.chain.chain.sum_product` takes them.
    """
    block = max(LEAST_CHAINS, BLOCK // node.shape[1] ** 2)
    by_label = np.ascontiguousarray(node.T)  # chains along the last axis: operations run over long rows
    posterior, (parts, reach) = np.empty_like(by_label), np.zeros((2, chains.n_positions))
    pairs, squared = np.zeros((2, *edge.shape))
    possible = np.empty(chains.n_positions, dtype=np.intp)
    lows = range(0, chains.n_chains, block)
    for low in lows:
        steps = [
            slice(int(start) + low, int(start) + min(low + block, int(active)))
            for start, active in zip(chains.start, chains.active)
            if active > low
        ]
        conditional = _conditionals(by_label, edge, steps, posterior, parts, reach)
        possible[steps[0]] = (posterior[:, steps[0]] > 0).sum(axis=0)
        for t in range(1, len(steps)):
            deadline.check()
            n = steps[t].stop - steps[t].start
            before = posterior[:, steps[t - 1]][:, :n]
            here = np.einsum("in,ijn->jn", before, conditional[t], out=posterior[:, steps[t]])
            possible[steps[t]] = (here > 0).sum(axis=0)
            of_rows = weights_of_pairs(chains, steps[t], weights, possible if certain else None)
            share = before if of_rows is None else before * of_rows
            at = ... if edge.ndim == 2 else t - 1
            pairs[at] += _over_chains(share, conditional[t])
            if squares:
                squared[at] += _over_chains(share * before, conditional[t] ** 2)
    added = 2 * math.isqrt(chains.n_chains) + LEAST_ROWS + len(lows) * chains.n_steps
    found, more = np.ascontiguousarray(posterior.T), squared if squares else None
    return chain_sums(chains, parts, found, pairs, more, added=added, reach=reach)


def _over_chains(share: Matrix, conditional: Tensor) -> Matrix:
    """sum over n of share (i, n) conditional (i, j, n), in blocks, so that rounding grows with the root of n."""
    s, n = share.shape
    width = math.isqrt(n) + LEAST_ROWS
    whole = n - n % width
    first, second = share[:, :whole].reshape(s, -1, width), conditional[:, :, :whole].reshape(s, s, -1, width)
    rest = np.einsum("in,ijn->ij", share[:, whole:], conditional[:, :, whole:])
    return np.asarray(np.einsum("ibn,ijbn->ijb", first, second).sum(axis=2) + rest)


def _conditionals(
    node: Matrix, edge: Matrix, steps: list[slice], posterior: Matrix, parts: Vector, reach: Vector
) -> list[Tensor]:
    """p_t (S, S, n) of each later step, 0 after a label that no allowed labelling has; the columns of the first step
    of ``posterior`` are filled, and all of ``parts`` and of ``reach``, the largest messages."""
    s = len(node)
    conditional = [np.zeros((s, s, 0))] * len(steps)
    message = np.zeros((s, steps[-1].stop - steps[-1].start))
    for t in range(len(steps) - 1, 0, -1):
        deadline.check()
        table = edge if edge.ndim == 2 else edge[t - 1]
        conditional[t], logs = _scaled(table[:, :, None] + (node[:, steps[t]] + message))
        top = logs.max(axis=0)
        parts[steps[t]] = top
        message = np.zeros((s, steps[t - 1].stop - steps[t - 1].start))
        message[:, : logs.shape[1]] = logs - top
        reach[steps[t]] = -message[:, : logs.shape[1]].min(axis=0, initial=0.0, where=np.isfinite(logs))
    first, logs = _scaled((node[:, steps[0]] + message)[None])
    posterior[:, steps[0]], parts[steps[0]] = first[0], logs[0]
    return conditional


def _scaled(scores: Tensor) -> tuple[Tensor, Matrix]:
    """(e^scores, scaled to sum to 1 along the middle axis, or 0 where all are forbidden; ln of the sums), (i, j, n) and
    (i, n). ``scores`` is overwritten."""
    top = scores.max(axis=1)
    scores -= np.where(np.isneginf(top), 0.0, top)[:, None]
    weights = np.exp(scores, where=scores > -NEGLIGIBLE, out=np.zeros_like(scores))
    total = weights.sum(axis=1)
    weights /= np.where(total > 0, total, 1.0)[:, None]
    return weights, np.asarray(top + np.log(np.where(total > 0, total, 1.0)))
