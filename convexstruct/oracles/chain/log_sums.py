r"""Sums over the labellings of chains with log messages, each step a matrix product: exact at any scale of the node
scores.

Used where `convexstruct.oracles.chain.chain.rescaled` would lose labels that count. The alternative,
`convexstruct.oracles.chain.terms`, is many times slower, but takes edge scores of any range. Score tables and orders
are those of `convexstruct.oracles.chain.chain`.

With m_t the log messages less their largest entry, c_j the largest entry of column j of ``edge``, and

    share_t = e^{m_t + L},    W_ij = e^{edge_ij - c_j} <= 1,    p_t = share_{t-1} W,

the forward messages are m_t = node_t + c + ln p_t, up to a constant. Backwards no more exponentials are needed: the
posteriors are mu_{t-1} = share_{t-1} (W u_t) with u_t = mu_t / p_t, because share_{t-1}(i) W_ij / p_t(j) is the
probability of label i given the next label j. The expected pairs are W_ij sum over steps of share_{t-1}(i) u_t(j).

In double precision, whose range is e^-708 to e^709, nothing overflows and no significant term underflows. Let R be the
widest range of a column of ``edge``, at most `REACH` nats, and L = R / 2. Then p_t(j) is at least the term of the
largest message, e^(L - R) = e^-L. Terms of p_t(j) that underflow are below e^-708 each, together at most S e^(L - 708)
of p_t(j). Then u_t is at most e^L, and what underflows in it changes a posterior by at most S e^(L - 708). As L is at
most 625, both are below S e^-83. W is kept as two matrices, entries from e^-DEPTH upwards and e^DEPTH times the entries
below, so that none of its entries underflows.

What has underflowed is set to 0 before it is multiplied: processors multiply numbers below e^-708 many times more
slowly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.sums import ChainSums, chain_sums, pairs_of, weights_of_pairs

#: The depth in nats below which entries of W are in the second matrix: above the smallest numbers by enough that no
#: entry of either matrix underflows up to `REACH`.
DEPTH = 650.0
#: The widest range in nats of one column of edge scores: then u_t and its sums over labels do not overflow.
REACH = DEPTH + 600.0
#: More than what underflows in a posterior in one step, S e^(REACH / 2 - 708) above, for S up to 20.
LOST = float(np.exp(-80.0))
#: The smallest number of full precision, e^-708.
SMALLEST = float(np.finfo(np.float64).tiny)


class Messages(NamedTuple):
    """message (P, S): log forward messages less their largest entry. parts (P,): ln Z as a sum over positions.
    share (P, S): share_t as above, at positions with a next one. product (P, S): p_t, at positions with a previous one.
    large, small: the two parts of W; None where no entry is small."""

    message: Matrix
    parts: Vector
    share: Matrix
    product: Matrix
    large: Matrix
    small: Matrix | None


@np.errstate(under="ignore", divide="ignore", invalid="ignore")
def messages(chains: Chains, node: Matrix, edge: Matrix) -> Messages | None:
    """The forward pass; None where the edge scores of one column range beyond `REACH`, or are not finite."""
    column = edge.max(axis=0)
    depth = edge - column
    if not depth.min() >= -REACH:
        return None
    lift = -0.5 * float(depth.min())  # L above
    deep = depth < -DEPTH
    large = np.exp(np.where(deep, -np.inf, depth))
    small = np.exp(np.where(deep, depth + DEPTH, -np.inf)) if deep.any() else None
    message, share, product = node.copy(), np.empty_like(node), np.empty_like(node)
    top = np.empty(chains.n_positions)
    for t in range(chains.n_steps):
        deadline.check()
        rows = chains.rows(t)
        here = message[rows]
        if t:
            before = int(chains.start[t - 1])
            product[rows] = _times(share[before : before + len(here)], large, small)
            here += np.log(product[rows])
            here += column
        here.max(axis=1, out=top[rows])
        here -= top[rows, None]
        if t + 1 < chains.n_steps:
            running = int(chains.active[t + 1])
            np.exp(here[:running] + lift, out=share[rows][:running])
    top[chains.n_chains :] -= lift
    top[chains.last] += np.log(np.exp(message[chains.last]).sum(axis=1))
    return Messages(message, top, share, product, large, small)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def log_messages(
    chains: Chains, node: Matrix, edge: Matrix, weights: Vector | None = None, certain: bool = False
) -> ChainSums | None:
    """Log partition functions, posteriors and expected pairs, as derived above; None where `messages` returns None or a
    posterior is not finite. Arguments as `convexstruct.oracles.chain.chain.sum_product` takes them.
    """
    found = messages(chains, node, edge)
    if found is None:
        return None
    large, small = found.large.T, None if found.small is None else found.small.T
    posterior, message = np.empty_like(node), np.empty_like(node)
    ends = np.exp(found.message[chains.last])
    posterior[chains.last] = ends / ends.sum(axis=1, keepdims=True)
    for t in range(chains.n_steps - 1, 0, -1):
        deadline.check()
        rows, before = chains.rows(t), int(chains.start[t - 1])
        u = _full(np.divide(posterior[rows], found.product[rows], out=message[rows]))
        past = slice(before, before + int(chains.active[t]))
        np.multiply(found.share[past], _times(u, large, small), out=posterior[past])
    later = slice(chains.n_chains, chains.n_positions)
    share, message = found.share[chains.previous], message[later]
    of_rows = weights_of_pairs(chains, later, weights, (posterior > 0).sum(axis=1) if certain else None)
    if of_rows is not None:
        share *= of_rows[:, None]
    pairs = pairs_of(share, message) * found.large
    if found.small is not None:  # share times u may overflow there, so each is multiplied by e^(-DEPTH / 2)
        half = np.exp(-0.5 * DEPTH)
        lower = pairs_of(_full(half * share), _full(half * message)) * found.small
        pairs = np.where(found.small > 0, lower, pairs)
    if not np.isfinite(posterior).all():
        return None
    return chain_sums(chains, found.parts, posterior, pairs, lost=LOST)


def _full(values: Matrix) -> Matrix:
    """The array itself, its entries below `SMALLEST` set to 0."""
    values *= values >= SMALLEST
    return values


def _times(rows: Matrix, large: Matrix, small: Matrix | None) -> Matrix:
    """rows W, from the two parts of W."""
    product = rows @ large
    if small is not None:
        product += np.exp(-DEPTH) * (rows @ small)
    return np.asarray(product)
