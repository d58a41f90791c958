"""Kept labellings: columns over the entries of w that they have, and their Gram matrix."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.structured_svm.solvers.kept_labellings import Column, Kept
from convexstruct.tolerances import ROUNDING

D = 12


def drawn(rng: np.random.Generator, n: int, sparse: bool) -> tuple[list[Column], np.ndarray]:
    """n columns, some without an entry, some with several at one place; and the same as a table (n, D)."""
    columns, table = [], np.zeros((n, D))
    for row in table:
        k = int(rng.integers(0, 6)) if sparse else D
        place, value = (rng.integers(D, size=k) if sparse else np.arange(D)), rng.normal(size=k)
        np.add.at(row, place, value)
        columns.append(Column(place if sparse else None, value))
    return columns, table


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_stay_those_of_a_table_as_labellings_come_and_go(sparse: bool) -> None:
    rng, where = np.random.default_rng(0), np.full(D, -1)
    for _ in range(20):
        each, table = Kept(b"0", 2.0), np.zeros((1, D))
        for step in range(6):
            columns, more = drawn(rng, 1 + step % 3, sparse)
            each.extend(columns, where)
            for j in range(len(columns)):
                each.add(bytes([step, j]), float(j))
            table = np.vstack((table, more))
            if step % 2:
                kept = np.append(0, 1 + np.flatnonzero(rng.random(len(table) - 1) < 0.6))
                labels = [each.labels[j] for j in kept]
                each.take(kept)
                table = table[kept]
                assert each.labels == labels
            whole = np.zeros((len(table), D))
            assert each.a is not None
            whole[:, each.place] = each.a
            np.testing.assert_allclose(whole, table, atol=ROUNDING)
            np.testing.assert_allclose(each.gram, table @ table.T, atol=ROUNDING)
            assert len(each.labels) == len(each.alpha) == len(each.b) == len(table)
            assert (where == -1).all()
            assert each.held == each.a.size + each.gram.size + each.a.shape[1]
        each.release()
        assert each.held == 0
        assert len(each.labels) == len(table)


def test_a_labelling_without_multiplier_is_dropped_and_the_truth_never_is() -> None:
    each = Kept(b"0", 1.0)
    each.add(b"1", 1.0)
    each.add(b"2", 1.0)
    each.alpha = np.array([0.0, 1.0, 0.0])
    each.settle()
    assert each.labels == [b"0", b"1"]
