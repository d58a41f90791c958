r"""`ChainSums`, the results of sums over the labellings of chains, and what all methods that compute them have in
common.

**Posteriors** are those of a Markov chain q: its conditional probabilities are w / sum w for weights w >= 0 as they
were computed. So q is a distribution whatever the rounding of the weights, and its marginals are sums and products of
numbers >= 0, right up to a relative error of 2 S + 10 roundings a position, and to what underflows.

**ln Z** is a sum over positions (``parts``, p_t). Log-sum-exp is 1-Lipschitz in the largest error of its input, so the
errors of a chain's positions add up. Each costs sums of products of 2 S numbers >= 0, two exponentials, a logarithm,
and differences of scores. With n_t = max |node_t|, e = max |edge|, and m_t the largest message where scores were added
to messages,

    e_t = UNIT [2 S + 6 FUNCTION + 16 + 2 FUNCTION (ln S + l_t) + 8 (n_t + 2 e) + 4 m_t].

The logarithm is that of a sum between e^-l_t and S e^l_t. Where scores are added to messages l_t is 0, since their
largest is subtracted first. Else the sum is one of e^(node - its largest) times averages of e^(edge - its largest), so
that l_t is 2 e; or, where pairs are forbidden, at most |p_t| + n_t + e.

The scores of nodes and edges are rounded where the largest is subtracted (2 n_t and 2 e), where p_t is put together
from them (twice n_t + e + l_t), and where they are added to a logarithm or a message, at most three times.

Up to 8 sweeps of `convexstruct.oracles.chain.chain._evened` add 16 roundings of edge scores, and take these to the
scores of nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.graphs import Chains
from convexstruct.rounding import FUNCTION, TINY, UNIT, RoundedArray, gamma

#: Rescaled messages drop a label whose entry is below e^-708. The result counts as exact if a dropped label can gain at
#: most so many nats later (`convexstruct.oracles.chain.chain.rescaled`). Edge scores that range over more than half of
#: it are evened.
DROPPED_GAIN = 660.0
#: Labels that are left out have at most this, times S^2, of the probability of a position.
LOST = math.exp(DROPPED_GAIN - 708.0)


@dataclass(frozen=True)
class ChainSums:
    """The results of the sums over all labellings.

    parts (P,): numbers whose sum over the positions of a chain is ln sum over labellings of e^score, packed.
    log_partition (N,): that sum, in the caller's order of chains.
    node (P, S): posterior of each label at each packed position.
    edge (S, S): expected number of each pair (previous label, label), summed over steps and chains with their weights;
        (T - 1, S, S), summed over chains alone, where every step had an edge table of its own.
    relative, absolute: each entry x of ``node`` is off by at most relative x + absolute from the marginal of q above,
        and each of ``edge`` by at most relative x + absolute times the largest weight.
    edge_squared (S, S): the squares of the pairs' posteriors, summed alike; None unless asked for.
    reach (P,): m_t above; None where scores were not added to messages.
    """

    parts: Vector
    log_partition: Vector
    node: Matrix
    edge: Matrix
    relative: float
    absolute: float
    edge_squared: Matrix | None = None
    reach: Vector | None = None

    def rounded(self, node: RoundedArray, edge: RoundedArray) -> RoundedArray:
        """``parts`` with their errors e_t, and the largest error of a score of the position and of an edge. node, edge:
        the scores that were summed over; (P,)."""
        s, of_edges, of_nodes = edge.value.shape[-1], float(_size(edge.value, None)), _size(node.value, 1)
        error = 2.0 * s + 6.0 * FUNCTION + 16.0 + 2.0 * FUNCTION * math.log(s) + 8.0 * (of_nodes + 2.0 * of_edges)
        error += 240.0 * of_edges if 2.0 * of_edges > DROPPED_GAIN / 2 else 0.0
        if self.reach is not None:
            error += 4.0 * self.reach
        elif np.isfinite(edge.value).all():
            error += 2.0 * FUNCTION * 2.0 * of_edges
        else:
            error += 2.0 * FUNCTION * (np.abs(self.parts) + of_nodes + of_edges)
        error = np.abs(self.parts) if s == 1 else error  # one sum, as all logarithms are those of 1
        return RoundedArray(self.parts, 1.01 * UNIT * error + node.errors.max(axis=1) + edge.errors.max())

    def log_losses(self, chains: Chains, node: RoundedArray, edge: RoundedArray, labels: Labels) -> RoundedArray:
        """Numbers whose sum over the positions of a chain is ln Z less the score of ``labels`` (P,), packed; (P,)."""
        apart, later = self.rounded(node, edge) - node[np.arange(len(labels)), labels], chains.later
        pair = labels[chains.previous], labels[later]
        used = edge[pair] if edge.value.ndim == 2 else edge[chains.step[later] - 1, *pair]
        steps = RoundedArray(np.zeros(len(labels)), np.zeros(len(labels)))
        steps.value[later], steps.error[later] = used.value, used.errors
        return apart - steps


def _size(scores: Matrix, axis: int | None) -> Vector:
    """The largest |score| that is finite."""
    return np.asarray(np.abs(scores).max(axis=axis, initial=0.0, where=np.isfinite(scores)))


def less_divergence(losses: RoundedArray, lengths: Index, s: int) -> RoundedArray:
    """H(q_i) + E_q score_i of each chain, or other graph, from ``losses``, which are ln Z_i, both less the same score.
    lengths (N,) : the number of nodes, of s labels each. (N,)

    With p the Gibbs distribution, H(q) + E_q score = ln Z - KL(q, p). Each of n conditionals has |ln q/p| <= 2 e, e the
    error of ln Z, and x - 1 - ln x <= (ln x)^2 for |ln x| <= 1 at x = p/q, whose mean is at most 1. What q leaves out
    has a probability of at most s^2 `LOST` a label. So 0 <= KL(q, p) <= n min(2 e, 4 e^2) + n s^3 `LOST`.
    """
    apart = np.minimum(2.0 * losses.errors, 4.0 * losses.errors**2) + s**3 * LOST
    return losses if s == 1 else losses + RoundedArray(0.0, lengths * apart)


def chain_sums(
    chains: Chains,
    parts: Vector,
    node: Matrix,
    edge: Matrix,
    squared: Matrix | None = None,
    *,
    added: int | None = None,
    lost: float = TINY,
    reach: Vector | None = None,
) -> ChainSums:
    """added : the most numbers that were added up one after the other for an entry of ``edge``; None: by `pairs_of`.
    lost : the most that underflows in one operation."""
    s, t, n = edge.shape[-1], chains.n_steps, chains.n_positions
    added = width_of(n, s) + n // width_of(n, s) + 1 if added is None else added
    logs = np.bincount(chains.chain, weights=parts, minlength=chains.n_chains).astype(np.float64)
    relative = gamma(s + 12 + (t - 1) * (2 * s + 10) + added)
    return ChainSums(parts, logs, node, edge, relative, 8.0 * n * t * s * s * lost, squared, reach)


def weights_of_pairs(chains: Chains, rows: slice, weights: Vector | None, possible: Index | None) -> Vector | None:
    """The weights of some packed rows and of those before them: of their chains, ``weights`` (N,), 1 by default; None:
    1 each. possible (P,): how many labels each position can have; 0 where both rows can have one alone."""
    own = None if weights is None else weights[chains.chain[rows]]
    if possible is None:
        return own
    before = chains.previous[rows.start - chains.n_chains :][: rows.stop - rows.start]
    return np.where(np.maximum(possible[before], possible[rows]) > 1, 1.0 if own is None else own, 0.0)


def pairs_of(share: Matrix, message: Matrix) -> Matrix:
    """sum over rows of share_r message_r', in blocks, so that rounding grows with the root of the number of rows."""
    n, s = share.shape
    width = width_of(n, s)
    whole = n - n % width
    first, second = (x[:whole].reshape(-1, width, s) for x in (share, message))
    return np.asarray((first.transpose(0, 2, 1) @ second).sum(axis=0) + share[whole:].T @ message[whole:])


def width_of(n: int, s: int) -> int:
    """Rows of a block of `pairs_of`: so many that the sums of all blocks are smaller than the rows."""
    return max(math.isqrt(n) + 1, 4 * s)
