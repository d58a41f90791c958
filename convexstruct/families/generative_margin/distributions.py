"""Reading c: one distribution for each block of theta, as a vector (d,) or as one array a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Vector
from convexstruct.graphs import TableLayout
from convexstruct.tolerances import SUM_TO_ONE
from convexstruct.validation.arguments import described, listed, sentence
from convexstruct.validation.arrays import real


def default_c(c: ArrayLike | Mapping[Any, ArrayLike] | None, tables: TableLayout) -> Vector:
    """c as a vector: uniform if None, stacked if a mapping of tables."""
    if c is None:
        return (1.0 / tables.block_sizes)[tables.block_of]
    if isinstance(c, Mapping):
        if set(c) != set(tables.names):
            raise sentence(f"c has the tables {listed(c)}, wanted {sorted(map(str, tables.names))}")
        return stacked("c", c, tables, finite=True)
    return real("c", c, (tables.dimension,))


def stacked(name: str, given: Mapping[Any, ArrayLike], tables: TableLayout, finite: bool) -> Vector:
    """One vector (d,) from one array for each table."""
    parts = [
        real(f"{name}[{described(table)}]", given[table], shape, finite=finite, keep=False)
        for table, shape in zip(tables.names, tables.shapes)
    ]
    return np.concatenate([part.ravel() for part in parts])


def read_distributions(name: str, values: ArrayLike, tables: TableLayout) -> Vector:
    """Validate one distribution a block. ValueError if the shape is wrong, a value is not finite or negative, or a
    block is all zero or does not sum to one."""
    array = real(name, values, (tables.dimension,), what="distributions")
    if (array < 0).any():
        at = tables.block_name(int(tables.block_of[np.argmin(array)]))
        raise ValueError(f"{name} of {at} has a negative entry ({array.min():g}), wanted a distribution")
    sums = tables.block_sum(array)
    if (sums == 0).any():
        raise ValueError(f"{name} of {tables.block_name(int(np.argmin(sums)))} is all zero, wanted a distribution")
    if (np.abs(sums - 1) > SUM_TO_ONE).any():
        block = int(np.argmax(np.abs(sums - 1)))
        raise ValueError(f"{name} of {tables.block_name(block)} sums to {sums[block]:g}, wanted a distribution: 1")
    return array
