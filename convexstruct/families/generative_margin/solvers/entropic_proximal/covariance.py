"""The covariance of the counts under the Gibbs distributions: the Hessian of sum_k w_k ln Z_k.

Where the weights are those of an h of the slacks, they change with theta, and the Hessian has one more term,
sum_k a_k g_k g_k' with g_k = E counts_k - counts_k(s*), which the same recursion gives.

It is computed by a backward recursion on chains that show one symbol a step. It serves only as the metric of Newton's
method, so its rounding errors may cost iterations but do not change the result.

**The recursion.** Let f_t be the counts that step t adds (its transition and its symbol) and U_t(s) the expected counts
of all later steps, given label s at step t. Backwards

    U_{t-1}(s') = sum_s P(s | s') [f_t(s', s) + U_t(s)],

and the second moment of the counts is sum_t E[f_t f_t' + f_t U_t' + U_t f_t']. At low temperature few labels are likely
at most positions, so a step keeps only the labels of each chain whose posterior is above `NEGLIGIBLE`: with k of S
labels kept, it costs k^2 / S^2 of a step with all of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Matrix, Tensor, Vector
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.part import part
from convexstruct.graphs import Chains
from convexstruct.oracles.chain import chain

#: Posterior probability below which a label is left out of a position: about a unit in the last place of single
#: precision, in which the recursion is computed.
NEGLIGIBLE = 1e-7
#: Probabilities below this count as 0 in the recursion, and expected counts below it as this much. Their products are
#: then above 1e-38, where single precision has no numbers of full length left and processors compute far more slowly.
LEAST_COUNT = 1e-18
#: Numbers in the U_t of one block of chains (20 MB in single precision). Every block adds to its own sums over pairs of
#: counts at every step, so few large blocks are faster.
LARGEST_BLOCK = 5_000_000
#: Times in units of one multiplication of the recursion, measured with 10 and with 30 states: of one label at one
#: position in a forward-backward pass; of one pair of labels in the recursion, beside its d multiplications; of a step
#: of the recursion.
PASS_LABEL_WORK, PAIR_WORK, STEP_WORK = 400.0, 700.0, 4e6


#: Two sums over examples, each (d, d), or () where it is 0.
Matrices = tuple[Matrix, Matrix]


class CountCovariance:
    """``scale`` sum_k w_k Cov counts_k for the counts of chains, and ``scale`` sum_k a_k g_k g_k'.

    Call it with (theta, loss_weight), and weights b (K,) that multiply w, and a (K,), where there are any.
    """

    def __init__(self, features: HMMCounts, scale: float = 1.0) -> None:
        self.features, self.scale = features, scale

    def __call__(self, theta: Vector, loss_weight: float, b: Vector | None = None, a: Vector | None = None) -> Matrices:
        found, at = (np.zeros(()), np.zeros(())), 0
        for block in self._blocks:
            some = slice(at, at := at + len(block.weights))
            of = block if b is None else replace(block, weights=block.weights * np.maximum(b[some], LEAST_COUNT))
            of_block = _of_chains(of, theta, loss_weight, None if a is None else a[some])
            found = found[0] + self.scale * of_block[0], found[1] + self.scale * of_block[1]
        return found

    def cost(self, theta: Vector, loss_weight: float) -> float:
        """The time of one call at this point, in evaluations of ln Z and its gradient."""
        features, d = self.features, self.features.tables.dimension
        chains, s = features.chains, features.n_states
        seen = (chain.sum_product(chains, *features.scores(theta, loss_weight)).node > NEGLIGIBLE).sum(axis=1)
        most = np.maximum.reduceat(seen, chains.start[:-1])
        pairs = float(chains.active[1:] @ (most[:-1] * most[1:]))
        products = d * float(seen.sum()) * (s + features.n_symbols) + d**3 / 3.0  # the latter to factor the metric
        work = (d + PAIR_WORK) * pairs + products + STEP_WORK * chains.n_steps
        return work / (PASS_LABEL_WORK * chains.n_positions * s)

    @cached_property
    def _blocks(self) -> list[HMMCounts]:
        """The examples in runs, each with at most `LARGEST_BLOCK` numbers in its U_t."""
        features = self.features
        size = max(1, LARGEST_BLOCK // (features.n_states * features.tables.dimension))
        if size >= len(features.weights):
            return [features]
        cuts = range(0, len(features.weights), size)
        return [part(features, low, min(low + size, len(features.weights))) for low in cuts]  # type: ignore[misc]


def _of_chains(features: HMMCounts, theta: Vector, loss_weight: float, a: Vector | None) -> Matrices:
    """Both sums by the recursion above, in single precision except for the expected counts and the second moments
    within a step.

    Steps are taken from the last to the first. Of step t: kept (n, k) the labels kept of each chain, here (n, k) their
    posteriors, future (n, k) ln of the sum of e^score over what may follow each, later (n, k, d) their U_t.
    """
    chains, s, m, d = features.chains, features.n_states, features.n_symbols, features.tables.dimension
    node, edge = features.scores(theta, loss_weight)
    posterior = chain.sum_product(chains, node, edge).node
    largest = float(features.weights.max())
    weights = features.weights[chains.order] / largest  # so that `LEAST_COUNT` is a share of the largest example
    diagonal = features.expected(theta, loss_weight).counts / largest
    products = _LabelProducts(s, m, d)
    kept = _kept(chains, posterior, chains.n_steps - 1)
    future, later = np.zeros((0, kept.shape[1])), np.zeros((0, kept.shape[1], d), dtype=np.float32)
    for t in range(chains.n_steps - 1, -1, -1):
        deadline.check()
        rows = chains.rows(t)
        (n, k), each = (rows.stop - rows.start, kept.shape[1]), np.arange(rows.stop - rows.start)[:, None]
        if len(later) < n:  # for chains that end here nothing follows
            future = np.concatenate((future, np.zeros((n - len(future), k))))
            later = np.concatenate((later, np.zeros((n - len(later), k, d), dtype=np.float32)))
        here = np.take_along_axis(posterior[rows], kept, axis=1)
        share = weights[:n, None] * np.where(here > NEGLIGIBLE, here, 0.0)
        symbols = features.channels[rows]
        emission = s + s * s + kept * m + symbols
        later[each, np.arange(k), emission] += 1.0  # from here on the symbol of step t is counted too
        # the symbol's product with itself is in `products` as well, and counted twice when the transpose is added
        np.add.at(diagonal, emission, -2.0 * share)
        if t == 0:
            products.add(kept, share, symbols, None, None, later)
            mean = np.einsum("nk,nkd->nd", here, later)
            mean[each, kept] += here
            break
        past, before = _kept(chains, posterior, t - 1), chains.start[t - 1] + np.arange(n)
        some = past[:n]
        future += np.take_along_axis(node[rows], kept, axis=1)
        step = edge[some[:, :, None], kept[:, None, :]] + future[:, None, :]
        top = step.max(axis=2)
        step -= np.where(np.isfinite(top), top, 0.0)[:, :, None]  # -inf: no label may follow
        np.exp(step, out=step)
        total = step.sum(axis=2)
        future = top + np.log(np.maximum(total, 1e-300))
        step /= np.maximum(total, 1e-300)[:, :, None]
        step[step < LEAST_COUNT] = 0.0
        pairs = (weights[:n, None] * np.take_along_axis(posterior[before], some, axis=1))[:, :, None] * step
        pairs[pairs < LEAST_COUNT] = 0.0
        products.add(kept, share, symbols, some, pairs, later)
        single = step.astype(np.float32)
        later = np.matmul(single, later)
        np.maximum(later, LEAST_COUNT, out=later)
        row = np.arange(some.size).reshape(n, -1, 1)
        later.reshape(-1)[row * d + s + s * some[:, :, None] + kept[:, None, :]] += single
        kept = past
    second = products.matrix()
    second += second.T
    second[np.arange(d), np.arange(d)] += diagonal
    covariance = np.asarray(largest * (second - mean.T @ (weights[:, None] * mean)))
    if a is None:
        return covariance, np.zeros(())
    g = mean - features.counts_each(features.examples.truth).toarray()[chains.order]
    return covariance, np.asarray(g.T @ (a[chains.order][:, None] * g))


def _kept(chains: Chains, posterior: Matrix, t: int) -> Index:
    """The likeliest labels of each chain at step t (n, k), with k as many as are above `NEGLIGIBLE` in any of them."""
    here = posterior[chains.rows(t)]
    s, k = here.shape[1], max(1, int((here > NEGLIGIBLE).sum(axis=1).max()))
    return np.argpartition(here, s - k, axis=1)[:, s - k :] if k < s else np.tile(np.arange(s), (len(here), 1))


class _LabelProducts:
    """sum of w f_t U_t' over steps and chains, f_t being what a step counts on the way to its label, w its probability.

    Kept label by label (S, S + M + 1, d): the rows are the transitions from each label, the symbols, and being first.
    """

    def __init__(self, s: int, m: int, d: int) -> None:
        self.s, self.m = s, m
        self.sums = np.zeros((s, s + m + 1, d), dtype=np.float32)

    def add(
        self,
        kept: Index,
        share: Matrix,
        symbols: Labels,
        past: Index | None,
        pairs: Tensor | None,
        later: NDArray[np.float32],
    ) -> None:
        """One step. past (n, k') : the labels kept before it, pairs (n, k', k) : probabilities; None at the first."""
        n, k = kept.shape
        row = np.arange(n * k).reshape(n, k)
        width = self.sums.shape[1]
        counted = np.zeros((n * k, width), dtype=np.float32)
        counted[row, self.s + symbols] = share
        if past is None or pairs is None:
            counted[:, -1] = share.ravel()
        else:
            counted.reshape(-1)[row[:, None, :] * width + past[:, :, None]] = pairs
        used = np.flatnonzero(share > 0)
        labels = kept.ravel()[used]
        used = used[np.argsort(labels, kind="stable")]
        counted, later = counted[used], later.reshape(n * k, -1)[used]
        cuts = np.searchsorted(np.sort(labels), np.arange(self.s + 1))
        for label, (low, high) in enumerate(pairwise(cuts.tolist())):
            if low < high:
                self.sums[label] += counted[low:high].T @ later[low:high]

    def matrix(self) -> Matrix:
        """The sums as a matrix (d, d), rows and columns in the order of theta; double precision."""
        s, m, d = self.s, self.m, self.sums.shape[2]
        transition = self.sums[:, :s].transpose(1, 0, 2).reshape(s * s, d)
        parts = self.sums[:, -1], transition, self.sums[:, s : s + m].reshape(s * m, d)
        return np.concatenate(parts).astype(np.float64)
