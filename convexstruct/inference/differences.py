r"""The joint features by which a mixture of distributions over labellings differs from the truth, with proved errors.

    Psi = sum_i sum_y alpha_i(y) [f(x_i, y_i) - f(x_i, y)]

Dual bounds of margins and of likelihoods are computed from Psi. First the parts of the mixture are added up to one set
of marginals, mu_v(s) = sum alpha_i(y) [y_v = s] and the same of edges (`Marginals`): numbers >= 0 with a relative error
of at most ``relative``, because they are sums and products of such numbers. Then

    Psi = sum_v x_v (x) d_v + (edges),

where d_v is -mu_v at every label but the true one, and there the sum of mu_v over the others: no difference of nearly
equal numbers is taken before the product with the features. Psi is off by at most

    (relative + gamma(B)) |X|'|d|        entrywise; B the terms of one block, blocks are added with their errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.features.graphs.magnitudes import Magnitudes
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import ChainInference, ForestInference, Inference, TreeInference
from convexstruct.oracles.chain.enclosure import near
from convexstruct.oracles.tree import forest as levels
from convexstruct.rounding import BLOCK, GREATEST, TINY, UNIT, compensated, gamma


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

    def add_gibbs(self, oracle: Inference, node: Matrix, edge: Tensor, share: Vector) -> None:
        """Add the Gibbs distribution of each example at its scores, or one near it; share (N,) : its share."""
        features = self.features
        if not float(np.abs(node).sum() + features.n_edges * np.abs(edge).max(initial=0.0)) < GREATEST:
            self.node[:] = np.nan  # sums of such scores may overflow
            return
        size = features.n_labels
        if isinstance(oracle, ChainInference):
            found = near(oracle.layout, node[oracle.layout.packed], edge, share)
            self.node += found.node[oracle.layout.flat] * share[features.example][:, None]
            self.add_pairs(found.pairs, share)
            self.relative = max(self.relative, found.relative)
            self.absolute += found.absolute
            return
        if isinstance(oracle, ForestInference):
            sums = levels.sum_product(oracle.layout, node, edge)
            steps = (len(oracle.layout.levels) + 1) * (2 * size + 8)
            self.add_tables(sums.node, sums.edge, share, gamma(steps))
            return
        if not isinstance(oracle, TreeInference):
            oracle.sums(node, edge, share)  # raises a ValueError: this oracle has no sums
            return
        every = np.ascontiguousarray(np.broadcast_to(edge, (features.n_edges, size, size)))
        tables = oracle.sums(node, every)
        steps = max(batch.tree.n_cliques * (2 * max(map(math.prod, batch.tree.shapes)) + 8) for batch in oracle.batches)
        self.add_tables(tables.node, tables.edge, share, gamma(2 * steps))

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

    def add_pairs(self, pairs: list[Matrix] | Tensor, share: Vector) -> None:
        """Add parts (S, S) of the sum of all edges' marginals, and the weight ``share`` (N,) of the true labels."""
        features = self.features
        if not features.n_edges:
            return
        s, t = features.truth[features.edges].T
        cell = np.arange(features.n_edges) // BLOCK * features.n_labels**2 + s * features.n_labels + t
        whole = np.bincount(cell, weights=share[features.edge_example], minlength=self.gained.size)
        self.gained += whole.reshape(self.gained.shape)
        self.wholes.append(compensated(pairs, pairs[0].shape))

    def differences(self) -> Matrix:
        """d (P, S): -mu at every label but the true one, and there the sum of mu over the others."""
        features = self.features
        every = np.arange(features.n_nodes)
        away = -self.node
        away[every, features.truth] = 0.0
        away[every, features.truth] = -away.sum(axis=1)
        return away

    def psi(self, plain: Magnitudes, away: Matrix) -> tuple[Vector, Vector]:
        """Psi and the bound on its error, entrywise; both (d,).

        plain : sums of |features|, unweighted. away (P, S) : from `differences`.
        """
        features = self.features
        relative, absolute = self.relative + gamma(BLOCK + 8), self.absolute
        used = np.flatnonzero(away[np.arange(features.n_nodes), features.truth])
        x, d = features.node_features[used], away[used]
        if sp.issparse(x):
            first = np.asarray(x.T @ d)
            size = np.asarray(abs(x).T @ np.abs(d))
            long = np.bincount(x.indices, minlength=x.shape[1])
            size *= (relative + long * UNIT / (1.0 - long * UNIT))[:, None]
        else:
            pieces = [slice(low, low + BLOCK) for low in range(0, len(used), BLOCK)]
            shape = (x.shape[1], features.n_labels)
            first = compensated((x[piece].T @ d[piece] for piece in pieces), shape)
            size = np.zeros(shape)
            for piece in pieces:
                size += np.abs(x[piece]).T @ np.abs(d[piece])
            size *= relative
        lost = absolute * plain.node + features.n_nodes * TINY
        error = (size * (1.0 + gamma(len(used))) + (2.0 * features.n_labels) * lost[:, None]).T.ravel()
        second, second_error = self._edges(relative, absolute, plain.edge)
        return np.concatenate((first.T.ravel(), second)), np.concatenate((error, second_error))

    def _edges(self, relative: float, absolute: float, plain: Vector) -> tuple[Vector, Vector]:
        """The part of Psi that belongs to w_edge, and its error."""
        features = self.features
        size, n = features.n_labels, features.n_edges
        if not n:  # features of edges may have columns all the same
            return np.zeros(math.prod(features.edge_shape)), np.zeros(math.prod(features.edge_shape))
        loose = np.zeros(n) if self.loose is None else self.loose
        if features.shared:
            lost = [self.edge, *(part[None] for part in self.wholes)]
            table = compensated([*self.gained, *(-part for parts in lost for part in parts)], (size, size))[None]
            mass = self.gained.sum(axis=0) + sum(parts.sum(axis=0) for parts in lost)
            error = (relative * mass + absolute * n + float(loose.sum()))[None]
        else:
            assert features.edge_features is not None
            (s, t), every = features.truth[features.edges].T, np.arange(n)
            away = -self.edge
            away[every, s, t] = 0.0
            away[every, s, t] = -away.sum(axis=(1, 2))
            z = features.edge_features
            pieces = [slice(low, low + BLOCK) for low in range(0, n, BLOCK)]
            shape = (z.shape[1], size, size)
            table = compensated((np.tensordot(z[p].T, away[p], axes=1) for p in pieces), shape)
            count = relative + gamma(size * size)
            error = count * np.tensordot(np.abs(z).T, np.abs(away), axes=1)
            error += (absolute * size * size * plain + np.abs(z).T @ loose + n * TINY)[:, None, None]
        error = error * (1.0 + gamma(n + 8)) + n * TINY
        if features.associative:
            table, error = (np.diagonal(part, axis1=1, axis2=2) for part in (table, error))
        return table.ravel(), error.ravel()
