r"""Chains with a bound on the rounding: ln Z from above and below, and a distribution that is one exactly.

Score tables and the packed layout are those of `convexstruct.oracles.chain.chain`. Two passes, each with S^2
exponentials a
position, every sum of exponentials shifted by its own largest term, so that nothing overflows or cancels:

`backward`  the messages b of the labels to come, and ln Z = sum of ``parts``. The recursion of log-sum-exp is
            1-Lipschitz in the largest error of its input, so the errors of a chain's positions add up.
`markov`    the chain with p(s | s') proportional to w = e^(score of s after s'), as computed. It is a distribution
            whatever w >= 0 is: its marginals and its entropy,

                H = H(first label) + sum over steps and s' of q(s') (ln sum w + sum p |ln w|),        w <= 1,

            have terms of one sign only. So they are known to a relative error, however large the scores are, while
            ln Z - mean'scores loses all digits where the scores are large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.sums import BLOCK
from convexstruct.rounding import FUNCTION, TINY, UNIT, gamma

#: Logarithms of weights below this are those of weight 0: e^-700 is still a normal number.
LEAST = -700.0
#: Rows that are added one after the other, before their sums are.
TOGETHER = 64


@dataclass(frozen=True)
class Backward:
    """What `backward` finds.

    ahead (P, S) : node score and message of each label, the latter less its largest. parts (P,) : their sum over the
    positions of a chain is ln Z. errors (P,) : how far each may be off, in nats, the errors of ``ahead`` included.
    """

    ahead: Tensor
    parts: Tensor
    errors: Tensor


@dataclass(frozen=True)
class Markov:
    """Marginals and entropy of a distribution over the labellings of each chain.

    node (P, S), edge (S, S) : as `ChainSums` has them. relative : how far each entry may be off, relative to itself;
    absolute : and beside it. entropy : the sum over the chains, in nats; entropy_error : how far it may be off.
    """

    node: Tensor
    edge: Tensor
    relative: float
    absolute: float
    entropy: float
    entropy_error: float


def backward(chains: Chains, node: Tensor, edge: Tensor) -> Backward:
    """The messages from each position's successors, and ln Z position by position."""
    s = len(edge)
    ahead = node.copy()
    parts, errors = np.empty(chains.n_positions), np.zeros(chains.n_positions)
    # exp, log of at most S terms, and the sum: what they do to the logarithm of a sum of which one term is 1
    own = (2.0 * FUNCTION * (1.0 + math.log(s)) + s + 4.0) * UNIT
    size = float(np.abs(edge).max())
    for t in range(chains.n_steps - 1, 0, -1):
        deadline.check()
        first = int(chains.start[t - 1])
        for low, high in _blocks(chains, t, s):
            here = ahead[low:high]
            before = slice(first + low - int(chains.start[t]), first + high - int(chains.start[t]))
            largest, total, _, _ = _weights(edge + here[:, None, :])
            message = largest + np.log(total)
            top = message.max(axis=1)
            parts[low:high] = top
            message -= top[:, None]
            ahead[before] += message
            scores = size + np.abs(here).max(axis=1)
            reach = 2.0 * np.abs(top) + 2.0 * np.abs(message).max(axis=1) + np.abs(ahead[before]).max(axis=1)
            errors[low:high] = own + UNIT * (4.0 * scores + reach)
    start = chains.rows(0)
    largest, total, _, _ = _weights(ahead[start].copy())
    parts[start] = largest + np.log(total)
    errors[start] = own + UNIT * (4.0 * np.abs(ahead[start]).max(axis=1) + np.abs(parts[start]))
    return Backward(ahead, parts, errors * (1.0 + 1e-6))


def markov(chains: Chains, ahead: Tensor, edge: Tensor) -> Markov:
    """The chains that start and go on with probabilities proportional to e^ahead and e^(edge + ahead)."""
    s = len(edge)
    node, pairs = np.empty_like(ahead), np.zeros_like(edge)
    step, relative = gamma(2 * s + 4), gamma(s + 2)
    of_row = UNIT * 1.01 * (s + 2.0 * FUNCTION * (math.log(s) + 1.1) + (2.0 * s + 4.0) * math.log(s))
    start = chains.rows(0)
    _, total, weights, logs = _weights(ahead[start].copy())
    node[start] = weights / total[:, None]
    entropies = [np.log(total) + np.einsum("ns,ns->n", weights, logs) / total]
    error = float(entropies[0].sum()) * gamma(s + 2) + len(total) * of_row
    added = 0
    for t in range(1, chains.n_steps):
        deadline.check()
        first = int(chains.start[t - 1])
        for low, high in _blocks(chains, t, s):
            _, total, weights, logs = _weights(edge + ahead[low:high][:, None, :])
            before = node[first + low - int(chains.start[t]) : first + high - int(chains.start[t])]
            each = np.log(total) + np.einsum("nij,nij->ni", weights, logs) / total
            found = np.einsum("ni,ni->n", before, each)
            entropies.append(found)
            error += float(found.sum()) * (relative + gamma(s + 2)) + len(found) * of_row * (1.0 + relative)
            weights *= (before / total)[:, :, None]
            node[low:high] = weights.sum(axis=1)
            some = np.add.reduceat(weights, np.arange(0, high - low, TOGETHER), axis=0)
            pairs += some.sum(axis=0)
            added += 1 + len(some)
        relative += step
    entropy = math.fsum(np.concatenate(entropies).tolist())
    absolute = 4.0 * chains.n_positions * s * s * TINY
    return Markov(
        node, pairs, relative + gamma(TOGETHER + added + 2), absolute, entropy, error + UNIT * entropy + absolute
    )


def _weights(scores: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(largest, sum of w, w, -ln w) along the last axis, w = e^(scores - largest), 0 where that is below e^`LEAST`.

    ``scores`` is overwritten.
    """
    largest = scores.max(axis=-1)
    logs = np.subtract(largest[..., None], scores, out=scores)
    gone = logs > -LEAST
    if gone.any():
        logs[gone] = np.inf
    weights = np.exp(-logs)
    if gone.any():
        logs[gone] = 0.0
    return largest, weights.sum(axis=-1), weights, logs


def _blocks(chains: Chains, t: int, s: int) -> list[tuple[int, int]]:
    """The rows of step t in blocks of which the tables (rows, S, S) stay in cache."""
    rows, size = chains.rows(t), max(1, BLOCK // (s * s))
    return [(low, min(low + size, rows.stop)) for low in range(rows.start, rows.stop, size)]
