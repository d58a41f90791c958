r"""Marginals of a distribution over the labellings of chains that is proved to be one: close to the Gibbs distribution.

Any numbers alpha_t(i) >= 0 and W_ij >= 0 define one, read backwards:

    P(y_T = i) ~ alpha_T(i),        P(y_{t-1} = i | y_t = j) = alpha_{t-1}(i) W_ij / z_t(j),    z_t(j) = sum_i ...

and with the forward messages of sum-product it is the Gibbs distribution. Whatever rounding did to alpha and W, its
marginals mu_{t-1}(i) = alpha_{t-1}(i) sum_j W_ij mu_t(j) / z_t(j) and pairs are sums and products of numbers >= 0, so
what is computed of them is right to a relative error that follows from the number of operations alone. That is what a
proved lower bound needs; `convexstruct.oracles.chain.chain` is as accurate and faster, but its error also depends on
exp.

Numbers below `LOST` are set to 0, so that nothing falls below the smallest normal number; the marginals are then those
of a distribution up to `LOST` for each position and label, absolute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains
from convexstruct.rounding import gamma

#: The widest range of edge scores, in nats, for which a label dropped from alpha cannot matter (see `chain.rescaled`).
RANGE = 150.0
#: Messages below the first, and marginals below the second, are 0.
FLUSHED, LOST = 1e-100, 1e-60
#: Chains whose pairs one product sums.
BLOCK = 256


class Marginals(NamedTuple):
    """node (P, S): mu, packed. pairs: parts (S, S) whose sum is that of all pairs, weighted. relative, absolute: how
    far an entry may be from that of a distribution; of pairs times their weight."""

    node: Tensor
    pairs: list[Tensor]
    relative: float
    absolute: float


def marginals(chains: Chains, node: Tensor, edge: Tensor, weights: Tensor) -> Marginals | None:
    """Close to the Gibbs marginals of node (P, S) and edge (S, S) scores, packed; weights (N,) in the caller's order
    weight the pairs. None where edges range too far, or no label of a position keeps a message."""
    if not np.ptp(edge) <= RANGE:
        return None
    transition = np.exp(edge - edge.max())
    potential = np.exp(node - node.max(axis=1, keepdims=True))
    alpha, z = np.empty_like(potential), np.ones_like(potential)
    for t in range(chains.n_steps):
        rows = chains.rows(t)
        if t:
            before = int(chains.start[t - 1])
            z[rows] = alpha[before : before + int(chains.active[t])] @ transition
        here = z[rows] * potential[rows]
        sums = here.sum(axis=1, keepdims=True)
        if not (sums > FLUSHED).all():
            return None
        here /= sums
        alpha[rows] = np.where(here < FLUSHED, 0.0, here)
    mu = np.empty_like(alpha)
    mu[chains.last] = alpha[chains.last] / alpha[chains.last].sum(axis=1, keepdims=True)
    weight = weights[chains.order]
    pairs: list[Tensor] = []
    for t in range(chains.n_steps - 1, 0, -1):
        rows, n = chains.rows(t), int(chains.active[t])
        past = slice(int(chains.start[t - 1]), int(chains.start[t - 1]) + n)
        kept = np.where(mu[rows] < LOST, 0.0, mu[rows]) / np.where(z[rows] > 0, z[rows], 1.0)
        mu[past] = alpha[past] * (kept @ transition.T)
        left = alpha[past] * weight[:n, None]
        pairs += [left[b : b + BLOCK].T @ kept[b : b + BLOCK] * transition for b in range(0, n, BLOCK)]
    size = node.shape[1]
    relative = gamma(chains.n_steps * (3 * size + 8) + BLOCK + 8)
    return Marginals(mu, pairs, relative, 2.0 * LOST * chains.n_steps * size)
