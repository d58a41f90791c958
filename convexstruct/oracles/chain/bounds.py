r"""Chains with a proof: a bound on the best score that rounding cannot undercut, and marginals of a distribution.

`excess` rounds every operation upwards. `moments` does not bound the distance of its marginals from those of the Gibbs
distribution, because with large scores the exponentials lose too many digits for that. Instead it defines a Markov
chain by the numbers that it computed, K(s' -> s) = R(s', s) h(s) / sum_s R(s', s) h(s) with R, h >= 0. Whatever
rounding did to R and h, this is a distribution over labellings. Its marginals come from one forward pass over positive
numbers, in which nothing cancels: their relative error is a few units of rounding a step at any scale of the scores.

Score tables and orders are those of `convexstruct.oracles.chain.chain`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convexstruct.arrays import Labels, Tensor
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.regrets import LEAST, _regrets
from convexstruct.oracles.chain.sums import BLOCK
from convexstruct.rounding import UNIT, gamma

#: The least weight that a declared kernel gives to what lies ahead of a label: keeps quotients far from underflow.
FAINT = 1e-200


@dataclass(frozen=True)
class Moments:
    """Marginals of a distribution over labellings that this object declares.

    known (P,): where the declared chain can hold one label only. label (P,): that label (elsewhere without meaning).
    node (P, S): probability of each label at each packed position; exact where known. edge (S, S): expected pairs,
    summed over steps and chains with their weights, steps whose both ends are known left out. relative: no exact number
    differs from the one here by more than this share of it (and 1e-100).
    """

    known: NDArray[np.bool_]
    label: Labels
    node: Tensor
    edge: Tensor
    relative: float


def up(values: Tensor) -> Tensor:
    """At least every number that rounds to ``values``."""
    return np.asarray(np.maximum(values * (1 + 4 * UNIT), values * (1 - 4 * UNIT)))


def excess(chains: Chains, rise: Tensor, edge: Tensor, truth: Labels) -> tuple[Tensor, Labels]:
    """An upper bound on max_s sum_t [rise_t(s_t) + edge(s_{t-1}, s_t) - edge(truth_{t-1}, truth_t)], and a labelling.

    Viterbi with every operation rounded upwards. Measured against the truth, scores that a labelling shares with it
    cancel exactly, position by position, so that large ones absorb nothing.

    rise (P, S), packed: at least what each label gains over the true one at its position; -inf forbids it.
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


def moments(chains: Chains, node: Tensor, edge: Tensor, weights: Tensor) -> Moments:
    """Marginals of a Markov chain a chain, near the Gibbs distribution of the scores.

    R are exponentials of regrets (see `convexstruct.oracles.chain.regrets`), h what lies ahead, by a backward pass.

    weights (N,), caller's order.
    """
    known, label = np.zeros(chains.n_positions, dtype=bool), np.zeros(chains.n_positions, dtype=np.int64)
    n_labels = len(edge)
    size = max(LEAST, BLOCK // edge.size)
    by_label = np.ascontiguousarray(node.T)
    posterior, pairs = np.empty_like(by_label), np.zeros_like(edge)
    blocks = range(0, chains.n_chains, size)
    for low in blocks:
        high = min(chains.n_chains, low + size)
        steps = [
            slice(int(start) + low, int(start) + min(high, int(active)))
            for start, active in zip(chains.start, chains.active)
            if active > low
        ]
        top, regret = _regrets(by_label, edge, steps)
        ahead, arriving = _backward(regret, steps, n_labels)
        alpha = np.exp(top - top.max(axis=0)) * ahead[0]
        alpha /= alpha.sum(axis=0)
        posterior[:, steps[0]] = alpha
        alive = alpha > 0  # whether the declared chain can be there at all
        known[steps[0]], label[steps[0]] = alive.sum(axis=0) == 1, alive.argmax(axis=0)
        share = weights[chains.order[low:high]]
        for t in range(1, len(steps)):
            n = steps[t].stop - steps[t].start
            left = np.divide(alpha[:, :n], arriving[t], out=np.zeros((n_labels, n)), where=arriving[t] > 0)
            alive = (alive[:, None, :n] & (regret[t] > 0)).any(axis=0)
            known[steps[t]], label[steps[t]] = alive.sum(axis=0) == 1, alive.argmax(axis=0)
            flow = regret[t]  # of probability, from label to label: (S, S, n)
            flow *= ahead[t]
            flow *= left[:, None, :]
            alpha = flow.sum(axis=0)
            posterior[:, steps[t]] = alpha
            both = known[steps[t - 1]][:n] & known[steps[t]]
            pairs += flow @ np.where(both, 0.0, share[:n])
    found = np.ascontiguousarray(posterior.T)
    found[known] = label[known, None] == np.arange(n_labels)
    operations = (2 * n_labels + 4) * chains.n_steps + min(size, chains.n_chains) + len(blocks) + n_labels + 10
    return Moments(known, label, found, pairs, gamma(operations))


def _backward(regret: list[Tensor], steps: list[slice], n_labels: int) -> tuple[list[Tensor], list[Tensor]]:
    """What lies ahead of each label at each step, h (S, n), scaled freely; and sum_s R(s', s) h(s), (S, n)."""
    ahead, arriving = [np.zeros((n_labels, 0))] * len(steps), [np.zeros((n_labels, 0))] * len(steps)
    beta = np.ones((n_labels, steps[-1].stop - steps[-1].start))
    for t in range(len(steps) - 1, -1, -1):
        n = steps[t].stop - steps[t].start
        if beta.shape[1] < n:  # chains that end here join
            beta = np.concatenate((beta, np.ones((n_labels, n - beta.shape[1]))), axis=1)
        ahead[t] = beta
        if t:
            arriving[t] = np.einsum("ijn,jn->in", regret[t], beta)
            beta = np.maximum(arriving[t] / arriving[t].max(axis=0), FAINT)
    return ahead, arriving
