"""A sparse matrix from triplets (row, column, value) that are gathered piece by piece."""

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
