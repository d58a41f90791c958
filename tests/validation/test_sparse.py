"""Sparse matrices that were changed after they were made are refused before SciPy follows their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.validation.sparse import dense, matrix, sparse

DENSE = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


def broken(form: str, change: Callable[[Any], object]) -> Any:
    value = sp.csr_array(DENSE).asformat(form)
    change(value)
    return value


BROKEN: list[tuple[str, Callable[[Any], object]]] = [
    ("csr", lambda A: A.indices.__setitem__(0, 10**6)),
    ("csr", lambda A: A.indices.__setitem__(0, -1)),
    ("csr", lambda A: A.indptr.__setitem__(1, 10**8)),
    ("csr", lambda A: A.indptr.__setitem__(0, 1)),
    ("csr", lambda A: setattr(A, "indptr", A.indptr[:-1])),
    ("csr", lambda A: setattr(A, "data", A.data[:1])),
    ("csr", lambda A: setattr(A, "data", A.data * 1j)),
    ("csr", lambda A: setattr(A, "data", A.data.astype(object))),
    ("csr", lambda A: setattr(A, "indices", A.indices.astype(float))),
    ("csr", lambda A: setattr(A, "indices", A.indices.astype(np.int64) + 2**40)),
    ("csr", lambda A: setattr(A, "_shape", (2, 1))),
    ("csr", lambda A: setattr(A, "_shape", (10**6, 3))),
    ("csc", lambda A: A.indices.__setitem__(0, 10**6)),
    ("csc", lambda A: A.indptr.__setitem__(1, -(10**6))),
    ("bsr", lambda A: A.indices.__setitem__(0, 10**6)),
    ("bsr", lambda A: A.indptr.__setitem__(1, 10**6)),
    ("coo", lambda A: A.row.__setitem__(0, 10**6)),
    ("coo", lambda A: A.col.__setitem__(0, -5)),
    ("coo", lambda A: setattr(A, "data", A.data[:1])),
    ("lil", lambda A: A.rows[0].append(10**6)),
    ("lil", lambda A: A.data[0].extend([1.0] * 1000)),
    ("lil", lambda A: A.rows.__setitem__(0, ["a"])),
    ("dok", lambda A: A._dict.__setitem__((10**6, 0), 1.0)),
    ("dia", lambda A: setattr(A, "offsets", A.offsets[:1])),
]


@pytest.mark.parametrize(("form", "change"), BROKEN, ids=[f"{form}{i}" for i, (form, _) in enumerate(BROKEN)])
def test_a_matrix_whose_arrays_do_not_fit_is_refused(form: str, change: Callable[[Any], object]) -> None:
    with pytest.raises(ValueError, match=r"^X is no valid sparse matrix \(.*\), wanted") as caught:
        matrix("X", broken(form, change))
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_is_read_into_a_copy_that_nobody_writes_to(form: str) -> None:
    given = sp.csr_array(DENSE).asformat(form)
    read = sparse("X", given, "examples", 3)
    if form != "dok":
        given.data[:] = None if form == "lil" else -7.0
    assert isinstance(read, sp.csr_array)
    assert read.toarray().tolist() == DENSE.tolist()
    for array in (read.data, read.indices, read.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    assert sparse("X", read) is read


def test_duplicates_are_summed_and_indices_sorted() -> None:
    given = sp.csr_array(([1.0, 2.0, 4.0], [2, 0, 2], [0, 3]), shape=(1, 3))
    assert sparse("X", given).toarray().tolist() == [[2.0, 0.0, 5.0]]
    huge = sp.csr_array(([1e308, 1e308], [0, 0], [0, 2]), shape=(1, 1))
    for value in (huge, sp.csr_array([[1.0, np.nan]]), sp.csr_array([[1.0, np.inf]])):
        with pytest.raises(ValueError, match="NaN or infinity"):
            sparse("X", value)


def test_shapes_are_those_that_were_wanted_and_what_is_too_large_is_not_written_out() -> None:
    with pytest.raises(ValueError, match=r"X has shape \(2, 3\), wanted \(2, 2\)"):
        matrix("X", sp.csr_array(DENSE), 2, 2)
    with pytest.raises(ValueError, match="at least one of each"):
        matrix("X", sp.csr_array((0, 3)))
    with pytest.raises(ValueError, match="wanted at most 268435456 rows and columns"):
        matrix("X", sp.coo_array((10**9, 10**9)))
    with pytest.raises(ValueError, match="wanted a sparse matrix"):
        sparse("X", DENSE)
    with pytest.raises(ValueError, match="wanted one that can be written out"):
        dense("X", sp.csr_array((10**6, 10**6)))
    assert dense("X", sp.csr_array(DENSE)).tolist() == DENSE.tolist()
    assert dense("X", 3) == 3
