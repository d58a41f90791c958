"""Oracles over the examples of `PairwiseFeatures`: one kind for each kind of graphs, all with the same methods.

    chains      examples that are chains and share one table of transitions: packed recursions over all of them at once
    forests     any other graphs without a cycle, level by level over all of them at once
    trees       any graphs whose junction trees are narrow: one batch for each graph that occurs

Scores come as ``node`` (P, S) and ``edge``: (S, S) where all edges share one table, else (Q, S, S); labellings are flat
(P,). `inference` picks the kind. Graphs that are too wide for a junction tree are in `convexstruct.inference.loopy`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from convexstruct.arrays import Index, Labels, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.graphs import Chains, chains
from convexstruct.junction_trees import MOST_CLIQUE_ENTRIES, JunctionTree, junction_tree
from convexstruct.oracles.chain import chain
from convexstruct.oracles.chain.sums import ChainSums
from convexstruct.oracles.tree import forest as levels
from convexstruct.oracles.tree import junction_tree as jt
from convexstruct.oracles.tree.loss_counter import LossTable, by_loss, by_loss_on_tree, joined
from convexstruct.rounding import TINY, gamma


class Best(NamedTuple):
    """The result of maximising over labellings.

    labels (P,): the labelling found. scores (N,): its score in each example.
    upper (N,): at least the greatest score; equal to ``scores`` if the oracle is exact.
    moved (N,): where ``upper`` comes from messages, twice the sum of their absolute values, on which its rounding
    depends besides the scores; None where there are no messages.
    """

    scores: Vector
    labels: Labels
    upper: Vector
    moved: Vector | None = None


class Sums(NamedTuple):
    """The result of summing over labellings.

    log_partition (N,): ln sum_y e^score(y). node (P, S), edge: posteriors weighted by the examples' shares; edge is
    (S, S), summed over the edges, where they share a table, else (Q, S, S).
    relative, absolute : the posteriors of each node and edge, and their sum over the edges of chains, are those of some
    distribution whose conditional probabilities are those of e^score up to rounding, with a relative error of at most
    ``relative`` and an absolute one of ``absolute`` besides. chains : what was summed over chains.
    """

    log_partition: Vector
    node: Matrix
    edge: Tensor
    relative: float
    absolute: float
    chains: ChainSums | None = None


class Inference(Protocol):
    """An oracle over all examples of a problem."""

    @property
    def relaxed(self) -> bool:
        """Whether `best` maximises over the local polytope, and ``upper`` is the maximum; else `best` is exact."""
        ...

    @property
    def summable(self) -> bool:
        """Whether there are sums, samples, max-marginals and best labellings by loss."""
        ...

    def best(self, node: Matrix, edge: Tensor) -> Best:
        """The labelling of each example with the greatest score."""
        ...

    def max_marginals(self, node: Matrix, edge: Tensor) -> Matrix:
        """The greatest score of a labelling of the example that has this label at this node; (P, S)."""
        ...

    def by_loss(self, node: Matrix, edge: Tensor, steps: Labels) -> LossTable:
        """For each total of ``steps`` (P, S) the best labelling with exactly that total; ``labels`` are flat."""
        ...

    def sums(self, node: Matrix, edge: Tensor, share: Vector | None = None) -> Sums:
        """Sums over the labellings y of each example, with the probabilities e^score(y) / Z; ``share`` (N,) weights the
        examples' posteriors, 1 each if it is None."""
        ...

    def sample(self, node: Matrix, edge: Tensor, rng: np.random.Generator) -> Labels:
        """One labelling of each example, drawn with probability e^score / Z; flat (P,)."""
        ...


@dataclass(frozen=True, eq=False)
class ChainInference:
    """Chains with one shared table."""

    layout: Chains
    n_edges: int
    relaxed: bool = False
    summable: bool = True

    def best(self, node: Matrix, edge: Tensor) -> Best:
        scores, labels = chain.viterbi(self.layout, node[self.layout.packed], edge)
        return Best(scores, labels[self.layout.flat], scores)

    def max_marginals(self, node: Matrix, edge: Tensor) -> Matrix:
        return chain.max_marginals(self.layout, node[self.layout.packed], edge)[self.layout.flat]

    def by_loss(self, node: Matrix, edge: Tensor, steps: Labels) -> LossTable:
        packed, flat = self.layout.packed, self.layout.flat
        table = by_loss(self.layout, node[packed], edge, steps[packed])
        return LossTable(table.scores, lambda totals: table.labels(totals)[flat])

    def sums(self, node: Matrix, edge: Tensor, share: Vector | None = None) -> Sums:
        sums = chain.sum_product(self.layout, node[self.layout.packed], edge, share)
        posterior = sums.node if share is None else sums.node * share[self.layout.chain][:, None]
        lost = sums.absolute * (1.0 if share is None else 1.0 + float(share.max()))
        return Sums(sums.log_partition, posterior[self.layout.flat], sums.edge, sums.relative, lost, sums)

    def sample(self, node: Matrix, edge: Tensor, rng: np.random.Generator) -> Labels:
        return chain.sample(self.layout, node[self.layout.packed], edge, rng)[self.layout.flat]


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples that share one graph.

    examples (n,). nodes (n, m): their flat nodes. edges (n, q): their edges' places among all edges.
    ends (q, 2): each edge's nodes, counted from 0. tree: the junction tree.
    """

    examples: Index
    nodes: Index
    edges: Index
    ends: Index
    tree: JunctionTree

    def factors(self, node: Matrix, edge: Tensor) -> list[jt.Factor]:
        of_nodes: list[jt.Factor] = [((v,), node[self.nodes[:, v]]) for v in range(self.nodes.shape[1])]
        shared = edge.ndim == 2
        of_edges: list[jt.Factor] = [
            ((int(u), int(v)), edge[None] if shared else edge[self.edges[:, e]]) for e, (u, v) in enumerate(self.ends)
        ]
        return of_nodes + of_edges

    def marginals(self, sums: jt.TreeSums) -> tuple[Tensor, Tensor]:
        """Posteriors of the nodes (n, m, S) and of the edges (n, q, S, S)."""
        nodes = np.stack([sums.marginal((v,)) for v in range(self.nodes.shape[1])], axis=1)
        size = nodes.shape[2]
        edges = np.zeros((len(nodes), len(self.ends), size, size))
        for e, (u, v) in enumerate(self.ends):
            edges[:, e] = sums.marginal((int(u), int(v)))
        return nodes, edges


@dataclass(frozen=True, eq=False)
class TreeInference:
    """Any graphs with narrow junction trees, one batch for each graph that occurs."""

    batches: tuple[Batch, ...]
    n_examples: int
    n_nodes: int
    n_edges: int
    relaxed: bool = False
    summable: bool = True

    def best(self, node: Matrix, edge: Tensor) -> Best:
        scores, labels = np.empty(self.n_examples), np.empty(self.n_nodes, dtype=np.int64)
        for batch in self.batches:
            value, found = jt.best(batch.tree, batch.factors(node, edge), len(batch.examples))
            scores[batch.examples], labels[batch.nodes] = value, found
        return Best(scores, labels, scores)

    def max_marginals(self, node: Matrix, edge: Tensor) -> Matrix:
        found = np.empty_like(node)
        for batch in self.batches:
            each = jt.max_marginals(batch.tree, batch.factors(node, edge), len(batch.examples))
            found[batch.nodes] = np.stack(each, axis=1)
        return found

    def sums(self, node: Matrix, edge: Tensor, share: Vector | None = None) -> Sums:
        n_labels = node.shape[1]
        log_partition = np.empty(self.n_examples)
        posterior = np.empty_like(node)
        pairs = np.zeros((n_labels, n_labels) if edge.ndim == 2 else (self.n_edges, n_labels, n_labels))
        for batch in self.batches:
            sums = jt.sum_product(batch.tree, batch.factors(node, edge), len(batch.examples))
            weight = np.ones(len(batch.examples)) if share is None else share[batch.examples]
            log_partition[batch.examples] = sums.log_partition
            of_nodes, of_edges = batch.marginals(sums)
            posterior[batch.nodes] = of_nodes * weight[:, None, None]
            if edge.ndim == 2:
                pairs += np.einsum("n,nqst->st", weight, of_edges)
            else:
                pairs[batch.edges] = of_edges * weight[:, None, None, None]
        steps = max(batch.tree.n_cliques * (2 * max(map(math.prod, batch.tree.shapes)) + 8) for batch in self.batches)
        return Sums(log_partition, posterior, pairs, gamma(2 * steps + 2), _lost(node, share))

    def by_loss(self, node: Matrix, edge: Tensor, steps: Labels) -> LossTable:
        parts = []
        for batch in self.batches:
            factors, n = batch.factors(node, edge), len(batch.examples)
            parts.append((batch.examples, batch.nodes, by_loss_on_tree(batch.tree, factors, n, steps[batch.nodes])))
        return joined(parts, self.n_examples, self.n_nodes)

    def sample(self, node: Matrix, edge: Tensor, rng: np.random.Generator) -> Labels:
        labels = np.empty(self.n_nodes, dtype=np.int64)
        for batch in self.batches:
            labels[batch.nodes] = jt.sample(batch.tree, batch.factors(node, edge), len(batch.examples), rng)
        return labels

    @cached_property
    def width(self) -> int:
        return max(batch.tree.width for batch in self.batches)


@dataclass(frozen=True, eq=False)
class ForestInference:
    """Any graphs without a cycle; tables may differ from edge to edge.

    `TreeInference` does what this recursion cannot: max-marginals and best labellings by loss.
    """

    features: PairwiseFeatures
    layout: levels.Forest
    relaxed: bool = False
    summable: bool = True

    @cached_property
    def _trees(self) -> TreeInference:
        return tree_inference(self.features)

    @cached_property
    def _example(self) -> Index:
        """The example of each tree."""
        return np.asarray(self.features.example[self.layout.roots])

    def _by_example(self, values: Vector) -> Vector:
        total = np.bincount(self._example, weights=values, minlength=self.features.n_examples)
        return np.asarray(total, dtype=np.float64)

    def best(self, node: Matrix, edge: Tensor) -> Best:
        found = levels.best(self.layout, node, edge)
        scores = self._by_example(found.scores)
        return Best(scores, found.labels, scores)

    def max_marginals(self, node: Matrix, edge: Tensor) -> Matrix:
        return self._trees.max_marginals(node, edge)

    def by_loss(self, node: Matrix, edge: Tensor, steps: Labels) -> LossTable:
        return self._trees.by_loss(node, edge, steps)

    def sums(self, node: Matrix, edge: Tensor, share: Vector | None = None) -> Sums:
        sums = levels.sum_product(self.layout, node, edge)
        posterior, pairs = sums.node, sums.edge
        if share is not None:
            posterior *= share[self.features.example][:, None]
            pairs *= share[self.features.edge_example][:, None, None]
        relative = gamma((len(self.layout.levels) + 1) * (2 * node.shape[1] + 8) + 2)
        pairs = pairs.sum(axis=0) if edge.ndim == 2 else pairs
        return Sums(self._by_example(sums.log_partition), posterior, pairs, relative, _lost(node, share))

    def sample(self, node: Matrix, edge: Tensor, rng: np.random.Generator) -> Labels:
        return levels.sample(self.layout, node, edge, rng)


def _lost(node: Matrix, share: Vector | None) -> float:
    """A bound on what underflows in a posterior."""
    return 4 * TINY * len(node) * (1.0 if share is None else 1.0 + float(share.max()))


def best_other(oracle: Inference, features: PairwiseFeatures, node: Matrix, edge: Tensor, labels: Labels) -> Best:
    """The labelling of each example with the greatest score other than ``labels`` (P,); where there is none the score
    is -inf, and the labelling that of ``labels``.

    It has another label at some node: the greatest max-marginal of such a label says which one it may be held at.
    """
    within = oracle.max_marginals(node, edge)
    within[np.arange(len(labels)), labels] = -np.inf
    each = within.max(axis=1)
    scores = np.maximum.reduceat(each, features.node_start[:-1])
    reached = np.flatnonzero((each == scores[features.example]) & np.isfinite(each))
    at = reached[np.unique(features.example[reached], return_index=True)[1]]  # one node an example
    held, label = np.full((len(at), node.shape[1]), -np.inf), within[at].argmax(axis=1)
    held[np.arange(len(at)), label] = node[at, label]
    other = node.copy()
    other[at] = held
    found, none = oracle.best(other, edge), np.isneginf(scores)
    kept = np.where(none[features.example], labels, found.labels)
    return Best(np.where(none, -np.inf, found.scores), kept, np.where(none, -np.inf, found.upper))


def forest_inference(features: PairwiseFeatures) -> ForestInference:
    """The oracle over all trees at once. ValueError if a graph has a cycle."""
    return ForestInference(features, levels.forest(features.n_nodes, features.edges))


def tree_inference(
    features: PairwiseFeatures, limit: int = MOST_CLIQUE_ENTRIES, advice: str | None = None
) -> TreeInference:
    """Batches of examples that share a graph, with its junction tree. ValueError if a junction tree is too wide; the
    message has its width and the advice.

    advice : the end of the sentence that refuses a graph that is too wide; `ADVICE` by default.
    """
    first_edge = features.edge_start
    local = features.edges - features.node_start[features.edge_example][:, None]
    alike: dict[tuple[int, bytes], list[int]] = {}
    for i, length in enumerate(features.lengths):
        alike.setdefault((int(length), local[first_edge[i] : first_edge[i + 1]].tobytes()), []).append(i)
    batches = []
    for (length, _), members in alike.items():
        examples = np.array(members, dtype=np.intp)
        ends = local[first_edge[members[0]] : first_edge[members[0] + 1]]
        cards = [features.n_labels] * length
        tree = junction_tree(
            features.graph(members[0]),
            cards,
            limit,
            f"the graph of example {members[0]}, triangulated, has a",
            advice or ADVICE,
        )
        nodes = features.node_start[examples][:, None] + np.arange(length)
        edges = first_edge[examples][:, None] + np.arange(len(ends))
        batches.append(Batch(examples, nodes.astype(np.intp), edges.astype(np.intp), ends, tree))
    return TreeInference(tuple(batches), features.n_examples, features.n_nodes, features.n_edges)


#: What to do about a graph that is too wide.
ADVICE = "use inference='relaxed' (the local polytope), or 'minimum_cut' for an associative network of two labels"


def chain_inference(features: PairwiseFeatures) -> ChainInference:
    """The oracle over chains that share one table."""
    return ChainInference(chains(features.lengths), features.n_edges)


def exact_inference(
    features: PairwiseFeatures, advice: str | None = None
) -> ChainInference | ForestInference | TreeInference:
    """The fastest exact oracle for these graphs, of the three at the head of this file; ``advice`` as `tree_inference`
    takes it."""
    if features.is_chain and features.shared and features.n_edges:
        return chain_inference(features)
    try:
        return forest_inference(features)
    except ValueError:  # a cycle
        return tree_inference(features, advice=advice)
