r"""Log partition functions and entropies with proved errors, on the graphs of `PairwiseFeatures`.

**ln Z** (`log_partitions`). Messages are log-sum-exps, 1-Lipschitz in the maximum norm of their arguments, so that the
errors of a graph's messages add up. `ChainSums` has those of a chain's positions. On other graphs a message over K
terms adds an error of its own of (2 FUNCTION (1 + ln K) + K + 4) units, and a few units of the scores in it, which are
at most M_i = sum of the largest |score| of each node and edge + (nodes) ln S. For m messages, where no score passes
through more than k successive sums, the total error is at most

    m (2 FUNCTION (1 + ln K) + K + 4) UNIT + (8 + k) UNIT m M_i.

**Entropy** (`add_gibbs`). The posteriors of an oracle are those of a distribution q whose conditional probabilities are
those of the Gibbs distribution p at these scores but for the rounding of the messages. With <scores> = E_q score,

    H(q) = ln Z - <scores> - KL(q, p),

whose last term is of the order of the squared rounding (`less_divergence`). Less the truth's scores, both ln Z and
<scores> are of the size of the loss.
"""

from __future__ import annotations

import math

import numpy as np

from convexstruct.arrays import Flags, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.differences import Marginals
from convexstruct.inference.exact import ChainInference, ForestInference, Inference, Sums, TreeInference
from convexstruct.oracles.chain.sums import less_divergence
from convexstruct.rounding import FUNCTION, TINY, UNIT, Rounded, RoundedArray, binned, exact, summed


def largest(features: PairwiseFeatures, node: Matrix, edge: Tensor) -> Vector:
    """M_i of each example; (N,)."""
    of_nodes = np.abs(node).max(axis=1, initial=0.0, where=np.isfinite(node))
    of_edges = np.abs(edge).max(axis=(-2, -1), initial=0.0, where=np.isfinite(edge))
    found = np.bincount(features.example, of_nodes, features.n_examples)
    found += np.bincount(features.edge_example, np.broadcast_to(of_edges, (features.n_edges,)), features.n_examples)
    return np.asarray(found + features.lengths * math.log(features.n_labels))


def log_losses(
    oracle: Inference, features: PairwiseFeatures, node: Matrix, edge: Tensor, sums: Sums | None = None
) -> RoundedArray:
    """ln Z_i minus the truth's score of each example, for these scores as exact numbers; (N,). sums : of ``oracle`` at
    these scores."""
    truth, sums = features.truth, oracle.sums(node, edge) if sums is None else sums
    if sums.chains is None:
        sizes = largest(features, node, edge)
        error = 1.01 * UNIT * (4.0 + 2.0 * features.lengths) * sizes  # the truth's score, and the difference
        return log_partitions(oracle, features, node, edge, sums) - RoundedArray(
            features.score(node, edge, truth), error
        )
    assert isinstance(oracle, ChainInference)
    laid = oracle.layout
    apart = sums.chains.log_losses(laid, exact(node[laid.packed]), exact(edge), truth[laid.packed])
    found: RoundedArray = binned(apart, laid.chain, laid.n_chains)
    return found


def log_partitions(
    oracle: Inference, features: PairwiseFeatures, node: Matrix, edge: Tensor, sums: Sums | None = None
) -> RoundedArray:
    """ln Z_i of each example, (N,); scores may be -inf. sums : of ``oracle`` at these scores."""
    sums = oracle.sums(node, edge) if sums is None else sums
    if sums.chains is not None:
        assert isinstance(oracle, ChainInference)
        parts = sums.chains.rounded(exact(node[oracle.layout.packed]), exact(edge))
        found: RoundedArray = binned(parts, oracle.layout.chain, features.n_examples)
        return found
    size = largest(features, node, edge)
    if isinstance(oracle, ForestInference):
        messages = features.lengths.astype(np.float64)
        terms, deep = features.n_labels, len(oracle.layout.levels) + 1
        most = max(
            (int(np.diff(np.append(part.start, len(part.child))).max()) for part in oracle.layout.levels), default=0
        )
        added = float(most + deep)
    else:
        assert isinstance(oracle, TreeInference)
        terms = max(max(math.prod(shape) for shape in batch.tree.shapes) for batch in oracle.batches)
        messages = np.zeros(features.n_examples)
        for batch in oracle.batches:
            messages[batch.examples] = batch.tree.n_cliques
        added = 2.0 * float(
            (features.lengths + np.bincount(features.edge_example, minlength=features.n_examples)).max()
        )
    own = (2.0 * FUNCTION * (1.0 + math.log(terms)) + terms + 4.0) * messages + (8.0 + added) * messages * size
    return RoundedArray(sums.log_partition, 1.01 * UNIT * own + TINY)


def add_gibbs(
    mixed: Marginals, oracle: Inference, node: Matrix, edge: Tensor, share: Vector, forbidden: Flags | None
) -> Rounded:
    """Add the Gibbs distributions at these scores, weighted by ``share`` (N,), to ``mixed``; their weighted entropy,
    -inf where sums of such scores may overflow. forbidden : as in `Marginals.add_gibbs`."""
    features = mixed.features
    part = Marginals.none(features)
    sums = part.add_gibbs(oracle, node, edge, share, forbidden)
    mixed.add(part)
    if sums is None:
        return Rounded(-math.inf)
    losses = less_divergence(log_losses(oracle, features, node, edge, sums), features.lengths, features.n_labels)
    found: Rounded = summed(exact(share) * losses) + part.gain(node, edge)
    return found
