r"""Sums over the labellings of chains with log messages, each step a matrix product: exact at any scale of the node
scores.

Used where `convexstruct.oracles.chain.chain.rescaled` would lose labels that count. The alternative,
`convexstruct.oracles.chain.regrets`, is many times slower, but takes edge scores of any range. Score tables and orders
are those of `convexstruct.oracles.chain.chain`.

With m_t the log messages less their largest entry, c_j the largest entry of column j of ``edge``, and

    share_t = e^{m_t + TOP},    W_ij = e^{edge_ij - c_j} <= 1,    p_t = share_{t-1} W,

the forward messages are m_t = node_t + c + ln p_t, up to a constant. Backwards no more exponentials are needed: the
posteriors are mu_{t-1} = share_{t-1} (W u_t) with u_t = mu_t / p_t, because share_{t-1}(i) W_ij / p_t(j) is the
probability of label i given the next label j. The expected pairs are W_ij sum over steps of share_{t-1}(i) u_t(j).

In double precision, whose range is e^-708 to e^709, nothing overflows and no significant term underflows. Let each
column of ``edge`` range over at most `REACH` nats. Then p_t(j) is at least the term of the largest message, e^(TOP -
REACH) = e^-600. Terms of p_t(j) that underflow are below e^-708 each, together at most S e^-108 of p_t(j). Then u_t is
at most e^600, and what underflows in it changes a posterior by at most S e^(TOP - 708) = S e^-58. W is kept as two
matrices, entries from e^-TOP upwards and e^TOP times the entries below, so that none of its entries underflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Matrix, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.sums import ChainSums, pairs_of

#: The logarithm of the largest entry of a share, and the depth in nats below which entries of W are in the second
#: matrix.
TOP = 650.0
#: The widest range in nats of one column of edge scores.
REACH = TOP + 600.0


class Messages(NamedTuple):
    """message (P, S): log forward messages less their largest entry. log_partition (N,), in the caller's order.
    share (P, S): share_t as above, at positions with a next one. product (P, S): p_t, at positions with a previous one.
    large, small: the two parts of W; None where no entry is small."""

    message: Matrix
    log_partition: Vector
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
    deep = depth < -TOP
    large = np.exp(np.where(deep, -np.inf, depth))
    small = np.exp(np.where(deep, depth + TOP, -np.inf)) if deep.any() else None
    message, share, product = node.copy(), np.empty_like(node), np.empty_like(node)
    top = np.empty(chains.n_positions)
    for t in range(chains.n_steps):
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
            np.exp(here[:running] + TOP, out=share[rows][:running])
    top[chains.n_chains :] -= TOP
    constants = np.bincount(chains.chain, weights=top, minlength=chains.n_chains)
    log_partition = constants + np.log(np.exp(message[chains.last]).sum(axis=1))
    return Messages(message, log_partition, share, product, large, small)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def log_messages(chains: Chains, node: Matrix, edge: Matrix, weights: Vector | None = None) -> ChainSums | None:
    """Log partition functions, posteriors and expected pairs, as derived above; None where `messages` returns None or a
    posterior is not finite.

    ``weights`` (N,), in the caller's order, multiplies each chain's share of the pairs.
    """
    found = messages(chains, node, edge)
    if found is None:
        return None
    large, small = found.large.T, None if found.small is None else found.small.T
    posterior, message = np.empty_like(node), np.empty_like(node)
    ends = np.exp(found.message[chains.last])
    posterior[chains.last] = ends / ends.sum(axis=1, keepdims=True)
    for t in range(chains.n_steps - 1, 0, -1):
        rows, before = chains.rows(t), int(chains.start[t - 1])
        np.divide(posterior[rows], found.product[rows], out=message[rows])  # u_t
        past = slice(before, before + int(chains.active[t]))
        np.multiply(found.share[past], _times(message[rows], large, small), out=posterior[past])
    pairs = pairs_of(chains, found.share, message, weights) * found.large
    if found.small is not None:  # share times u may overflow there, so each is multiplied by e^(-TOP / 2)
        half = np.exp(-0.5 * TOP)
        lower = pairs_of(chains, half * found.share, half * message, weights) * found.small
        pairs = np.where(found.small > 0, lower, pairs)
    return ChainSums(found.log_partition, posterior, pairs) if np.isfinite(posterior).all() else None


def _times(rows: Matrix, large: Matrix, small: Matrix | None) -> Matrix:
    """rows W, from the two parts of W."""
    product = rows @ large
    if small is not None:
        product += np.exp(-TOP) * (rows @ small)
    return np.asarray(product)
