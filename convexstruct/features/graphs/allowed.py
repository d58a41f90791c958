"""Labels of nodes that are not all known: a reader of the sets of labels that nodes may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Flags
from convexstruct.validation.arguments import sentence, sequence, whole
from convexstruct.validation.arrays import flags, raw, wholes


def read_allowed(allowed: Sequence[ArrayLike], n_labels: int | None) -> list[Flags]:
    """Which labels each node may have: (n_i, S) flags, one array an example.

    Parameters
    ----------
    allowed : a list of one array for each example: booleans (n_i, S), True where a node may have a label, or labels
        (n_i,), -1 where a node's is not known. n_labels : S; needed where all arrays are of labels.

    Raises
    ------
    ValueError
        If an array is none of these, S is unknown, or a node is left without any label.
    """
    given = sequence("allowed", allowed, "a list of one array for each of at least one example", least=1)
    size = _n_labels(given) if n_labels is None else whole("n_labels", n_labels, least=1)
    return [_read_one(f"allowed[{i}]", one, size) for i, one in enumerate(given)]


def _n_labels(listed: Sequence[Any]) -> int:
    """S, from the first array of flags."""
    for i, one in enumerate(listed):
        array = raw(f"allowed[{i}]", one)
        if array.ndim == 2:
            return int(array.shape[1])
    raise ValueError("n_labels is None, wanted the number of labels where allowed has no array of flags")


def _read_one(name: str, given: Any, size: int) -> Flags:
    """(n_i, S) flags, from flags or from labels with -1 for what is not known."""
    if raw(name, given).ndim == 2:
        part = flags(name, given, ("nodes", size), why="one entry a node and label")
    else:
        labels = wholes(name, given, ("nodes",), least=-1, most=size - 1, why="one label a node, -1 where not known")
        part = (labels[:, None] == np.arange(size)) | (labels < 0)[:, None]
    empty = np.flatnonzero(~part.any(axis=1))
    if len(empty):
        raise sentence(f"{name} allows no label at node {int(empty[0])}, wanted at least one")
    return part
