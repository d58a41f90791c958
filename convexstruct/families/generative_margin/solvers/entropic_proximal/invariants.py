r"""What is known of the covariance of the counts without forming it: where it vanishes, and its diagonal.

**Invariants.** Some combinations of counts are the same for every labelling, whatever the data. In a hidden Markov
model each visit to a state b is entered once and emits once,

    initial_b + sum_a transition_ab - sum_m emission_bm = 0,
    sum_b transition_ab - sum_m emission_am = - [a is the last state],
    sum_b emission_bm = how often m was seen,

so adding u_b to the scores of everything that leads into b and subtracting it from all that b emits changes no score of
a labelling. Along such directions the covariance vanishes (for the second kind, but for the last state), and a diagonal
metric alone is wrong there by orders of magnitude.

**Local variance.** With p the posterior of using an entry at one step, sum over steps of p (1 - p) would be the
variance of its count if steps were independent. As the entries of one step exclude each other, it is close to that.

Both are ours, and only shape the metric of the steps: where they are wrong, more iterations are needed, but the result
is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.oracles.chain import chain


@dataclass(frozen=True)
class LocalVariance:
    """Variances, steps taken as independent: of each count (d,), of each block's sum (B,), of each invariant (k,)."""

    counts: Vector
    blocks: Vector
    invariants: Vector


@singledispatch
def invariants(features: Counts) -> sp.csr_array:
    """The invariants as columns (d, k): combinations of counts (nearly) equal for all labellings of an example."""
    return sp.csr_array((features.tables.dimension, 0))


@singledispatch
def local_variance(features: Counts, theta: Vector, loss_weight: float) -> LocalVariance | None:
    """sum_k w_k of the local variances under e^score; None if there is no formula for this feature map."""
    return None


@invariants.register
def _(features: HMMCounts) -> sp.csr_array:
    """Columns: for each channel and state, what enters less what is emitted; for each state, what leaves less what is
    emitted; for each channel and symbol, what is emitted."""
    s, m, channels = features.n_states, features.n_symbols, features.n_channels
    initial, transition, emission = np.arange(s), s + np.arange(s * s).reshape(s, s), s + s * s
    columns: list[tuple[Index, Index]] = []
    nothing = np.zeros(0, dtype=np.intp)
    for o in range(channels):
        table = emission + (o * s + np.arange(s)[:, None]) * m + np.arange(m)
        columns += [(np.append(transition[:, b], initial[b]), table[b]) for b in range(s)]
        columns += [(transition[a], table[a]) for a in range(s) if o == 0]
        columns += [(table[:, symbol], nothing) for symbol in range(m)]
    rows = np.concatenate([np.concatenate(pair) for pair in columns])
    signs = np.concatenate([np.repeat((1.0, -1.0), (len(plus), len(minus))) for plus, minus in columns])
    place = np.repeat(np.arange(len(columns)), [len(plus) + len(minus) for plus, minus in columns])
    return sp.csr_array(sp.coo_array((signs, (rows, place)), shape=(emission + channels * s * m, len(columns))))


@local_variance.register
def _(features: HMMCounts, theta: Vector, loss_weight: float) -> LocalVariance:
    chains, s, m, channels = features.chains, features.n_states, features.n_symbols, features.n_channels
    sums = chain.sum_product(chains, *features.scores(theta, loss_weight), features.weights, squares=True)
    assert sums.edge_squared is not None
    node = sums.node * (1.0 - sums.node) * features.weights[chains.chain][:, None]
    columns = (np.arange(channels) * m + features.channels).ravel()
    starts = np.arange(0, columns.size + 1, channels)
    seen = sp.csr_array((np.ones(columns.size), columns, starts), shape=(len(node), channels * m))
    emission = np.asarray(seen.T @ node).reshape(channels, m, s).transpose(0, 2, 1)
    transition = np.maximum(sums.edge - sums.edge_squared, 0.0)
    total, last = node.sum(axis=0), node[chains.last].sum(axis=0)
    first = node[: chains.n_chains].sum(axis=0)
    none, leaving = np.zeros(1), total - last
    more = np.zeros(s + m)
    return LocalVariance(
        np.concatenate((first, transition.ravel(), emission.ravel())),
        np.concatenate((none, leaving, np.tile(total, channels))),
        np.concatenate((np.zeros(s), last, np.zeros(m), np.tile(more, channels - 1))),
    )
