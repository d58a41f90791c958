r"""The linear map of pieces that take few of the scores: A of a risk of several outputs, with dense features.

A piece takes one or two of the scores <w_o, x_i>. A pair of a row i and an output o is called a cell. Near an optimum
the pieces that move take a few cells in a hundred. The rows of X of these cells are copied, sorted by output, so that
the scores of an output are one product of its rows with w_o.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Matrix, Vector

#: Rows are copied where cells are at most this share of all scores of the rows that take part: a product with more
#: takes longer than one matrix product for all of these scores.
CELLS_SHARE = 0.2
#: Numbers that are copied at most, a guard of memory: they take 64 MB.
MOST_COPIED = 1 << 23


@dataclass(frozen=True, eq=False)
class Cells:
    """A of some pieces.

    X : (n, d) the features. rows (c,) : of X, one a cell; cells are sorted by output. ends (K + 1,) : the first cell of
    each output. combine : (m, c) pieces of the scores of the cells.
    """

    X: Matrix
    rows: Index
    ends: Index
    combine: sp.csr_array

    @classmethod
    def of(cls, X: Any, combine: sp.csr_array, n_outputs: int) -> Cells | None:
        """Of the pieces ``combine`` (m, n K) of the scores of X, row by row; None where that is no gain."""
        n, d = X.shape
        if n_outputs == 1 or sp.issparse(X):
            return None
        example, output = np.divmod(combine.indices, n_outputs)
        place = output.astype(np.intp) * n + example
        number = np.zeros(n * n_outputs, dtype=np.int32)
        number[place] = 1
        cells = np.flatnonzero(number)
        taken = np.count_nonzero(np.bincount(example, minlength=n))
        if len(cells) > CELLS_SHARE * n_outputs * taken or len(cells) * d > MOST_COPIED:
            return None
        number[cells] = np.arange(len(cells), dtype=np.int32)
        output, rows = np.divmod(cells, n)
        ends = np.searchsorted(output, np.arange(n_outputs + 1))
        places = number[place], combine.indptr.astype(np.int32)
        return cls(X, rows, ends, sp.csr_array((combine.data, *places), shape=(combine.shape[0], len(cells))))

    def only(self, kept: Flags) -> Cells:
        """The same without the scores of the other cells, which then count as 0."""
        entries = kept[self.combine.indices]
        number = np.concatenate(([0], np.cumsum(kept, dtype=np.int32)))
        before = np.concatenate(([0], np.cumsum(entries, dtype=np.int32)))
        places = number[self.combine.indices[entries]], before[self.combine.indptr]
        combine = sp.csr_array((self.combine.data[entries], *places), shape=(self.combine.shape[0], int(number[-1])))
        return Cells(self.X, self.rows[kept], number[self.ends], combine)

    @cached_property
    def parts(self) -> list[Matrix]:
        """For each output, the rows of X of its cells."""
        return np.split(self.X[self.rows], self.ends[1:-1])

    @cached_property
    def _back(self) -> sp.csr_array:
        """The transpose of ``combine``, made once."""
        return sp.csr_array(self.combine.T)

    @cached_property
    def places(self) -> list[slice]:
        """Of the cells of each output."""
        return [slice(low, high) for low, high in zip(self.ends[:-1], self.ends[1:])]

    def forward(self, w: Vector) -> Vector:
        """A w; (m,)."""
        deadline.check()
        scores = np.empty(self.ends[-1])
        for part, place, own in zip(self.parts, self.places, w.reshape(len(self.parts), -1)):
            np.dot(part, own, out=scores[place])
        return np.asarray(self.combine @ scores)

    def adjoint(self, alpha: Vector) -> Vector:
        """A' alpha; (K d,)."""
        deadline.check()
        weights = self._back @ alpha
        found = np.empty((len(self.parts), self.X.shape[1]))
        for part, place, own in zip(self.parts, self.places, found):
            np.dot(weights[place], part, out=own)
        return found.ravel()
