r"""Log partition functions and entropies with proved errors, on the graphs of `PairwiseFeatures`.

**ln Z** (`log_losses`). Chains: `convexstruct.oracles.chain.enclosure`, position by position. Other graphs: messages
are log-sum-exps, which are 1-Lipschitz in the maximum norm of their arguments, so that the errors of a graph's messages
add up. A message over K terms adds an error of its own of (2 FUNCTION (1 + ln K) + K + 4) units, and a few units of the
scores in it, which are at most M_i = sum of the largest |score| of each node and edge + (nodes) ln S. For m messages,
where no score passes through more than k successive sums, the total error is at most

    m (2 FUNCTION (1 + ln K) + K + 4) UNIT + (8 + k) UNIT m M_i.

**Entropy** (`add_gibbs`). The oracles return the marginals of some distribution up to a relative error r, since each
conditional is scaled to sum to one, whatever the rounding of the messages. On a tree of nodes or cliques

    H = sum over parts of sum_s q(s) sum_t p(t | s) (-ln p(t | s)),      s the separator, t what the part adds,

has terms of one sign only. p = q(s, t) / q(s) has a relative error of 2 r, -ln p an absolute one of 2 r, and the q of a
part sum to 1:

    |H computed - H| <= (r + units) H + (parts) (2 r + units).

**Forbidden pairs** have a score of -inf. The chain enclosure needs finite scores, so a forbidden pair gets the score -M
there, with M so large that its weight underflows (`LEAST_LOG`). An upper bound on ln Z remains an upper bound. A
distribution is used only if it gives such pairs the probability exactly 0; M is raised until it does.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import entr

from convexstruct.arrays import Flags, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.differences import Marginals
from convexstruct.inference.exact import ChainInference, ForestInference, Inference, TreeInference
from convexstruct.oracles.chain import enclosure
from convexstruct.oracles.chain.enclosure import LEAST_LOG, Markov, backward, markov
from convexstruct.oracles.tree import forest as levels
from convexstruct.rounding import FUNCTION, TINY, UNIT, Rounded, RoundedArray, binned, exact, gamma, summed

#: M of a forbidden pair is ``FORBIDDEN_NATS`` plus ``SCORE_MULTIPLE`` times the largest |score|; ``RAISES`` values are
#: tried, each ``RAISE_FACTOR`` times the one before, where labels that are dead ends still get a probability.
FORBIDDEN_NATS, SCORE_MULTIPLE, RAISE_FACTOR, RAISES = -2.0 * LEAST_LOG, 8.0, 100.0, 3


def allowed_only(edge: Tensor, forbidden: Flags | None, size: float, times: float = 1.0) -> Tensor:
    """Edge scores in which a forbidden pair scores -M; ``size`` : the largest |score|."""
    if forbidden is None:
        return edge
    return np.where(forbidden, -times * (FORBIDDEN_NATS + SCORE_MULTIPLE * size), edge)


def largest(features: PairwiseFeatures, node: Matrix, edge: Tensor) -> Vector:
    """M_i of each example; (N,)."""
    finite = np.abs(np.where(np.isfinite(edge), edge, 0.0)).max(axis=(-2, -1), initial=0.0)
    of_edges = np.broadcast_to(finite, (features.n_edges,))
    found = np.bincount(features.example, np.abs(node).max(axis=1), features.n_examples)
    found = found + np.bincount(features.edge_example, of_edges, features.n_examples)
    return np.asarray(found + features.lengths * math.log(features.n_labels))


def largest_score(node: Matrix, edge: Tensor) -> float:
    """The largest |score| that is not forbidden."""
    return max(float(np.abs(node).max()), float(np.abs(edge[np.isfinite(edge)]).max(initial=0.0)))


def log_losses(
    oracle: Inference, features: PairwiseFeatures, node: Matrix, edge: Tensor, forbidden: Flags | None
) -> RoundedArray:
    """ln Z_i minus the truth's score of each example, for these scores as exact numbers; (N,)."""
    truth = features.truth
    if isinstance(oracle, ChainInference):
        laid, edge = oracle.layout, allowed_only(edge, forbidden, largest_score(node, edge))
        apart = enclosure.log_losses(laid, exact(node[laid.packed]), exact(edge), truth[laid.packed])
        found: RoundedArray = binned(apart, laid.chain, laid.n_chains)
        return found
    sizes = largest(features, node, edge)
    logs, error = log_partitions(oracle, features, node, edge, sizes)
    scores = features.score(node, edge, truth)
    error += 1.01 * UNIT * (4.0 + 2.0 * features.lengths) * sizes  # the truth's score, and the difference
    return RoundedArray(logs - scores, error)


def log_partitions(
    oracle: Inference, features: PairwiseFeatures, node: Matrix, edge: Tensor, size: Vector
) -> tuple[Vector, Vector]:
    """(ln Z_i, a bound on its error) of each example, on forests and junction trees; scores may be -inf. size : M_i;
    all (N,)."""
    sums = oracle.sums(node, edge)
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
    return sums.log_partition, 1.01 * UNIT * own + TINY


def add_gibbs(
    mixed: Marginals, oracle: Inference, node: Matrix, edge: Tensor, share: Vector, forbidden: Flags | None
) -> Rounded:
    """Add the Gibbs distributions at these scores, weighted by ``share`` (N,), to ``mixed``; their weighted entropy.

    -inf where no distribution without forbidden pairs was found.
    """
    features = mixed.features
    if isinstance(oracle, ChainInference):
        found = _chains(oracle, node, edge, share, forbidden)
        if found is None:
            return Rounded(-math.inf)
        mixed.node += found.node[oracle.layout.flat] * share[features.example][:, None]
        mixed.add_pairs(found.pairs, share)
        mixed.relative = max(mixed.relative, found.relative)
        mixed.absolute += found.absolute
        return Rounded.of(found.entropy, found.entropy_error)
    if isinstance(oracle, ForestInference):
        sums = levels.sum_product(oracle.layout, node, edge)
        relative = gamma((len(oracle.layout.levels) + 1) * (2 * features.n_labels + 8))
        mixed.add_tables(sums.node, sums.edge, share, relative)
        terms = [share[features.example[oracle.layout.roots]] * entr(sums.node[oracle.layout.roots]).sum(axis=1)]
        for level in oracle.layout.levels:
            table = sums.edge[level.edge]
            table = np.where(level.forward[:, None, None], table, table.transpose(0, 2, 1))
            terms.append(share[features.example[level.child]] * conditional_entropy(table))
        return _entropy(terms, share[features.example], relative, features.n_labels**2)
    assert isinstance(oracle, TreeInference)
    every = np.zeros((features.n_edges, features.n_labels, features.n_labels))
    of_nodes = np.empty_like(node)
    terms, weights, relative, widest = [], [], 0.0, 1
    for batch, posterior in zip(oracle.batches, oracle.posteriors(node, edge)):
        of_nodes[batch.nodes], every[batch.edges] = batch.marginals(posterior)
        largest_table = max(map(math.prod, batch.tree.shapes))
        relative = max(relative, gamma(2 * batch.tree.n_cliques * (2 * largest_table + 8)))
        widest = max(widest, largest_table)
        for clique in posterior.cliques:
            terms.append(share[batch.examples] * conditional_entropy(clique))
            weights.append(share[batch.examples])
    mixed.add_tables(of_nodes, every, share, relative)
    return _entropy(terms, np.concatenate(weights), relative, widest)


def conditional_entropy(table: Tensor) -> Vector:
    """sum_s q(s) H(p(. | s)) of each table (n, s, t) of probabilities; (n,)."""
    total = table.sum(axis=2, keepdims=True)
    share = np.divide(table, total, out=np.zeros_like(table), where=total > 0)
    return np.asarray((total[:, :, 0] * entr(np.minimum(share, 1.0)).sum(axis=2)).sum(axis=1))


def _entropy(terms: list[Vector], weights: Vector, relative: float, widest: int) -> Rounded:
    """The sum of ``terms`` with its allowance as an entropy; weights : the share of each part."""
    total = summed(np.concatenate(terms), positive=True)
    own = 2.0 * relative + gamma(widest + 8) + 2.0 * FUNCTION * UNIT
    error = own * float(total) + own * float(weights.sum()) * (1.0 + gamma(len(weights)))
    return Rounded.of(
        float(total), total.allowance, error, TINY * 2000.0 * widest * len(weights) * (1.0 + float(weights.max()))
    )


def _chains(
    oracle: ChainInference, node: Matrix, edge: Matrix, share: Vector, forbidden: Flags | None
) -> Markov | None:
    """A Markov chain near the Gibbs distribution without forbidden pairs; None where none was found."""
    packed, times = node[oracle.layout.packed], 1.0
    size = largest_score(node, edge)
    for _ in range(RAISES):
        scores = allowed_only(edge, forbidden, size, times)
        found = markov(oracle.layout, backward(oracle.layout, packed, scores), scores, share)
        if forbidden is None or not found.edge[forbidden].any():
            return found
        times *= RAISE_FACTOR
    return None
