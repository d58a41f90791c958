"""Work cut into blocks whose arrays stay in the processor's cache."""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Labels, Matrix, Vector

#: Numbers (1 MiB of them) in the working arrays of one block of chains, examples, cliques or samples, so that these
#: stay in the cache; in much smaller blocks most of the time is that of NumPy's calls.
BLOCK = 1 << 17


def row_max(values: Matrix) -> Vector:
    """The largest entry of each row; column by column for rows of up to 48 entries, where NumPy's maximum is slow."""
    if values.shape[1] > 48:
        return np.asarray(values.max(axis=1))
    top = values[:, 0].copy()
    size = max(1, BLOCK // values.shape[1])
    for low in range(0, len(values), size):
        some, best = values[low : low + size], top[low : low + size]
        for label in range(1, values.shape[1]):
            np.maximum(best, some[:, label], out=best)
    return top


def copy_by_columns(values: Matrix, out: Matrix) -> None:
    """Copy ``values`` to ``out``, both (k, n), of which one holds its rows and the other its columns one after the
    other: some columns at a time, else each entry would be a line of the cache of its own."""
    size = max(1, BLOCK // (16 * max(len(values), 1)))
    for low in range(0, values.shape[1], size):
        out[:, low : low + size] = values[:, low : low + size]


def column_argmax(values: Matrix) -> Labels:
    """The row of the first largest entry of each column, as by argmax, which takes two to four times as long on columns
    of up to 20 entries. Of a column with NaN it is the last row."""
    countdown = np.arange(len(values) - 1, -1, -1, dtype=np.min_scalar_type(len(values)))
    largest = values == values.max(axis=0)
    return np.asarray(len(values) - 1 - (largest * countdown[:, None]).max(axis=0).astype(np.int64))
