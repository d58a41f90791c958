"""The values that the readers of arrays accept and refuse; what they return is read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.malformed import Hostile
from convexstruct.validation.arguments import SENTENCE_CHARACTERS
from convexstruct.validation.arrays import flags, frozen, labels, real, wholes
from tests.validation.test_arguments import NONSENSE

LOOP: list[Any] = []
LOOP.append(LOOP)

#: Values that are no array of real numbers.
NO_ARRAYS: list[Any] = [
    *NONSENSE, None, "abc", {"a": 1}, [1, "a"], [1, None], [True, 2], [[1, 2], [3]], [1j], LOOP, [Hostile()],
    [[1.0, Hostile()]], np.array([1j]), np.array(["a"]), np.array([None]), np.array(["2020"], dtype="M8[Y]"),
    np.array([1], dtype="m8[s]"), np.array([(1, 2.0)], dtype="i4,f8"), np.array([True]), [10**30],
    np.ma.array([1.0, 2.0], mask=[False, True]), [np.ma.masked, 1.0], [np.datetime64("2020")],
    [np.timedelta64(1, "s"), 1], sp.csr_array((1, 3)), [sp.csr_array((1, 3))],
]  # fmt: skip


def refused(value: Any, *shapes: Any, reader: Any = real, **options: Any) -> str:
    with pytest.raises(ValueError, match="wanted") as caught:
        reader("X", value, *shapes, **options)
    assert type(caught.value) is ValueError
    text = str(caught.value)
    assert text.startswith("X")
    assert len(text) <= SENTENCE_CHARACTERS
    return text


def test_what_is_no_array_of_real_numbers_is_refused_in_a_sentence() -> None:
    for value in NO_ARRAYS:
        refused(value)
        refused(value, reader=wholes)


def test_shapes_and_values_are_those_that_were_wanted() -> None:
    assert refused(np.ones(3), ("n", 2)) == "X has shape (3,), wanted (n, 2)"
    assert refused(np.ones((0, 2)), ("n", 2)) == "X is empty, of shape (0, 2), wanted (n, 2): at least one of each"
    assert refused(3.0, ("n",)) == "X has shape (), wanted (n,)"
    assert refused([1, np.nan]) == "X contains NaN or infinity, wanted finite numbers"
    assert refused([1, np.inf]) == "X contains NaN or infinity, wanted finite numbers"
    assert refused([np.longdouble("1e4000")]) == "X contains NaN or infinity, wanted finite numbers"
    assert refused([1, 0], positive=True) == "X holds 0, wanted positive numbers"
    assert refused([1, -1], least=0) == "X holds -1, wanted numbers of at least 0"
    assert refused([1, 2.7], reader=wholes, least=0, most=4) == "X[1] is 2.7, wanted a whole number from 0 to 4"
    assert refused([1, 7], reader=wholes, least=0, most=4) == "X[1] is 7, wanted a whole number from 0 to 4"
    assert refused([2**63], reader=wholes).endswith("wanted a whole number")
    assert refused([1e19], reader=wholes).endswith("wanted a whole number")
    assert refused([0, 1], reader=flags) == "X holds int64, wanted True and False"


def test_a_shape_is_refused_before_anything_is_copied() -> None:
    assert refused(np.broadcast_to(1.0, (10**10,)), (3,)) == "X has shape (10000000000,), wanted (3,)"
    assert "wanted (n,) numbers: at most" in refused(np.broadcast_to(1.0, (10**12,)), ("n",))


def test_what_is_kept_is_a_copy_that_nobody_writes_to() -> None:
    given = np.arange(6.0).reshape(2, 3)
    kept = real("X", given)
    given[:] = -1
    assert kept.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0] = 1
    assert real("X", kept) is kept
    view = kept[:1]
    assert real("X", view) is not view
    assert frozen(np.arange(3)).flags.writeable is False
    for read in (wholes("X", [1, 2]), flags("X", [True]), labels("y", ["a", "b"], 2)):
        assert not read.flags.writeable


def test_labels_are_of_one_kind() -> None:
    assert labels("y", np.array(["a", "b"], dtype=object), 2).tolist() == ["a", "b"]
    assert labels("y", [True, False], 2).tolist() == [True, False]
    for value in ([1, "a"], [1, None], [1.0, np.nan], [1j, 2], np.array([1, "a"], dtype=object), np.ones((2, 1)), "ab"):
        with pytest.raises(ValueError, match=r"^y .*wanted"):
            labels("y", value, 2)
