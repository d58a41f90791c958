"""The pool of one example, with its columns, and batches of examples that are decoded together.

The column of a labelling y is a(y) = e(y) df(y), with e = 1 under margin scaling and e = E(y) under slack scaling.
Those of one example are a dense table over the entries of w at which any of them may differ from 0: of sparse features
these are few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.graphs import ranges

#: The numbers ``value`` of a column at ``place``, entries of w; those that come several times at a place are added up.
Column = tuple[Index, Vector]


class ExamplePool:
    """The labellings of an example, the truth first.

    labels : m labellings, in the bytes of their arrays, since these are compared fast.
    alpha, b : (m,) multipliers, which sum to the ceiling, and losses.
    a, place : columns (m, k), and the entries (k,) of w that they have. gram : (m, m) inner products of the columns.
    """

    def __init__(self, truth: bytes, ceiling: float) -> None:
        self.labels, self.alpha, self.b = [truth], np.array([ceiling]), np.zeros(1)
        self.ceiling = ceiling
        self.a: Matrix = np.zeros((1, 0))
        self.place: Index = np.zeros(0, np.intp)
        self.gram: Matrix = np.zeros((1, 1))

    def extend(self, labels: list[bytes], columns: list[Column], lost: Vector, where: Index) -> None:
        """Add labellings without multipliers. where (d,) : work space, -1 everywhere before and after."""
        m, n, k = len(self.b), len(labels), len(self.place)
        places = np.concatenate([place for place, _ in columns])
        where[self.place] = np.arange(k)
        more = np.unique(places[where[places] < 0])
        where[more] = k + np.arange(len(more))
        self.place = np.concatenate((self.place, more))
        a = np.zeros((m + n, len(self.place)))
        a[:m, :k] = self.a
        row = np.repeat(np.arange(n), [len(value) for _, value in columns])
        at = row * len(self.place) + where[places]
        a[m:] = np.bincount(at, np.concatenate([value for _, value in columns]), a[m:].size).reshape(n, -1)
        where[self.place] = -1
        gram = np.empty((m + n, m + n))
        gram[:m, :m] = self.gram
        gram[m:] = a[m:] @ a.T
        gram[:m, m:] = gram[m:, :m].T
        self.a, self.gram = a, gram
        self.labels = [*self.labels, *labels]
        self.alpha, self.b = np.append(self.alpha, np.zeros(n)), np.append(self.b, lost)

    def settle(self) -> None:
        """Drop the labellings without multiplier, but for the truth: one that is violated again is found again."""
        wanted = self.alpha > 0
        wanted[0] = True
        if wanted.all():
            return
        kept = np.flatnonzero(wanted)
        self.labels = [self.labels[j] for j in kept]
        self.alpha, self.b = self.alpha[kept], self.b[kept]
        self.a, self.gram = self.a[kept], self.gram[np.ix_(kept, kept)]
        used = np.flatnonzero(self.a.any(axis=0))
        self.a, self.place = self.a[:, used], self.place[used]


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples (n,) of ``whole``, and ``part``, the problem of these alone with the features that occur in it.

    features : these, among all (F,). entries : the entries of w that ``part`` has, among all; if no example has edges,
    they end before w_edge. nodes : the flat nodes (p,) of the examples.
    """

    whole: StructuredSVM
    part: StructuredSVM
    examples: Index
    features: Index
    entries: Index
    nodes: Index

    @classmethod
    def of(cls, whole: StructuredSVM, examples: Index) -> Batch:
        part = whole.some(examples)
        x = sp.csr_array(part.features.node_features)
        used, at = np.unique(x.indices, return_inverse=True)
        narrow = sp.csr_array((x.data, at.astype(x.indices.dtype), x.indptr), shape=(x.shape[0], len(used)))
        features = replace(part.features, node_features=narrow)
        node = np.arange(features.n_labels)[:, None] * whole.features.n_node_features + used
        edge = whole.features.n_node_weights + np.arange(features.dimension - features.n_node_weights)
        nodes, _ = ranges(whole.features.node_start, examples)
        entries = np.concatenate((node.ravel(), edge))
        return cls(whole, replace(part, features=features), examples, used, entries, nodes)

    def split(self, flat: Labels) -> list[Labels]:
        """A labelling (p,) of the batch as one array (n_i,) an example."""
        return np.split(flat, self.part.features.node_start[1:-1])

    def columns(self, owner: Index, labels: list[Labels]) -> tuple[list[Column], Vector]:
        """a(y) and E(y) of m labellings of the batch's examples ``owner`` (m,)."""
        features, flat, m = self.part.features, np.concatenate(labels).astype(np.int64), len(labels)
        node, begin = ranges(features.node_start, owner)
        row, width = np.repeat(np.arange(m), np.diff(begin)), self.whole.features.n_node_features
        off = np.flatnonzero(flat != features.truth[node])  # elsewhere the two labellings' node features cancel
        v, row, true, other = node[off], row[off], features.truth[node[off]], flat[off]
        edge = sp.coo_array(features.edges_each(features.truth[node], owner) - features.edges_each(flat, owner))
        loss = self.part.loss
        summed, errs = np.bincount(row, weights=loss.costs[v, other], minlength=m), np.bincount(row, minlength=m) > 0
        lost: Vector = np.asarray(errs if loss.zero_one else summed, dtype=np.float64)
        scale = lost if self.part.scaling == "slack" else np.ones(m)
        x = sp.csr_array(features.node_features)
        at, start = ranges(x.indptr, v)
        many = np.diff(start)
        f, value, row = self.features[x.indices[at]], x.data[at], np.repeat(row, many)
        place = (
            np.repeat(true, many) * width + f,
            np.repeat(other, many) * width + f,
            self.whole.features.n_node_weights + edge.coords[1],
        )
        rows = np.concatenate((row, row, edge.coords[0]))
        order = np.argsort(rows, kind="stable")
        values = (np.concatenate((value, -value, edge.data)) * scale[rows])[order]
        cuts = np.searchsorted(rows[order], np.arange(1, m))
        return list(zip(np.split(np.concatenate(place)[order], cuts), np.split(values, cuts))), lost
