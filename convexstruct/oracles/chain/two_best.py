"""The two best labellings of each chain: list Viterbi of depth two, batched over chains of unequal lengths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import BLOCK


class TwoBest(NamedTuple):
    """The best labelling of each chain, or of each example on a junction tree, and the best of all others.

    best, second (N,): their scores, in the caller's order; second is -inf if no other labelling is allowed.
    best_labels, second_labels: (P,) packed for chains, (N, n_variables) for junction trees; where second is -inf,
        second_labels repeats the best.
    """

    best: Vector
    best_labels: Labels
    second: Vector
    second_labels: Labels


def two_best(chains: Chains, node: Matrix, edge: Matrix) -> TwoBest:
    """The largest and the second largest sum of node (P, S) and edge (S, S) scores over labellings, for each chain.

    For each label of each position the two best partial labellings that end in it are kept. Of labellings with
    equal scores the one that is smaller when read from its last position to its first comes first.
    """
    n_labels = node.shape[1]
    # into[current, 2 previous + rank]: candidates in the order in which ties are broken
    into = np.repeat(np.ascontiguousarray(edge.T), 2, axis=1)
    back = np.zeros((2, chains.n_positions, n_labels), dtype=np.int64)
    best = np.full((chains.n_chains, n_labels, 2), -np.inf)
    best[:, :, 0] = node[chains.rows(0)]
    final = np.empty_like(best)
    block = max(1, BLOCK // (2 * n_labels * n_labels))
    for t in range(1, chains.n_steps):
        deadline.check()
        n, begin = int(chains.active[t]), int(chains.start[t])
        final[n : chains.active[t - 1]] = best[n:]
        following = np.empty((n, n_labels, 2))
        for low in range(0, n, block):
            high = min(n, low + block)
            candidates = best[low:high].reshape(high - low, 1, 2 * n_labels) + into
            for rank in range(2):
                choice = candidates.argmax(axis=2)[:, :, None]
                back[rank, begin + low : begin + high] = choice[:, :, 0]
                following[low:high, :, rank] = np.take_along_axis(candidates, choice, axis=2)[:, :, 0]
                np.put_along_axis(candidates, choice, -np.inf, axis=2)
        best = following + node[begin : begin + n, :, None]
    final[: len(best)] = best
    ends = final.reshape(chains.n_chains, 2 * n_labels)
    rows = np.arange(chains.n_chains)
    found: list[tuple[Vector, Labels]] = []
    for _ in range(2):
        at = ends.argmax(axis=1)
        value = np.empty(chains.n_chains)
        value[chains.order] = ends[rows, at]
        found.append((value, _trace_back(chains, back, at)))
        ends[rows, at] = -np.inf
    (first, first_labels), (second, second_labels) = found
    alone = np.isneginf(second)[chains.chain]
    return TwoBest(first, first_labels, second, np.where(alone, first_labels, second_labels))


def _trace_back(chains: Chains, back: Labels, last: Index) -> Labels:
    """Follow the back pointers from 2 label + rank at each chain's end (sorted order); labels packed."""
    labels = np.empty(chains.n_positions, dtype=np.int64)
    current = last
    for t in range(chains.n_steps - 1, -1, -1):
        here = last[: int(chains.active[t])].copy()
        if t + 1 < chains.n_steps:
            rows = np.arange(chains.start[t + 1], chains.start[t + 2])
            here[: len(rows)] = back[current % 2, rows, current // 2]
        labels[chains.rows(t)] = here // 2
        current = here
    return labels
