"""An upper bound on the best score of chains that rounding cannot violate: Viterbi with each operation rounded upwards.

Score tables and orders are those of `convexstruct.oracles.chain.chain`.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import BLOCK
from convexstruct.rounding import UNIT


def up(values: Tensor) -> Tensor:
    """Upper bounds on all numbers that round to ``values``."""
    return np.asarray(np.maximum(values * (1 + 4 * UNIT), values * (1 - 4 * UNIT)))


def excess(chains: Chains, rise: Matrix, edge: Matrix, truth: Labels) -> tuple[Vector, Labels]:
    """An upper bound on max_s sum_t [rise_t(s_t) + edge(s_{t-1}, s_t) - edge(truth_{t-1}, truth_t)], and a labelling.

    Viterbi with every operation rounded upwards. Scores are taken relative to those of the true labelling, position by
    position: scores that a labelling shares with it cancel exactly, so that large ones cause no rounding.

    rise (P, S), packed: upper bounds on each label's node score less the true label's; -inf forbids a label.
    truth (P,), packed; its pairs have finite scores. Returns (N,) in the caller's order of chains, and (P,) packed.
    """
    message = np.ascontiguousarray(rise.T)
    own = np.zeros(chains.n_positions)
    own[chains.later] = edge[truth[chains.previous], truth[chains.later]]
    block = max(1, BLOCK // edge.size)
    for t in range(1, chains.n_steps):
        before, begin, n = int(chains.start[t - 1]), int(chains.start[t]), int(chains.active[t])
        for low in range(0, n, block):
            high = min(n, low + block)
            here = slice(begin + low, begin + high)
            step = up(edge[:, :, None] - own[here])
            step += message[:, None, before + low : before + high]
            message[:, here] = up(message[:, here] + up(step.max(axis=0)))
    labels = np.empty(chains.n_positions, dtype=np.int64)
    current = np.zeros(0, dtype=np.int64)
    for t in range(chains.n_steps - 1, -1, -1):
        arriving = message[:, chains.rows(t)].copy()
        if len(current):
            after = int(chains.start[t + 1])
            arriving[:, : len(current)] += edge[:, current] - own[after : after + len(current)]
        current = arriving.argmax(axis=0)
        labels[chains.rows(t)] = current
    return message[:, chains.last].max(axis=0), labels
