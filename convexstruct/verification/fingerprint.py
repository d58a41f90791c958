"""A short hash of a problem's data, which shows whether a generator changed, or a solver changed its input."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import OPTIONAL, ROUNDING_BOUND
from convexstruct.inference.shards import Workers


def fingerprint(value: Any, *, exact: bool = False) -> str:
    """A hash of all data reachable from ``value``: dataclass fields, mappings, sequences, arrays, graphs; and the names
    of functions of modules. TypeError if it meets something that is not data.

    Floats are rounded to ten significant digits first, so that the hash does not depend on the last bits, in which
    machines differ, and fields that bound rounding are left out; ``exact`` takes every bit of all. What a dataclass
    derives from its fields (caches, fields with ``init=False``) is not data.
    """
    digest = hashlib.sha256()
    _feed(digest, value, exact)
    return digest.hexdigest()[:16]


def _feed(digest: Any, value: Any, exact: bool) -> None:
    digest.update(f"<{type(value).__name__}>".encode())
    if value is None or isinstance(value, (str, bool, int, np.integer, np.bool_)):
        digest.update(str(value).encode())
    elif isinstance(value, (float, np.floating)):
        _feed(digest, np.asarray(value, dtype=np.float64), exact)
    elif isinstance(value, np.ndarray):
        digest.update(str(value.shape).encode())
        if value.dtype.hasobject:
            _feed(digest, value.tolist(), exact)
        elif np.issubdtype(value.dtype, np.floating) and not exact:
            digest.update(" ".join(f"{number + 0.0:.9e}" for number in value.ravel().tolist()).encode())
        elif np.issubdtype(value.dtype, np.integer) and not exact:
            digest.update(value.astype(np.int64).tobytes())
        else:
            digest.update(np.ascontiguousarray(value).tobytes())
    elif sp.issparse(value):
        table = value.tocoo()
        order = np.lexsort(table.coords)
        for part in (np.array(table.shape), *(axis[order] for axis in table.coords), table.data[order]):
            _feed(digest, part, exact)
    elif isinstance(value, nx.Graph):
        _feed(digest, [(repr(node), dict(data)) for node, data in value.nodes(data=True)], exact)
        _feed(digest, [(repr(a), repr(b), dict(data)) for a, b, data in value.edges(data=True)], exact)
    elif is_dataclass(value) and not isinstance(value, type):
        for name, part in data_of(value, bounds=exact):
            digest.update(name.encode())
            _feed(digest, part, exact)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            digest.update(repr(key).encode())
            _feed(digest, part, exact)
    elif isinstance(value, (list, tuple, frozenset)):
        for part in sorted(value) if isinstance(value, frozenset) else value:
            _feed(digest, part, exact)
    elif callable(value) and "<" not in getattr(value, "__qualname__", "<"):  # a function by its name, no lambda
        _feed(digest, f"{value.__module__}.{value.__qualname__}", exact)
    else:
        raise TypeError(f"cannot take the fingerprint of a {type(value).__name__}")


def data_of(value: Any, bounds: bool = True) -> Iterator[tuple[str, Any]]:
    """(name, value) of each field of a dataclass that is data: not those it derives, nor ``OPTIONAL`` ones of None, nor
    where the examples lie (`Workers`).

    bounds : with those that bound the rounding of others.
    """
    for entry in fields(value):
        part = getattr(value, entry.name)
        known = bounds or entry.metadata != ROUNDING_BOUND
        absent = isinstance(part, Workers) or (part is None and entry.metadata == OPTIONAL)
        if entry.init and known and not absent:
            yield entry.name, part
