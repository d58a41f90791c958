"""The svmlight text format: one row a line, ``label index:value index:value ...``, indices from 1, ``#`` a comment.

Indices rise strictly within a line; entries that a line does not name are zero. The width of the table is an argument,
because the text does not show it: its last columns may be zero everywhere.
"""

from __future__ import annotations

import re

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.validation.arguments import sentence, text_of, whole

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_ROW = re.compile(rf"{_NUMBER}(?:\s+\d+:{_NUMBER})*\s*", re.ASCII)


def parse(text: str, n_features: int) -> tuple[sp.csr_array, Vector]:
    """Read an svmlight text as a sparse table and its labels.

    Parameters
    ----------
    text : lines as above; empty lines and comments are no rows.
    n_features : F, the columns of the table.

    Returns
    -------
    features (n, F), in canonical form (sorted, no duplicates), and labels (n,).

    Raises
    ------
    ValueError
        If F is below 1, there is no row, or a line is not a label and pairs ``index:value`` of finite numbers whose
        indices rise from 1 to at most F.
    """
    text, n_features = text_of("text", text), whole("n_features", n_features, least=1)
    rows, numbers, counts = [], [], []
    for number, line in enumerate(text.splitlines(), start=1):
        row = line.partition("#")[0].strip()
        if not row:
            continue
        if _ROW.fullmatch(row) is None:
            raise sentence(f"line {number} of the svmlight text is {line[:60]!r}, wanted a label and index:value ...")
        rows.append(row)
        numbers.append(number)
        counts.append(row.count(":"))
    if not rows:
        raise ValueError("the svmlight text holds no row, wanted at least one")
    indptr = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    flat = np.array(" ".join(rows).replace(":", " ").split(), dtype=np.float64)
    first = 2 * indptr[:-1] + np.arange(len(rows))  # a row holds its label and two numbers an entry
    pairs = np.delete(flat, first).reshape(-1, 2)
    owner = np.repeat(np.arange(len(rows)), counts)
    columns, values = pairs[:, 0] - 1, pairs[:, 1]
    wrong = (columns < 0) | (columns >= n_features) | ~np.isfinite(values)
    wrong[1:] |= (np.diff(columns) <= 0) & (np.diff(owner) == 0)
    bad = np.concatenate((owner[wrong], np.flatnonzero(~np.isfinite(flat[first]))))
    if bad.size:
        raise sentence(
            f"line {numbers[bad.min()]} of the svmlight text must hold finite numbers and indices that rise from 1 to "
            f"at most {n_features}, got {rows[bad.min()][:60]!r}"
        )
    # indices of 32 bits where they fit: scikit-learn's LinearSVC and others refuse those of 64
    whole_type = np.int32 if max(indptr[-1], n_features) < 2**31 else np.int64
    arrays = np.ascontiguousarray(values), columns.astype(whole_type), indptr.astype(whole_type)
    return sp.csr_array(arrays, shape=(len(rows), n_features)), flat[first]
