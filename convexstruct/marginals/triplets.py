"""Sparse matrices: from triplets (row, column, value) gathered piece by piece, and those that sum or pick entries."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Tensor, Vector


class Triplets:
    """Entries of a sparse matrix; those of one place add up."""

    def __init__(self) -> None:
        self.parts: list[tuple[Vector, Index, Index]] = []

    def add(self, rows: Index, columns: Index, values: Tensor | float) -> None:
        """Add ``values`` at (rows, columns); the three are broadcast to the shape of rows and columns together."""
        rows, columns = np.broadcast_arrays(rows, columns)
        self.parts.append((np.broadcast_to(values, rows.shape).ravel(), rows.ravel(), columns.ravel()))

    def matrix(self, shape: tuple[int, int]) -> sp.csr_array:
        """The sparse matrix of ``shape`` with the entries gathered so far."""
        if not self.parts:
            return sp.csr_array(shape, dtype=np.float64)
        values, rows, columns = (np.concatenate(part) for part in zip(*self.parts))
        return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=shape))


def sums_by(group: Index, n_groups: int) -> sp.csr_array:
    """The sparse (n_groups, n) matrix that sums entries by group."""
    n = len(group)
    return sp.csr_array(sp.coo_array((np.ones(n), (group, np.arange(n))), shape=(n_groups, n)))


def picks(entries: Index, n: int) -> sp.csr_array:
    """The sparse (len(entries), n) matrix whose row r picks entry ``entries[r]``."""
    rows = np.arange(len(entries))
    return sp.csr_array(sp.coo_array((np.ones(len(rows)), (rows, entries)), shape=(len(rows), n)))
