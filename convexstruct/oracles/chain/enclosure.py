r"""Chains with bounds on the rounding: bounds on ln Z, and the marginals and entropy of a distribution near the Gibbs
distribution.

Score tables and the packed layout are those of `convexstruct.oracles.chain.chain`. The functions:

`backward`  the messages b from later positions, and ln Z = sum of ``parts``. The recursion of log-sum-exp is
            1-Lipschitz in the largest error of its input, so the errors of a chain's positions add up.
`log_losses` ln Z less the score of one labelling, position by position.
`markov`    the chain with p(s | s') proportional to w = e^(score of s after s'), as computed. For any w >= 0 this is a
            distribution, whose entropy

                H = H(first label) + sum over steps and s' of q(s') (ln sum w + sum p |ln w|),        w <= 1,

            has terms of one sign only, and whose marginals are sums of terms >= 0. So the relative errors of both are
            bounded however large the scores are, while ln Z - mean'scores loses all digits where the scores are large.
`near`      the marginals of `markov` alone. Any distribution gives a valid lower bound, so that the errors of the
            messages need no bound, and the messages no logarithms.

Each is computed in one of two ways. Term by term: S^2 exponentials a position, every sum shifted by its own largest
term, so that nothing overflows or cancels whatever the scores are. By matrix products, where edge scores range over
`WIDEST_RANGE` nats at most: with W = e^(edge - largest), e = e^(ahead - largest of the position) and z = W e, a
position costs S exponentials and S logarithms. No term of z is negative, so the sum adds a relative error of at most
S `UNIT`. Then w = W e, and

    H = sum over positions of (sum q(s') ln z(s') - sum q(s) ln e(s)) - sum over pairs of q(s', s) ln W(s', s),

whose terms cancel: the relative errors of q are multiplied by the distances of ln z, ln e and ln W from their means, up
to `WIDEST_RANGE` nats a position, and not by ln S. Where the error of the entropy may exceed `ROUNDING` times the
entropy, as where scores are so large that the entropy is nearly 0, `markov` computes term by term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Flags, Labels, Matrix, Tensor, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import BLOCK
from convexstruct.oracles.chain.chain import DROPPED_GAIN
from convexstruct.rounding import FUNCTION, TINY, UNIT, RoundedArray, gamma, summed
from convexstruct.tolerances import ROUNDING

#: The widest range of edge scores, in nats, at which messages are matrix products.
WIDEST_RANGE = 150.0
#: Weights whose logarithm is below this are set to 0: e^-700 is still a normal number.
LEAST_LOG = -700.0
#: Sums over rows add this many rows one after the other, then the sums of such blocks: the rounding grows with the
#: size of a block and with the number of blocks.
ROWS_ADDED = 64


class Products(NamedTuple):
    """What `backward` computed by matrix products, for `markov`.

    transition, log_transition (S, S) : W and ln W. weights, log_weights (P, S) : e and ln e of each label of the
    position. z, log_z (P, S) : z and ln z of each label of the position before; at the first position of a chain all
    columns of z hold the sum of e.
    """

    transition: Matrix
    log_transition: Matrix
    weights: Matrix
    log_weights: Matrix
    z: Matrix
    log_z: Matrix


@dataclass(frozen=True)
class Backward:
    """The result of `backward`.

    ahead (P, S) : node score plus message of each label, the message less its largest entry. parts (P,) : numbers whose
    sum over the positions of a chain is ln Z. errors (P,) : bounds on the errors of ``parts``, in nats, those of
    ``ahead`` included. products : None where the messages were computed term by term.
    """

    ahead: Matrix
    parts: Vector
    errors: Vector
    products: Products | None = None


@dataclass(frozen=True)
class Markov:
    """Marginals and entropy of a distribution over the labellings of each chain.

    node (P, S) : probabilities, packed. pairs : arrays (S, S) whose sum ``edge`` is the weighted sum over all pairs.
    possible (P, S) : False where the chain cannot have a label, whose probability is 0 exactly.
    relative, absolute : each entry x of node, pairs and edge has an error of at most relative x + absolute. entropy :
    the weighted sum over the chains, in nats. entropy_error : a bound on its error, inf where it was not computed.
    """

    node: Matrix
    pairs: list[Matrix]
    possible: Flags
    relative: float
    absolute: float
    entropy: float = math.nan
    entropy_error: float = math.inf

    @property
    def edge(self) -> Matrix:
        return np.asarray(np.sum(self.pairs, axis=0))

    def rounded(self, entries: Tensor) -> RoundedArray:
        """Entries of node, pairs or edge with their error."""
        return RoundedArray(entries, self.relative * entries + self.absolute)

    @cached_property
    def known(self) -> Flags:
        """Positions where only one label is possible; (P,)."""
        return np.asarray(self.possible.sum(axis=1) == 1)


def backward(chains: Chains, node: Matrix, edge: Matrix) -> Backward:
    """The messages from later positions, and ln Z as a sum over positions."""
    return (_backward_by_products if np.ptp(edge) <= WIDEST_RANGE else _backward_by_terms)(chains, node, edge)


def log_losses(chains: Chains, node: RoundedArray, edge: RoundedArray, labels: Labels) -> RoundedArray:
    """Numbers whose sum over the positions of a chain is ln Z less the score of ``labels`` (P,), packed; (P,).

    The errors of the scores move both by at most the largest error of each position and of each step.
    """
    found, later = backward(chains, node.value, edge.value), chains.later
    errors, steps = found.errors + 2.0 * node.errors.max(axis=1), np.zeros(chains.n_positions)
    errors[later] += 2.0 * edge.errors.max()
    steps[later] = edge.value[labels[chains.previous], labels[later]]
    return RoundedArray(found.parts, errors) - np.take_along_axis(node.value, labels[:, None], axis=1)[:, 0] - steps


def markov(chains: Chains, found: Backward, edge: Matrix, weights: Vector | None = None) -> Markov:
    """The Markov chains whose first label has a probability proportional to e^ahead, and each next label to e^(edge +
    ahead).

    weights (N,) : of each chain in the sums of pairs and entropies, in the caller's order, at least 0; 1 by default.
    """
    if found.products is not None:
        quick = _markov_by_products(chains, found.products, weights)
        if quick.entropy_error <= ROUNDING * quick.entropy:
            return quick
    return _markov_by_terms(chains, found.ahead, edge, weights)


def near(chains: Chains, node: Matrix, edge: Matrix, weights: Vector, certain: bool = False) -> Markov:
    """Markov chains close to the Gibbs distribution, without their entropy; any of them gives a valid lower bound.

    Messages are rescaled to sum to one, without logarithms, where this loses no label that counts: a label whose e_t
    falls below e^-708 / total would have added less than e^(`DROPPED_GAIN` - 708) to every z. Elsewhere they are
    computed term by term.

    weights (N,) : of each chain in the sum of pairs, in the caller's order. certain : whether to leave out of that sum
    the pairs of positions at both of which only one label is possible.
    """
    with np.errstate(all="ignore"):
        transition, e = np.exp(edge - edge.max()), np.exp(node - node.max(axis=1)[:, None])
        onto, ones = np.ascontiguousarray(transition.T), np.ones(len(edge))
        z, total = np.empty_like(e), np.empty(chains.n_positions)
        after = e[:0]
        for t in range(chains.n_steps - 1, -1, -1):
            deadline.check()
            rows = chains.rows(t)
            here = e[rows]
            here[: len(after)] *= after
            np.matmul(here, ones, out=total[rows])
            here *= (1.0 / total[rows])[:, None]
            after = np.matmul(here, onto, out=z[rows])
        z[chains.rows(0)] = e[chains.rows(0)].sum(axis=1)[:, None]
        if -np.log(np.minimum(total.min(), 1.0)) - np.log(np.minimum(z.min(), 1.0)) <= DROPPED_GAIN:
            return _forward(chains, transition, e, z, weights, certain)
        return _markov_by_terms(chains, _backward_by_terms(chains, node, edge).ahead, edge, weights, certain, False)


def _backward_by_products(chains: Chains, node: Matrix, edge: Matrix) -> Backward:
    """Where e or a term of z underflows, the loss is less than S e^(WIDEST_RANGE - 700) times z, which is negligible
    beside one `UNIT`."""
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
    # in multiples of UNIT: z and the exponentials in it, their arguments, the logarithm, and the sums of part, message
    own = s + 4.0 * FUNCTION + 4.0 - float(log_transition.min()) - log_weights.min(axis=1)
    own += 2.0 * FUNCTION * np.maximum(np.abs(best), np.abs(least)) + np.abs(largest) + np.abs(parts) + (best - least)
    own[chains.later] += np.abs(ahead[chains.previous]).max(axis=1)
    products = Products(transition, log_transition, weights, log_weights, z, log_z)
    return Backward(ahead, parts, UNIT * own * (1.0 + 1e-6), products)


def _forward(
    chains: Chains, transition: Matrix, e: Matrix, z: Matrix, weights: Vector | None = None, certain: bool = False
) -> Markov:
    """The Markov chain with weights W e for W and e as computed; each underflow adds an error of at most `TINY`."""
    s, start, later = len(transition), chains.rows(0), slice(chains.n_chains, chains.n_positions)
    node, share, possible, follows = np.empty_like(e), np.empty_like(e), e > 0, transition > 0
    np.divide(e[start], z[start], out=node[start])
    for t in range(1, chains.n_steps):
        deadline.check()
        rows = chains.rows(t)
        before = slice(int(chains.start[t - 1]), int(chains.start[t - 1] + chains.active[t]))
        np.divide(node[before], z[rows], out=share[rows])
        np.matmul(share[rows], transition, out=node[rows])
        node[rows] *= e[rows]
        if not follows.all():
            possible[rows] &= possible[before] @ follows
    if weights is not None:
        share[later] *= _counted(chains, weights, certain, possible[chains.previous], possible[later], later)[:, None]
    width = math.isqrt(chains.n_positions) + 1
    blocks = [slice(first, first + width) for first in range(later.start, later.stop, width)]
    pairs = [np.zeros_like(transition), *(share[rows].T @ e[rows] * transition for rows in blocks)]
    relative = gamma(s + 3 + (chains.n_steps - 1) * (2 * s + 4) + 2 * width + 4)
    return Markov(node, pairs, possible, relative, _lost(chains, s, weights))


def _markov_by_products(chains: Chains, found: Products, weights: Vector | None = None) -> Markov:
    s, start, later = len(found.transition), chains.rows(0), slice(chains.n_chains, chains.n_positions)
    gibbs = _forward(chains, found.transition, found.weights, found.z, weights)
    node, of_row = gibbs.node, _of_rows(chains, weights)
    # the values averaged: for each label ln z of the next position less ln e, for each pair ln W. The probabilities of
    # a position, and of a step, sum to 1 exactly, so their errors multiply the distances of these from their mean alone
    edge, mass = gibbs.edge, math.fsum(of_row[later].tolist())
    values = -found.log_weights
    values[chains.previous] += found.log_z[later]
    middle = np.einsum("ns,ns->n", node, values)
    values -= middle[:, None]
    level = float(np.vdot(edge, found.log_transition)) / (mass or 1.0)
    apart = edge * (level - found.log_transition)
    spread = float(of_row @ np.einsum("ns,ns->n", node, np.abs(values))) + float(np.abs(apart).sum())
    # in multiples of UNIT: z, its logarithm, those of e and W, and the sums with the means; no logarithm exceeds 2000
    widest = math.log(s) - float(found.log_transition.min())
    first = of_row[start] * found.log_z[start, 0]
    own = float(of_row.sum()) * (s + 2.0 * FUNCTION * (2.0 + widest) + 4.0)
    own += 3.0 * float(of_row @ np.abs(middle)) + 3.0 * mass * abs(level) + float(np.abs(first).sum())
    errors = (gibbs.relative + gamma(s + 6)) * spread + 1.01 * UNIT * own + 2000.0 * gibbs.absolute
    rows = of_row * (middle + np.einsum("ns,ns->n", node, values))
    sums = summed(np.concatenate((first, rows, [-mass * level], apart.ravel())), errors)
    return replace(gibbs, entropy=float(sums), entropy_error=sums.allowance)


def _of_rows(chains: Chains, weights: Vector | None) -> Vector:
    """The weight of each row's chain; (P,)."""
    return np.ones(chains.n_positions) if weights is None else np.asarray(weights[chains.chain])


def _lost(chains: Chains, s: int, weights: Vector | None) -> float:
    """A bound on the loss by underflow in a probability or a weighted sum of pairs."""
    most = 1.0 if weights is None else 1.0 + float(weights.max())
    return 8.0 * chains.n_positions * chains.n_steps * s * s * TINY * most


def _counted(chains: Chains, weights: Vector, certain: bool, before: Flags, here: Flags, rows: slice) -> Vector:
    """The weight of each pair of a position of ``rows`` (n,) and the one before: its chain's weight, or 0 where
    ``certain`` leaves it out. before, here (n, S) : which labels are possible at the two."""
    of_rows = np.asarray(weights[chains.chain[rows]])
    return np.where((before.sum(axis=1) == 1) & (here.sum(axis=1) == 1), 0.0, of_rows) if certain else of_rows


def _backward_by_terms(chains: Chains, node: Matrix, edge: Matrix) -> Backward:
    s = len(edge)
    ahead = node.T.copy()  # chains along the last axis: operations run over long rows
    parts, errors = np.empty(chains.n_positions), np.zeros(chains.n_positions)
    # the error, by exp, the sum and log, of the logarithm of a sum of S terms whose largest is 1
    own = (2.0 * FUNCTION * (1.0 + math.log(s)) + s + 4.0) * UNIT
    size = float(np.abs(edge).max())
    for t in range(chains.n_steps - 1, 0, -1):
        deadline.check()
        for here, before in _blocks(chains, t, s):
            largest, total, _, _ = _weights(edge[:, :, None] + ahead[:, here])
            message = largest + np.log(total)
            top = message.max(axis=0)
            parts[here] = top
            message -= top
            ahead[:, before] += message
            scores = size + np.abs(ahead[:, here]).max(axis=0)
            reach = 2.0 * np.abs(top) + 2.0 * np.abs(message).max(axis=0) + np.abs(ahead[:, before]).max(axis=0)
            errors[here] = own + UNIT * (4.0 * scores + reach)
    start = chains.rows(0)
    largest, total, _, _ = _weights(ahead[None, :, start].copy())
    parts[start] = largest[0] + np.log(total[0])
    errors[start] = own + UNIT * (4.0 * np.abs(ahead[:, start]).max(axis=0) + np.abs(parts[start]))
    return Backward(ahead.T, parts, errors * (1.0 + 1e-6))


def _markov_by_terms(
    chains: Chains,
    ahead: Matrix,
    edge: Matrix,
    weights: Vector | None = None,
    certain: bool = False,
    entropy: bool = True,
) -> Markov:
    s, ahead = len(edge), np.ascontiguousarray(ahead.T)
    node, possible = np.empty_like(ahead), np.empty(ahead.shape, dtype=bool)
    step, relative = gamma(2 * s + 4), gamma(s + 2)
    of_row = UNIT * 1.01 * (s + 2.0 * FUNCTION * (math.log(s) + 1.1) + (2.0 * s + 4.0) * math.log(s))
    start, share = chains.rows(0), _of_rows(chains, weights)
    _, total, each, logs = _weights(ahead[None, :, start].copy())
    node[:, start], possible[:, start] = each[0] / total, each[0] > 0
    entropies = [share[start] * (np.log(total[0]) + np.einsum("sn,sn->n", each[0], logs[0]) / total[0])]
    error = float(entropies[0].sum()) * gamma(s + 3) + float(share[start].sum()) * of_row
    pairs, longest = [np.zeros_like(edge)], 0
    for t in range(1, chains.n_steps):
        deadline.check()
        for here, before in _blocks(chains, t, s):
            _, total, each, logs = _weights(edge[:, :, None] + ahead[:, here])
            if entropy:
                of_label = np.log(total) + np.einsum("ijn,ijn->in", each, logs) / total
                entropies.append(share[here] * np.einsum("in,in->n", node[:, before], of_label))
                found = float(entropies[-1].sum())
                error += found * (relative + gamma(s + 3)) + float(share[here].sum()) * of_row * (1.0 + relative)
            possible[:, here] = (possible[:, None, before] & (each > 0)).any(axis=0)
            each *= (node[:, before] / total)[:, None, :]
            node[:, here] = each.sum(axis=0)
            if weights is not None:
                each *= _counted(chains, weights, certain, possible[:, before].T, possible[:, here].T, here)
            some = np.add.reduceat(each, np.arange(0, total.shape[1], ROWS_ADDED), axis=2)
            pairs.append(some.sum(axis=2))
            longest = max(longest, some.shape[2])
        relative += step
    sums, absolute = math.fsum(np.concatenate(entropies).tolist()), _lost(chains, s, weights)
    relative += gamma(ROWS_ADDED + longest + len(pairs) + 3)
    gibbs = Markov(np.ascontiguousarray(node.T), pairs, possible.T, relative, absolute)
    return replace(gibbs, entropy=sums, entropy_error=error + UNIT * sums + absolute) if entropy else gibbs


def _weights(scores: Tensor) -> tuple[Matrix, Matrix, Tensor, Tensor]:
    """(largest, sum of w, w, -ln w) along the middle axis, w = e^(scores - largest), 0 where below e^`LEAST_LOG`.

    ``scores`` is overwritten.
    """
    largest = scores.max(axis=1)
    logs = np.subtract(largest[:, None], scores, out=scores)
    gone = logs > -LEAST_LOG
    if gone.any():
        logs[gone] = np.inf
    weights = np.exp(-logs)
    if gone.any():
        logs[gone] = 0.0
    return largest, weights.sum(axis=1), weights, logs


def _blocks(chains: Chains, t: int, s: int) -> list[tuple[slice, slice]]:
    """The rows of step t, and those before them, in blocks whose tables (S, S, rows) fit into the cache."""
    rows, size, back = chains.rows(t), max(1, BLOCK // (s * s)), int(chains.start[t] - chains.start[t - 1])
    cuts = [(low, min(low + size, rows.stop)) for low in range(rows.start, rows.stop, size)]
    return [(slice(low, high), slice(low - back, high - back)) for low, high in cuts]
