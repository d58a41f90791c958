"""Pools of labellings, one an example: what constraint generation has found so far, as columns of the pool QP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Labels, Matrix, Point, Vector
from convexstruct.core.mixtures import label_type, of_single_labellings
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import PoolColumns

#: Columns are held densely where more than this share of their entries is not zero.
DENSE_SHARE = 0.15
#: A feature so many times as large as half of the others is large: with it, the Gram matrix has lost the others' last
#: four digits. At 20 labels and more, 1,000 times lose the optimum, 20 times gain nothing.
LARGE = 100.0
#: Columns, or rows of their Gram matrix, computed between two checks of the deadline.
ROWS = 256


class LabellingPools:
    """Labellings found for each example, the truth first, with their columns

    a = e_i(y) df_i(y),    b = E_i(y)       (e = 1 under margin scaling, E_i(y) under slack scaling).
    """

    def __init__(self, problem: StructuredSVM | OracleSVM) -> None:
        self.problem = problem
        features = problem.features
        self._start = features.node_start
        self._truth: Any = features.joint_rows(features.truth)
        self._keys: set[tuple[int, bytes]] = set()
        self._labels: list[Labels] = []
        self.a: Any = sp.csr_array((0, problem.dimension))
        self._nonzeros = 0
        self._gram: Matrix | None = None
        self._large = np.zeros(0, dtype=np.intp)
        self.b, self.alpha = np.zeros(0), np.zeros(0)
        self.owner = np.zeros(0, dtype=np.intp)
        self.add(features.truth)

    @property
    def n_columns(self) -> int:
        return len(self.b)

    def add(self, labels: Labels, wanted: Flags | None = None) -> int:
        """Add one labelling (P,) of all examples, or only of those ``wanted`` (N,); returns how many were new."""
        problem, new = self.problem, []
        for i in range(problem.n_examples) if wanted is None else np.flatnonzero(wanted):
            deadline.check()
            part = labels[self._start[i] : self._start[i + 1]]
            key = (int(i), part.astype(np.int32).tobytes())
            if key not in self._keys:
                self._keys.add(key)
                self._labels.append(part.copy())
                new.append(int(i))
        examples = np.array(new, dtype=np.intp)
        self.b = np.concatenate((self.b, problem.loss.of(labels)[examples]))
        self.owner = np.concatenate((self.owner, examples))
        self.alpha = np.append(self.alpha, np.zeros(len(new)))
        return len(new)

    def adopt(self, witness: Point) -> None:
        """Add the labellings of a dual witness, which restores its lower bound."""
        for labels, share in zip(witness.get("labels", ()), witness.get("label_shares", ())):
            self.add(labels.astype(np.int64), share > 0)

    def columns(self) -> PoolColumns:
        """The columns, by owner: dense where that is cheaper, and with their Gram matrix if there are fewer columns
        than weights and no weight must be >= 0. Only those of labellings that are new are computed."""
        features, old = self.problem.features, self.a.shape[0]
        parts = [self.a]
        for low in range(old, self.n_columns, ROWS):
            deadline.check()
            owner = self.owner[low : low + ROWS]
            rows: Any = self._truth[owner] - features.joint_rows(np.concatenate(self._labels[low : low + ROWS]), owner)
            if self.problem.scaling == "slack":
                rows = sp.diags_array(self.b[low : low + ROWS]) @ rows
            self._nonzeros += rows.nnz if sp.issparse(rows) else int(np.count_nonzero(rows))
            parts.append(rows)
        order = np.argsort(self.owner, kind="stable")
        self.b, self.owner = self.b[order], self.owner[order]
        self.alpha, self._labels = self.alpha[order], [self._labels[j] for j in order]
        self.a = _stacked(parts, self._nonzeros > DENSE_SHARE * len(order) * self.problem.dimension)[order]
        known = self.alpha if self.alpha.any() else None
        if len(order) >= self.problem.dimension or features.associative:
            self._gram = None
            return PoolColumns(self.a, self.b, self.owner, alpha=known)
        large = large_features(self.a)
        if not np.array_equal(large, self._large):
            self._gram, self._large = None, large
        self._gram = self._gram_with(old, order)
        return PoolColumns(self.a, self.b, self.owner, self._gram, known, large)

    def _gram_with(self, old: int, order: Index) -> Matrix:
        """The Gram matrix of the columns without their large features. They are in a new ``order`` (m,): products are
        taken with those alone that were not among the ``old`` first."""
        place = np.argsort(order)  # of each column in the order of before, the new ones last
        gram, known = np.empty((len(order), len(order))), 0
        columns = without(self.a, self._large)
        if self._gram is not None:
            gram[np.ix_(place[:old], place[:old])], known = self._gram, old
        for low in range(known, len(order), ROWS):
            deadline.check()
            rows = place[low : low + ROWS]
            product = columns[rows] @ columns.T
            gram[rows] = product.toarray() if sp.issparse(product) else product
            gram[:, rows] = gram[rows].T
        return gram

    def witness(self, alpha: Vector) -> Callable[[], Point]:
        """A function that makes the dual witness of multipliers alpha (M,) of the present columns: a mixture of
        labellings."""
        problem, features = self.problem, self.problem.features
        labels, owner = self._labels.copy(), self.owner

        def made() -> Point:
            truth = features.truth.astype(label_type(features.n_labels))
            share = np.divide(alpha, problem.ceiling[owner], out=np.zeros(len(alpha)), where=alpha > 0)
            return of_single_labellings(truth, features.node_start, labels, owner, share)

        return made


def large_features(a: Any) -> Index:
    """Which features (d,) of columns a (M, d) are larger than `LARGE` times half of the others, at most M of them."""
    size = abs(a).max(axis=0)
    size = np.ravel(size.toarray() if sp.issparse(size) else size)
    large = np.flatnonzero(size > LARGE * np.median(size[size > 0])) if size.any() else np.zeros(0, dtype=np.intp)
    return np.sort(large[np.argsort(size[large])[-a.shape[0] :]])


def without(a: Any, features: Index) -> Any:
    """Columns a (M, d) with 0 at some ``features``."""
    if not len(features):
        return a
    kept = np.ones(a.shape[1])
    kept[features] = 0.0
    return a @ sp.diags_array(kept) if sp.issparse(a) else a * kept


def _stacked(parts: list[Any], dense: bool) -> Any:
    """Arrays or CSR matrices, one below the other, as an array or as CSR."""
    if dense:
        return np.concatenate([part.toarray() if sp.issparse(part) else part for part in parts])
    return sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts]))
