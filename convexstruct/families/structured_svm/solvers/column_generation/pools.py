"""Pools of labellings, one an example: what constraint generation has found so far, as columns of the pool QP."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Labels, Point, Vector
from convexstruct.core.mixtures import label_type, of_single_labellings
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import PoolColumns

#: Columns are held densely where more than this share of their entries is not zero.
DENSE_SHARE = 0.15
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
        self._truth = features.joint_each(features.truth)
        self._keys: set[tuple[int, bytes]] = set()
        self._labels: list[Labels] = []
        self.a = sp.csr_array((0, problem.dimension))
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
        than weights and no weight must be >= 0."""
        features, parts = self.problem.features, [self.a]
        for low in range(self.a.shape[0], self.n_columns, ROWS):
            deadline.check()
            owner = self.owner[low : low + ROWS]
            rows = self._truth[owner] - features.joint_each(np.concatenate(self._labels[low : low + ROWS]), owner)
            slack = self.problem.scaling == "slack"
            parts.append(sp.csr_array(rows.multiply(self.b[low : low + ROWS, None])) if slack else rows)
        order = np.argsort(self.owner, kind="stable")
        self.a, self.b, self.owner = sp.csr_array(sp.vstack(parts))[order], self.b[order], self.owner[order]
        self.alpha, self._labels = self.alpha[order], [self._labels[j] for j in order]
        m, d = self.a.shape
        dense = self.a.nnz > DENSE_SHARE * m * d
        a = self.a.toarray() if dense else self.a
        gram = None
        if m < d and not features.associative:
            gram = np.empty((m, m))
            for low in range(0, m, ROWS):
                deadline.check()
                product = a[low : low + ROWS] @ a.T
                gram[low : low + ROWS] = product.toarray() if sp.issparse(product) else product
        return PoolColumns(a, self.b, self.owner, gram, self.alpha if self.alpha.any() else None)

    def witness(self, alpha: Vector) -> Point:
        """The dual witness of multipliers alpha (M,) of the columns: a mixture of labellings."""
        problem, features = self.problem, self.problem.features
        truth = features.truth.astype(label_type(features.n_labels))
        ceiling = problem.ceiling[self.owner]
        share = np.divide(alpha, ceiling, out=np.zeros(len(alpha)), where=alpha > 0)
        return of_single_labellings(truth, self._start, self._labels, self.owner, share)
