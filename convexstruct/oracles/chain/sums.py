"""`ChainSums`, the results of sums over the labellings of chains, and what all methods that compute them have in
common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Matrix, Vector
from convexstruct.graphs import Chains

#: A labelling whose score is this many nats below the best adds nothing to a sum in double precision.
NEGLIGIBLE = 60.0


@dataclass(frozen=True)
class ChainSums:
    """The results of the sums over all labellings.

    log_partition (N,): ln sum over labellings of e^score, for each chain (caller's order).
    node (P, S): posterior of each label at each packed position.
    edge (S, S): expected number of each pair (previous label, label), summed over steps and chains with their weights.
    edge_squared (S, S): the squares of the pairs' posteriors, summed alike; None unless asked for.
    """

    log_partition: Vector
    node: Matrix
    edge: Matrix
    edge_squared: Matrix | None = None


def pairs_of(chains: Chains, alpha: Matrix, message: Matrix, weights: Vector | None) -> Matrix:
    """sum over steps of alpha_{t-1} u_t', weighted by chain."""
    if weights is not None:
        alpha = alpha * weights[chains.chain][:, None]
    pairs = np.zeros((alpha.shape[1], alpha.shape[1]))
    t = 1
    while t < chains.n_steps:  # successive steps with the same number of chains are one product
        before, n = int(chains.start[t - 1]), int(chains.active[t])
        alike = 1 if chains.active[t - 1] > n else int(np.searchsorted(-chains.active[t:], -n, side="right"))
        after = int(chains.start[t])
        pairs += alpha[before : before + alike * n].T @ message[after : after + alike * n]
        t += alike
    return pairs
