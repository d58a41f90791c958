"""Readers of sparse matrices, which check every index: SciPy's compiled code does not.

A matrix whose arrays were changed after it was made may hold indices outside its shape, and the first product or
conversion then reads and writes foreign memory. So every array is copied and checked before SciPy converts anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels, Vector
from convexstruct.validation.arguments import MOST_ENTRIES, refuse, sentence
from convexstruct.validation.arrays import is_frozen, real, said


def sparse(name: str, value: Any, *shape: int | str, what: str = "numbers", why: str = "") -> sp.csr_array:
    """A copy as a CSR array in double precision: duplicates summed, indices sorted, none of its arrays writeable.
    ValueError if it is no sparse matrix of finite real numbers, has another shape, or indices that lie outside it.

    ``shape`` is two entries as in `convexstruct.validation.arrays.real`; none stands for any two-dimensional shape.
    """
    wanted = f"a sparse matrix {said(tuple(shape))} of {what}" if shape else f"a sparse matrix of {what}"
    if not sp.issparse(value):
        refuse(name, value, wanted)
    lengths = tuple(shape) or ("rows", "columns")
    _fits(name, value, lengths, why)
    if isinstance(value, sp.csr_array) and _kept(value):
        read = value
    else:
        try:
            read = _copied(value)
        except Exception as error:  # any: arrays of the wrong kinds or lengths, keys that are no indices
            why = str(error) if type(error) is ValueError else "its arrays do not fit each other"
            raise sentence(f"{name} is no valid sparse matrix ({why}), wanted {wanted}") from None
    if not np.isfinite(read.data).all():
        raise sentence(f"{name} contains NaN or infinity, wanted finite {what}")
    for array in (read.data, read.indices, read.indptr):
        array.setflags(write=False)
    return read


def _fits(name: str, value: Any, wanted: tuple[int | str, ...], why: str) -> None:
    """Refuse a shape before anything is copied: the index pointers of 10^9 empty rows take 8 GB."""
    shape = tuple(value.shape)
    if len(shape) != 2 or any(n < 1 if isinstance(w, str) else n != w for n, w in zip(shape, wanted)):
        came, end = ("is empty, of", "at least one of each") if 0 in shape else ("has", why)
        raise sentence(f"{name} {came} shape {shape}, wanted {said(wanted)}{': ' if end else ''}{end}")
    if max(shape) > MOST_ENTRIES:
        raise sentence(f"{name} has shape {shape}, wanted at most {MOST_ENTRIES} rows and columns")


def matrix(name: str, value: Any, *shape: int | str, what: str = "numbers", why: str = "") -> Any:
    """A read-only copy of a matrix of real numbers: CSR if it came sparse, else dense."""
    if sp.issparse(value):
        return sparse(name, value, *shape, what=what, why=why)
    return real(name, value, tuple(shape) or ("rows", "columns"), what=what, why=why)


def dense(name: str, value: Any) -> Any:
    """``value``, written out if it is sparse and small enough; anything else as it is."""
    if not sp.issparse(value):
        return value
    read = sparse(name, value)
    if read.shape[0] * read.shape[1] > 2**30:  # 8 GiB in double precision
        raise sentence(f"{name} is a sparse matrix of shape {read.shape}, wanted one that can be written out")
    return read.toarray()


def _kept(value: sp.csr_array) -> bool:
    """Whether it came from `sparse` before and cannot have been changed since."""
    arrays = (value.data, value.indices, value.indptr)
    return all(is_frozen(a) for a in arrays) and value.data.dtype == np.float64 and _sound(value)


def _sound(value: sp.csr_array) -> bool:
    """Whether the arrays of a CSR array fit each other and its shape."""
    rows, columns = value.shape
    indptr, indices = value.indptr, value.indices
    return bool(
        indptr.dtype.kind == indices.dtype.kind == "i"
        and indptr.shape == (rows + 1,)
        and indices.shape == value.data.shape == (indptr[-1],)
        and indptr[0] == 0
        and (np.diff(indptr) >= 0).all()
        and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < columns))
        and value.has_canonical_format
    )


def _copied(value: Any) -> sp.csr_array:
    """A checked copy in CSR form; ValueError says what does not fit."""
    shape = tuple(int(n) for n in value.shape)
    if len(shape) != 2:
        raise ValueError(f"it has {len(shape)} dimensions")
    if value.format in ("csr", "csc", "bsr"):
        kind = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[value.format]
        data = _numbers(value.data)
        blocks = data.shape[1:] if value.format == "bsr" else (1, 1)
        if len(blocks) != 2 or 0 in blocks or any(n % b for n, b in zip(shape, blocks)):
            raise ValueError(f"its blocks have the shape {blocks}")
        major, minor = (shape[0] // blocks[0], shape[1] // blocks[1])
        if value.format == "csc":
            major, minor = minor, major
        indptr, indices = _indices(value.indptr, None), _indices(value.indices, minor)
        if indptr.shape != (major + 1,) or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise ValueError("its index pointers do not rise from 0, one a row")
        if indptr[-1] > len(indices) or len(indices) != len(data):
            raise ValueError("its indices, data and index pointers are of different lengths")
        made = kind((data, indices, indptr), shape=shape)
        made.check_format(full_check=True)
    else:
        made = _by_entries(value, shape)
    read = sp.csr_array(made)
    with np.errstate(over="ignore", invalid="ignore"):
        read.sum_duplicates()
    read.data = np.array(read.data)  # arrays of our own, no views of longer ones
    read.indices, read.indptr = np.array(read.indices), np.array(read.indptr)
    return read


def _by_entries(value: Any, shape: tuple[int, ...]) -> Any:
    """COO from a matrix in a form that is kept by entries, rows of lists, keys or diagonals."""
    if value.format == "coo":
        data, rows, columns = value.data, value.row, value.col
    elif value.format == "lil":
        lengths = [len(row) for row in value.rows]
        if lengths != [len(row) for row in value.data] or len(lengths) != shape[0]:
            raise ValueError("its rows of indices and of data are of different lengths")
        rows = np.repeat(np.arange(shape[0]), lengths)
        columns = np.array([i for row in value.rows for i in row], dtype=None if sum(lengths) else np.intp)
        data = np.array([x for row in value.data for x in row], dtype=None if sum(lengths) else np.float64)
    elif value.format == "dok":
        entries = list(value.items())
        rows, columns = np.array([key for key, _ in entries], dtype=None if entries else np.intp).reshape(-1, 2).T
        data = np.array([x for _, x in entries], dtype=None if entries else np.float64)
    elif value.format == "dia":
        offsets, diagonals = _indices(value.offsets, None, signed=True), _numbers(value.data)
        if diagonals.ndim != 2 or len(offsets) != len(diagonals):
            raise ValueError("its diagonals and their offsets are of different lengths")
        at = np.broadcast_to(np.arange(diagonals.shape[1]), diagonals.shape)
        row = at - offsets[:, None]
        inside = (row >= 0) & (row < shape[0]) & (at < shape[1])
        data, rows, columns = diagonals[inside], row[inside], at[inside]
    else:
        raise ValueError(f"its format is {value.format}")
    data, rows, columns = _numbers(data), _indices(rows, shape[0]), _indices(columns, shape[1])
    if not data.shape == rows.shape == columns.shape:
        raise ValueError("its rows, columns and data are of different lengths")
    return sp.coo_array((data, (rows, columns)), shape=shape)


def _numbers(data: Any) -> Vector:
    array = np.asarray(data)
    if array.dtype.kind not in "iuf" or isinstance(data, np.ma.MaskedArray):
        raise ValueError(f"it holds {array.dtype}, no real numbers")
    with np.errstate(over="ignore"):
        return np.array(array, dtype=np.float64)


def _indices(given: Any, size: int | None, signed: bool = False) -> Labels:
    """A copy of an array of indices, all from 0 to ``size`` - 1."""
    array = np.asarray(given)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError("its indices are no flat array of whole numbers")
    if len(array) and not signed and (array.min() < 0 or (size is not None and array.max() >= size)):
        raise ValueError(f"it has the index {array.min() if array.min() < 0 else array.max()} outside its shape")
    return np.array(array, dtype=np.int64)
