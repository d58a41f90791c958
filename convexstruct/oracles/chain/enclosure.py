r"""Chains with a bound on the rounding: ln Z from above and below, and a distribution that is one exactly.

Score tables and the packed layout are those of `convexstruct.oracles.chain.chain`. Two passes:

`backward`  the messages b of the labels to come, and ln Z = sum of ``parts``. The recursion of log-sum-exp is
            1-Lipschitz in the largest error of its input, so the errors of a chain's positions add up.
`markov`    the chain with p(s | s') proportional to w = e^(score of s after s'), as computed. It is a distribution
            whatever w >= 0 is: its marginals and its entropy,

                H = H(first label) + sum over steps and s' of q(s') (ln sum w + sum p |ln w|),        w <= 1,

            have terms of one sign only. So they are known to a relative error, however large the scores are, while
            ln Z - mean'scores loses all digits where the scores are large.

There are two ways to do each. Term by term: S^2 exponentials a position, every sum shifted by its own largest term, so
that nothing overflows or cancels whatever the scores are. By matrix products, where edge scores range over `RANGE` nats
at most: with W = e^(edge - largest), e = e^(ahead - largest of the position) and z = W e, a position costs S
exponentials and S logarithms. No term of z is negative, so z is right to S units, relative. Then w = W e, and

    H = sum over positions of (sum q(s') ln z(s') - sum q(s) ln e(s)) - sum over pairs of q(s', s) ln W(s', s),

where the terms cancel: relative errors of q multiply how far ln z, ln e and ln W are from their means, up to `RANGE`
nats a position, in place of ln S. Where that is above `NARROW`, `markov` goes term by term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.sums import BLOCK
from convexstruct.rounding import FUNCTION, TINY, UNIT, gamma, summed

#: The widest range of edge scores, in nats, at which messages are matrix products.
RANGE = 150.0
#: Logarithms of weights below this are those of weight 0: e^-700 is still a normal number.
LEAST = -700.0
#: How far the entropy may be off, relative to itself, where matrix products serve.
NARROW = 1e-12
#: Rows that are added one after the other, before their sums are.
TOGETHER = 64


class Products(NamedTuple):
    """What matrix products leave for `markov`.

    transition, log_transition (S, S) : W and ln W. weights, log_weights (P, S) : e and ln e of the label here.
    z, log_z (P, S) : of the label before; at the first position of a chain the sum of e, whatever the label.
    """

    transition: Tensor
    log_transition: Tensor
    weights: Tensor
    log_weights: Tensor
    z: Tensor
    log_z: Tensor


@dataclass(frozen=True)
class Backward:
    """What `backward` finds.

    ahead (P, S) : node score and message of each label, the latter less its largest. parts (P,) : their sum over the
    positions of a chain is ln Z. errors (P,) : how far each may be off, in nats, the errors of ``ahead`` included.
    products : None where it went term by term.
    """

    ahead: Tensor
    parts: Tensor
    errors: Tensor
    products: Products | None = None


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
    return (_backward_by_products if np.ptp(edge) <= RANGE else _backward_by_terms)(chains, node, edge)


def markov(chains: Chains, found: Backward, edge: Tensor) -> Markov:
    """The chains that start and go on with probabilities proportional to e^ahead and e^(edge + ahead)."""
    if found.products is not None:
        quick = _markov_by_products(chains, found.products)
        if quick.entropy_error <= NARROW * quick.entropy:
            return quick
    return _markov_by_terms(chains, found.ahead, edge)


def _backward_by_products(chains: Chains, node: Tensor, edge: Tensor) -> Backward:
    """Where e or a term of z underflows, what is lost is less than S e^(RANGE - 700) of z: nothing beside a unit."""
    s, top = len(edge), float(edge.max())
    log_transition = edge - top
    transition = np.exp(log_transition)
    onto = np.ascontiguousarray(transition.T)
    ahead = node.copy()
    weights, log_weights, z, log_z = (np.empty_like(ahead) for _ in range(4))
    largest, best = np.empty(chains.n_positions), np.empty(chains.n_positions)
    for t in range(chains.n_steps - 1, -1, -1):
        deadline.check()
        rows = chains.rows(t)
        largest[rows] = ahead[rows].max(axis=1)
        np.subtract(ahead[rows], largest[rows, None], out=log_weights[rows])
        np.exp(log_weights[rows], out=weights[rows])
        if t:
            np.matmul(weights[rows], onto, out=z[rows])
        else:
            z[rows] = weights[rows].sum(axis=1, keepdims=True)
        message = np.log(z[rows], out=log_z[rows])
        best[rows] = message.max(axis=1)
        if t:
            before = int(chains.start[t - 1])
            ahead[before : before + len(message)] += message - best[rows, None]
    largest[chains.later] += top
    parts, least = largest + best, log_z.min(axis=1)
    # in units: z and the exponentials in it, their arguments, the logarithm, and the sums that part and message are
    own = s + 4.0 * FUNCTION + 4.0 - float(log_transition.min()) - log_weights.min(axis=1)
    own += 2.0 * FUNCTION * np.maximum(np.abs(best), np.abs(least)) + np.abs(largest) + np.abs(parts) + (best - least)
    own[chains.later] += np.abs(ahead[chains.previous]).max(axis=1)
    products = Products(transition, log_transition, weights, log_weights, z, log_z)
    return Backward(ahead, parts, UNIT * own * (1.0 + 1e-6), products)


def _markov_by_products(chains: Chains, found: Products) -> Markov:
    """The chain whose weights are W e, whatever rounding did to W and e; what underflows costs `TINY` each time."""
    s, start = len(found.transition), chains.rows(0)
    node, share = np.empty_like(found.weights), np.empty_like(found.weights)
    node[start] = found.weights[start] / found.z[start]
    for t in range(1, chains.n_steps):
        deadline.check()
        rows, before = chains.rows(t), int(chains.start[t - 1])
        np.divide(node[before : before + int(chains.active[t])], found.z[rows], out=share[rows])
        np.matmul(share[rows], found.transition, out=node[rows])
        node[rows] *= found.weights[rows]
    width = math.isqrt(chains.n_positions) + 1
    pairs = np.zeros_like(found.transition)
    for first in range(chains.n_chains, chains.n_positions, width):
        pairs += share[first : first + width].T @ found.weights[first : first + width]
    pairs *= found.transition
    relative = gamma(s + 2 + (chains.n_steps - 1) * (2 * s + 4) + 2 * width + 4)
    absolute = 8.0 * chains.n_positions * chains.n_steps * s * s * TINY
    # of each label ln z of what follows less ln e, of each pair ln W. The probabilities of a position, and of a step,
    # sum to 1 exactly, so their errors only multiply how far these are from their mean
    values = -found.log_weights
    values[chains.previous] += found.log_z[chains.n_chains :]
    middle = np.einsum("ns,ns->n", node, values)
    values -= middle[:, None]
    n_pairs = len(chains.later)
    level = float(np.vdot(pairs, found.log_transition)) / max(n_pairs, 1)
    apart = pairs * (level - found.log_transition)
    spread = float(np.einsum("ns,ns->n", node, np.abs(values)).sum()) + float(np.abs(apart).sum())
    # in units: z, its logarithm, those of e and W, and the sums with the means; no logarithm that counts is above 2000
    widest = math.log(s) - float(found.log_transition.min())
    own = chains.n_positions * (s + 2.0 * FUNCTION * (2.0 + widest) + 4.0)
    own += 2.0 * float(np.abs(middle).sum()) + 2.0 * n_pairs * abs(level)
    errors = (relative + gamma(s + 6)) * spread + 1.01 * UNIT * own + 2000.0 * absolute
    rows = middle + np.einsum("ns,ns->n", node, values)
    entropy = summed(np.concatenate((found.log_z[start, 0], rows, [-n_pairs * level], apart.ravel())), errors)
    return Markov(node, pairs, relative, absolute, float(entropy), entropy.allowance)


def _backward_by_terms(chains: Chains, node: Tensor, edge: Tensor) -> Backward:
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


def _markov_by_terms(chains: Chains, ahead: Tensor, edge: Tensor) -> Markov:
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
    absolute = 4.0 * chains.n_positions * chains.n_steps * s * s * TINY
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
