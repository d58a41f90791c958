"""The pool of one example, with its columns, and batches of examples that are decoded together.

The column of a labelling y is a(y) = e(y) df(y), with e = 1 under margin scaling and e = E(y) under slack scaling. Of
sparse features it is kept as numbers of *cells*, each a node with a label, or an entry of w_edge: a row of B is a cell,
with the features x_v of (v, s) at the entries of w_node[s], so that B w are the scores of the cells, and the column is
B' times its numbers. These are fewer by the number of features of a node. Of dense features, which nodes share, the
cells are the entries of w.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.graphs import ranges

#: The numbers ``value`` of a column at some ``cells``; those that come several times at a cell are added up.
Column = tuple[Index, Vector]


class ExamplePool:
    """The labellings of an example, the truth first.

    labels : m labellings, in the bytes of their arrays, since these are compared fast.
    alpha, b : (m,) multipliers, which sum to the ceiling, and losses.
    a, cells : columns (m, q) as numbers of their cells (q,). gram : (m, m) inner products of the columns.
    place, value, counts : the entries of B, row after row, their places in w, and their number in each row (q,); one
    value where all are 1. start : where each row begins.
    """

    def __init__(self, truth: bytes, ceiling: float, sparse: bool) -> None:
        self.labels, self.alpha, self.b = [truth], np.array([ceiling]), np.zeros(1)
        self.ceiling, self.sparse = ceiling, sparse
        self.a: Matrix = np.zeros((1, 0))
        self.gram: Matrix = np.zeros((1, 1))
        self.cells = self.place = self.counts = self.start = np.zeros(0, np.intp)
        self.value = np.zeros(0)

    def scores(self, w: Vector) -> Vector:
        """B w, (q,)."""
        found: Vector = w[self.place]
        return np.add.reduceat(found * self.value, self.start) if self.sparse else found

    def slopes(self, w: Vector) -> Vector:
        """E_i(y) - <w, a(y)>, (m,)."""
        return np.asarray(self.b - self.a @ self.scores(w))

    def move(self, w: Vector, change: Vector) -> None:
        """Add B' change to w; change (q,)."""
        if self.sparse:
            np.add.at(w, self.place, np.repeat(change, self.counts) * self.value)
        else:
            w[self.place] += change

    def extend(self, labels: list[bytes], columns: list[Column], lost: Vector, maps: ColumnMaps) -> None:
        """Add labellings without multipliers."""
        m, n, q = len(self.b), len(labels), len(self.cells)
        self.cells, at = np.unique(np.concatenate((self.cells, *(cell for cell, _ in columns))), return_inverse=True)
        row = np.repeat(np.arange(n), [len(value) for _, value in columns])
        numbers, size = np.concatenate([value for _, value in columns]), n * len(self.cells)
        every = np.zeros((m + n, len(self.cells)))
        every[:m, at[:q]] = self.a
        every[m:] = np.bincount(row * len(self.cells) + at[q:], numbers, size).reshape(n, -1)
        self.a = every
        self.place, self.value, self.counts = maps.entries(self.cells)
        self.start = np.cumsum(self.counts) - self.counts
        gram = np.empty((m + n, m + n))
        gram[:m, :m] = self.gram
        gram[m:] = (self.smoothed(every[m:], maps.work) if self.sparse else every[m:]) @ every.T
        gram[:m, m:] = gram[m:, :m].T
        self.gram, self.labels = gram, [*self.labels, *labels]
        self.alpha, self.b = np.append(self.alpha, np.zeros(n)), np.append(self.b, lost)

    def smoothed(self, columns: Matrix, work: Vector) -> Matrix:
        """B B' of columns (n, q), one after the other; work (d,) : zeros, before and after."""
        found = np.empty_like(columns)
        for column, scores in zip(columns, found):
            self.move(work, column)
            scores[:] = self.scores(work)
            work[self.place] = 0.0
        return found

    def settle(self) -> None:
        """Drop the labellings without multiplier, but for the truth: one that is violated again is found again."""
        wanted = self.alpha > 0
        wanted[0] = True
        if wanted.all():
            return
        kept = np.flatnonzero(wanted)
        self.labels = [self.labels[j] for j in kept]
        self.alpha, self.b = self.alpha[kept], self.b[kept]
        self.gram = self.gram[np.ix_(kept, kept)]
        used = self.a[kept].any(axis=0)
        self.a = self.a[np.ix_(kept, np.flatnonzero(used))]
        inside = np.repeat(used, self.counts)
        self.cells, self.counts = self.cells[used], self.counts[used]
        self.place = self.place[inside]
        if len(self.value) == len(inside):
            self.value = self.value[inside]
        self.start = np.cumsum(self.counts) - self.counts


class ColumnMaps:
    """Labellings to columns, and cells to entries of w. Cell v S + s is node v with label s, P S + k is entry k of w.

    many : (P,) features that each node has. one : whether all are 1. work : (d,) work space, 0 before and after.
    """

    def __init__(self, problem: StructuredSVM) -> None:
        self.problem, features = problem, problem.features
        self.x, self.sparse = sp.csr_array(features.node_features), sp.issparse(features.node_features)
        self.many, self.one = np.diff(self.x.indptr), bool((self.x.data == 1.0).all())
        self.first, self.work = features.n_nodes * features.n_labels, np.zeros(problem.dimension)

    def columns(self, owner: Index, labels: list[Labels]) -> tuple[list[Column], Vector]:
        """a(y) and E(y) of m labellings of the examples ``owner`` (m,)."""
        features, flat, m = self.problem.features, np.concatenate(labels).astype(np.int64), len(labels)
        node, begin = ranges(features.node_start, owner)
        row = np.repeat(np.arange(m), np.diff(begin))
        off = np.flatnonzero(flat != features.truth[node])  # elsewhere the two labellings' node features cancel
        v, row, true, other = node[off], row[off], features.truth[node[off]], flat[off]
        edge = sp.coo_array(features.edges_each(features.truth[node], owner) - features.edges_each(flat, owner))
        loss = self.problem.loss
        summed, errs = np.bincount(row, weights=loss.costs[v, other], minlength=m), np.bincount(row, minlength=m) > 0
        lost: Vector = np.asarray(errs if loss.zero_one else summed, dtype=np.float64)
        scale = lost if self.problem.scaling == "slack" else np.ones(m)
        some = np.flatnonzero(self.many[v])  # a node without features has no entries
        row, cells = row[some], [v[some] * features.n_labels + label[some] for label in (true, other)]
        value = np.ones(len(some))
        if not self.sparse:
            row = np.repeat(row, self.many[v[some]])
            (first, value, _), (second, _, _) = (self.entries(cell) for cell in cells)
            cells, value = [self.first + first, self.first + second], np.broadcast_to(value, row.shape)
        rows = np.concatenate((row, row, edge.coords[0]))
        order = np.argsort(rows, kind="stable")
        values = (np.concatenate((value, -value, edge.data)) * scale[rows])[order]
        of_edges = self.first + features.n_node_weights + edge.coords[1]
        cuts = np.searchsorted(rows[order], np.arange(1, m))
        return list(zip(np.split(np.concatenate((*cells, of_edges))[order], cuts), np.split(values, cuts))), lost

    def entries(self, cells: Index) -> tuple[Index, Vector, Index]:
        """``place``, ``value`` and ``counts`` of the rows of B of some cells: nodes with labels first."""
        features, n = self.problem.features, int(np.count_nonzero(cells < self.first))
        v, s = np.divmod(cells[:n], features.n_labels)
        counts, ones = self.many[v], np.ones(len(cells) - n, dtype=np.intp)
        begin = np.cumsum(counts) - counts
        at = np.repeat(self.x.indptr[v] - begin, counts)
        at += np.arange(len(at))
        place = np.repeat(s * features.n_node_features, counts) + self.x.indices[at]
        value = np.ones(1) if self.one else np.concatenate((self.x.data[at], ones))
        return np.concatenate((place, cells[n:] - self.first)), value, np.concatenate((counts, ones))


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples (n,) of a problem, and ``part``, the problem of these alone with the features that occur in it.

    features : these, among all (F,). nodes : the flat nodes (p,) of the examples.
    """

    part: StructuredSVM
    examples: Index
    features: Index
    nodes: Index

    @classmethod
    def of(cls, whole: StructuredSVM, examples: Index) -> Batch:
        part = whole.some(examples)
        x = sp.csr_array(part.features.node_features)
        used, at = np.unique(x.indices, return_inverse=True)
        arrays = x.data, at.astype(np.int32), x.indptr.astype(np.int32)
        features = replace(part.features, node_features=sp.csr_array(arrays, shape=(x.shape[0], len(used))))
        nodes, _ = ranges(whole.features.node_start, examples)
        return cls(replace(part, features=features), examples, used, nodes)

    def own(self, w: Vector, n_features: int) -> Vector:
        """The entries of w that ``part`` has; if no example has edges, they end before w_edge."""
        features, size = self.part.features, self.part.features.n_labels * n_features
        node = w[:size].reshape(-1, n_features)[:, self.features]
        return np.concatenate((node.ravel(), w[size : size + features.dimension - features.n_node_weights]))

    def split(self, flat: Labels) -> list[Labels]:
        """A labelling (p,) of the batch as one array (n_i,) an example."""
        return np.split(flat, self.part.features.node_start[1:-1])
