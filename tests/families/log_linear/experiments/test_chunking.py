"""The parts of the experiment on chunks, on made-up sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.datasets.real.conll2000 import CHUNKS
from convexstruct.families.log_linear.experiments import chunking
from convexstruct.tolerances import LOW
from tests.families.quick_runs import quick, sentences

NUMBER = {chunk: at for at, chunk in enumerate(CHUNKS)}


def labels(*tags: str) -> np.ndarray:
    return np.array([NUMBER[tag] for tag in tags])


def test_f1_counts_whole_chunks_of_the_right_kind() -> None:
    right = [labels("B-NP", "I-NP", "O", "B-VP")]
    assert chunking.f1(right, right) == 1.0
    assert chunking.f1([labels("B-NP", "O", "O", "B-VP")], right) == 0.5
    assert chunking.f1([labels("B-NP", "I-NP", "O", "B-PP")], right) == 0.5
    assert chunking.f1([labels("O", "O", "O", "O")], right) == 0.0


def test_features_are_of_the_window_and_stop_at_the_ends() -> None:
    rows = chunking.features(sentences(1, 0).sentence(0))
    assert {"bias", "w[0]=.", "tt[-1]=NN|." if "t[-1]=NN" in rows[-1] else "tt[-1]=PRP|."} <= set(rows[-1])
    assert not any(name.startswith(("w[1]", "tt[0]")) for name in rows[-1])
    assert not any(name.startswith(("w[-1]", "tt[-1]", "ttt[-1]")) for name in rows[0])


def test_a_feature_that_is_rare_has_no_column_and_one_that_is_new_is_left_out() -> None:
    rows = [["a", "b"], ["a"], ["c", "a"]]
    columns = chunking.often(rows, 2)
    assert columns == {"a": 0}
    assert chunking.table([["a", "never seen"], ["b"]], columns).toarray().tolist() == [[1.0], [0.0]]


@pytest.mark.slow
def test_each_method_learns_what_the_words_say() -> None:
    result = quick("chunking").result
    rows = {str(row[0]).split(",")[0]: dict(zip(result.columns, row)) for row in result.rows}
    assert {"CRF", "M3N", "perceptron", "MIRA"} <= set(rows)
    assert [row[0] for row in result.rows if row[-1] is not None and row[-1] != 1.0] == []
    margin: Any = rows["M3N"]
    assert 0 < margin["lower bound"] <= margin["objective"]
    assert margin["gap"] <= LOW.gap
    assert rows["MIRA"]["objective"] is None  # it minimises nothing
