r"""The joint features by which a mixture of distributions over labellings differs from the truth, with proved errors.

    Psi = sum_i sum_y alpha_i(y) [f(x_i, y_i) - f(x_i, y)]

Dual bounds of margins and of likelihoods are computed from Psi. First the parts of the mixture are added up to one set
of marginals, mu_v(s) = sum alpha_i(y) [y_v = s] and the same of edges (`Marginals`): numbers >= 0 with a relative error
of at most ``relative``, because they are sums and products of such numbers. Then

    Psi = sum_v x_v (x) d_v + (edges),

where d_v is -mu_v at every label but the true one, and there the sum of mu_v over the others: no difference of nearly
equal numbers is taken before the product with the features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexstruct.arrays import Flags, Labels, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import ChainInference, Inference, Sums
from convexstruct.rounding import (
    BLOCK,
    GREATEST,
    TINY,
    UNIT,
    Rounded,
    RoundedArray,
    adjoint,
    compensated,
    exact,
    gamma,
    joined,
    magnitudes,
    summed,
    total,
)


@dataclass
class Marginals:
    """The sum of the marginals of a mixture's parts.

    node (P, S): mu. edge: mu of each edge (Q, S, S). Where edges share a table, it is instead the sum over blocks of
    edges (blocks, S, S), of those labellings alone that label an edge otherwise than the truth; gained (blocks, S, S)
    then has the weight of the true labels of these edges, and wholes (S, S) are sums over all edges, of parts that are
    no labellings. relative, absolute: bounds on the error of every entry. loose (Q,): bounds on the absolute error of
    the entries of each edge besides.
    """

    features: PairwiseFeatures
    node: Matrix
    edge: Tensor
    gained: Tensor
    relative: float = 0.0
    absolute: float = 0.0
    loose: Vector | None = None
    wholes: list[Matrix] = field(default_factory=list)

    @classmethod
    def none(cls, features: PairwiseFeatures) -> Marginals:
        """Those of a mixture without any part."""
        size = features.n_labels
        blocks = -(-features.n_edges // BLOCK) if features.shared else features.n_edges
        gained = np.zeros((blocks if features.shared else 0, size, size))
        return cls(features, np.zeros((features.n_nodes, size)), np.zeros((blocks, size, size)), gained)

    def add_labelling(self, labels: Labels, weight: Vector) -> None:
        """Add one labelling (P,) of all examples; weight (N,) : its share of each example."""
        features = self.features
        self.node[np.arange(features.n_nodes), labels] += weight[features.example]
        if not features.n_edges:
            return
        size = features.n_labels
        (u, v), (s, t) = (x[features.edges].T for x in (labels, features.truth))
        of_edges = weight[features.edge_example]
        if not features.shared:
            self.edge[np.arange(features.n_edges), u, v] += of_edges
            return
        wrong = np.flatnonzero(((u != s) | (v != t)) & (of_edges > 0))
        block = wrong // BLOCK * size * size
        for table, first, second in ((self.edge, u, v), (self.gained, s, t)):
            cell = block + first[wrong] * size + second[wrong]
            table += np.bincount(cell, weights=of_edges[wrong], minlength=table.size).reshape(table.shape)

    def add_gibbs(
        self, oracle: Inference, node: Matrix, edge: Tensor, share: Vector, forbidden: Flags | None = None
    ) -> Sums | None:
        """Add the Gibbs distribution of each example at its scores, or one near it (`Sums`, which are returned); share
        (N,) : its share; forbidden (S, S) : pairs of labels that score -inf. None, and nothing is known, where other
        scores, or sums of them, may overflow."""
        features = self.features
        widest = float(np.abs(edge).max(initial=0.0, where=True if forbidden is None else ~forbidden))
        if not float(np.abs(node).sum()) + features.n_edges * widest < GREATEST:
            self.node[:] = np.nan
            return None
        if isinstance(oracle, ChainInference):
            sums = oracle.sums(node, edge, share)
            self.node += sums.node
            self.relative = max(self.relative, sums.relative)
            self.absolute += sums.absolute
            self.add_pairs(sums.edge[None], share)
        else:
            sums = oracle.sums(node, np.broadcast_to(edge, (features.n_edges, *edge.shape[-2:])))
            self.add_tables(sums.node, sums.edge, share, sums.relative)
        return sums

    def add(self, other: Marginals) -> None:
        """Add the parts of another mixture of the same examples."""
        self.node += other.node
        self.edge += other.edge
        self.gained += other.gained
        self.wholes += other.wholes
        self.relative = max(self.relative, other.relative)
        self.absolute += other.absolute

    def add_tables(self, node: Matrix, edge: Tensor, share: Vector, relative: float) -> None:
        """Add marginals of every node and every edge, each with a relative error of at most ``relative``."""
        features = self.features
        self.node += node * share[features.example][:, None]
        self.relative = max(self.relative, relative)
        self.absolute += 4 * TINY * len(node) * (1.0 + float(share.max()))
        if not features.n_edges:
            return
        weighted = edge * share[features.edge_example][:, None, None]
        if features.shared:
            self.add_pairs(np.add.reduceat(weighted, np.arange(0, features.n_edges, BLOCK), axis=0), share)
        else:
            self.edge += weighted

    def add_pairs(self, pairs: Tensor, share: Vector) -> None:
        """Add parts (S, S) of the sum of all edges' marginals, and the weight ``share`` (N,) of the true labels."""
        features = self.features
        if not features.n_edges:
            return
        s, t = features.truth[features.edges].T
        cell = np.arange(features.n_edges) // BLOCK * features.n_labels**2 + s * features.n_labels + t
        whole = np.bincount(cell, weights=share[features.edge_example], minlength=self.gained.size)
        self.gained += whole.reshape(self.gained.shape)
        self.wholes.append(compensated(pairs, pairs[0].shape))

    def differences(self) -> RoundedArray:
        """d (P, S): -mu at every label but the true one, and there the sum of mu over the others."""
        features = self.features
        every = np.arange(features.n_nodes)
        away = -self.node
        away[every, features.truth] = 0.0
        away[every, features.truth] = -away.sum(axis=1)
        return self._uncertain(away)

    def _uncertain(self, away: Matrix) -> RoundedArray:
        """Sums of marginals of one sign, each of no more of them than a row has entries."""
        terms = away.shape[1]
        return RoundedArray(away, (self.relative + gamma(terms + 2)) * np.abs(away) + terms * self.absolute)

    def psi(self, away: RoundedArray) -> RoundedArray:
        """Psi (d,). away (P, S) : from `differences`."""
        features = self.features
        used = np.flatnonzero(away.value[np.arange(features.n_nodes), features.truth])
        first = adjoint(features.node_features[used], away[used])
        if len(used) < features.n_nodes and self.absolute:  # all other rows are 0 but for underflow
            rest = magnitudes(features.node_features.T, np.full(features.n_nodes, features.n_labels * self.absolute))
            first = first + RoundedArray(np.zeros(first.shape), rest[:, None])
        found: RoundedArray = joined(first.T, self._edges())
        return found

    def _edges(self) -> RoundedArray:
        """The part of Psi that belongs to w_edge."""
        features = self.features
        if not features.n_edges:  # features of edges may have columns all the same
            return exact(np.zeros(math.prod(features.edge_shape)))
        size, away = features.n_labels, self.edge_differences()
        table = away if features.edge_features is None else adjoint(features.edge_features, away)
        table = table.reshape(-1, size, size)
        if features.associative:
            diagonals = (np.diagonal(part, axis1=1, axis2=2) for part in (table.value, table.errors))
            table = RoundedArray(*diagonals)
        return table.reshape(-1)

    def edge_differences(self) -> RoundedArray:
        """`differences` of the edges (Q, S S); of their sum (1, S S) where they share a table."""
        features = self.features
        size, n = features.n_labels, features.n_edges
        loose = np.zeros(n) if self.loose is None else self.loose
        if features.shared:
            lost = [self.edge, *(part[None] for part in self.wholes)]
            value = compensated([*self.gained, *(-part for parts in lost for part in parts)], (size, size))
            mass = self.gained.sum(axis=0) + sum(parts.sum(axis=0) for parts in lost)
            error = (self.relative + gamma(BLOCK + 8)) * mass + UNIT * np.abs(value)
            return RoundedArray(value, error + self.absolute * n + float(loose.sum())).reshape(1, -1)
        (s, t), every = features.truth[features.edges].T, np.arange(n)
        gain = -self.edge
        gain[every, s, t] = 0.0
        gain[every, s, t] = -gain.sum(axis=(1, 2))
        return self._uncertain(gain.reshape(n, -1)) + RoundedArray(0.0, loose[:, None])

    def gain(self, node: Matrix, edge: Tensor) -> Rounded:
        """<scores, d>: by how much the truth's scores exceed the mixture's on average, each with its share.

        d sums to 0 over the labels of a node and of an edge, so that scores count from any of them: from the truth's,
        and where edges share a table from their mean.
        """
        features = self.features
        every = np.arange(features.n_nodes)
        parts = [(exact(node) - node[every, features.truth][:, None]) * self._uncertain(-self.node)]
        if features.n_edges:
            away, scores = self.edge_differences(), np.where(edge > -np.inf, edge, 0.0)
            if features.shared:
                mass = self.gained.sum(axis=0)
                middle: Any = float(np.vdot(mass, scores)) / max(float(mass.sum()), TINY)
            else:
                s, t = features.truth[features.edges].T
                middle = scores[np.arange(features.n_edges), s, t][:, None]
            parts.append((exact(scores.reshape(away.shape)) - middle) * away)
        return total([summed(part) for part in parts])
