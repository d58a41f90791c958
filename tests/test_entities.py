"""Entities of tags: by hand, beside seqeval, and by the counts that conlleval prints."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct.entities import SCHEMES, Score, entities_of, entity_f1, entity_report

MARKS = {"conll": "BIES", "IOB1": "BI", "IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU"}


def tags(scheme: str, length: int | None = None) -> st.SearchStrategy[list[str]]:
    one = st.sampled_from(["O", *(f"{mark}-{kind}" for mark in MARKS[scheme] for kind in ("PER", "LOC"))])
    return st.lists(one, min_size=length or 0, max_size=12 if length is None else length)


@pytest.mark.parametrize(
    ("scheme", "line", "found"),
    [
        ("conll", "B-A I-A O I-A", [("A", 0, 1), ("A", 3, 3)]),
        ("conll", "I-A I-B B-B E-B E-B", [("A", 0, 0), ("B", 1, 1), ("B", 2, 3), ("B", 4, 4)]),
        ("conll", "B I O I-", [("_", 0, 1), ("_", 3, 3)]),
        ("IOB1", "I-A I-A B-A I-B", [("A", 0, 1), ("A", 2, 2), ("B", 3, 3)]),
        ("IOB1", "B-A O I-A", [("A", 2, 2)]),
        ("IOB2", "B-A I-A I-B O I-A", [("A", 0, 1)]),
        ("IOBES", "S-A B-A I-A E-A B-A I-A O E-A", [("A", 0, 0), ("A", 1, 3)]),
        ("BILOU", "U-A B-A L-A B-A I-B", [("A", 0, 0), ("A", 1, 2)]),
    ],
)
def test_entities_by_hand(scheme: str, line: str, found: list[tuple[str, int, int]]) -> None:
    assert entities_of(line.split(), scheme) == found
    assert entities_of(np.array(line.split(), dtype=object), scheme) == found


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_scores_are_those_of_seqeval(scheme: str, data: st.DataObject) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    schemes = pytest.importorskip("seqeval.scheme")
    true = data.draw(st.lists(tags(scheme), min_size=1, max_size=4))
    guessed = [data.draw(tags(scheme, len(one))) for one in true]
    if scheme == "IOB1":  # seqeval takes the I that follow a misplaced B for an entity
        true, guessed = ([_placed(one) for one in several] for several in (true, guessed))
    strict = {} if scheme == "conll" else {"mode": "strict", "scheme": getattr(schemes, scheme)}
    report = entity_report(true, guessed, scheme)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of seqeval, where a ratio is 0 / 0
        expected = metrics.classification_report(true, guessed, output_dict=True, zero_division=0, **strict)
    averages = {"micro avg", "macro avg", "weighted avg"}
    assert set(report.kinds) == set(expected) - averages
    for kind, score in [*report.kinds.items(), ("micro avg", report.all)]:
        row = expected[kind]
        np.testing.assert_allclose((score.precision, score.recall), (row["precision"], row["recall"]))
        np.testing.assert_allclose((score.f1, score.there), (row["f1-score"], row["support"]))
    if report.kinds:
        np.testing.assert_allclose(report.macro_f1, expected["macro avg"]["f1-score"])
    assert entity_f1(true, guessed, scheme) == report.all.f1


def _placed(line: list[str]) -> list[str]:
    """Tags of IOB1 with an I for each B that does not follow its own kind."""
    pairs = zip(["O", *line], line)
    return ["I" + tag[1:] if tag[0] == "B" and before[1:] != tag[1:] else tag for before, tag in pairs]


def test_the_counts_are_those_that_conlleval_prints() -> None:
    """The example of the shared task's page: 3 phrases there, 4 found, 2 of them right."""
    true = [["B-NP", "I-NP", "B-VP", "O"], ["B-NP", "O"]]
    guessed = [["B-NP", "I-NP", "B-VP", "B-NP"], ["I-VP", "O"]]
    report = cs.entity_report(true, guessed)
    assert report.all == Score(right=2, predicted=4, there=3)
    assert report.kinds == {"NP": Score(1, 2, 2), "VP": Score(1, 2, 1)}
    assert (report.all.precision, report.all.recall, report.all.f1) == (0.5, 2 / 3, 4 / 7)
    assert report.macro_f1 == (0.5 + 2 / 3) / 2
    assert str(report).splitlines() == [
        "kind  precision   recall       F1  right  predicted  there",
        "NP       50.00%   50.00%   50.00%      1          2      2",
        "VP       50.00%  100.00%   66.67%      1          2      1",
        "all      50.00%   66.67%   57.14%      2          4      3",
    ]
    assert report.records[-1]["kind"] == "all"


def test_nothing_there_and_nothing_found_is_0() -> None:
    report = entity_report([["O"], []], [["O"], []])
    assert (report.kinds, report.all, report.macro_f1, report.all.f1) == ({}, Score(0, 0, 0), 0.0, 0.0)


@pytest.mark.parametrize(
    ("true", "guessed", "scheme", "text"),
    [
        ([["O"]], [["O"]], "IOB", "scheme is 'IOB'"),
        ([["E-A"]], [["O"]], "IOB2", "an entry of tags is 'E-A', wanted 'O', or a mark of IOB2, '-' and a kind"),
        ([["+-A"]], [["O"]], "conll", r"an entry of tags is '\+-A', wanted 'O'"),
        ([[3]], [["O"]], "conll", "an entry of tags is 3, wanted a string"),
        ([["O"]], [["O", "O"]], "conll", r"y_pred\[0\] has 2 tags, wanted 1 as in y_true"),
        ([["O"]], [], "conll", "y_pred has 0 entries, wanted 1"),
        ("O", "O", "conll", "y_true is 'O', wanted one list"),
    ],
)
def test_malformed_tags_are_refused(true: object, guessed: object, scheme: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        entity_report(true, guessed, scheme)  # type: ignore[arg-type]
