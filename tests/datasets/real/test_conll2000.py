"""Chunked sentences: small texts, and the real ones where they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from convexstruct.datasets import conll2000
from convexstruct.datasets.real.conll2000 import CHUNKS, Token, parse
from convexstruct.entities import entities_of

TEXT = """Confidence NN B-NP
in IN B-PP
the DT B-NP
pound NN I-NP
. . O


# # O
one CD B-NP
"""


def test_an_empty_line_closes_a_sentence_and_several_count_once() -> None:
    sentences = parse(f"\n\n{TEXT}\n\n")
    assert sentences.n_sentences == parse("a b O\n\nc d O").n_sentences == 2
    assert sentences.sentence_start.tolist() == [0, 5, 7]
    assert sentences.sentence(0)[:2] == [("Confidence", "NN", "B-NP"), ("in", "IN", "B-PP")]
    assert sentences.sentence(1)[0] == Token("#", "#", "O")


def test_a_range_of_sentences_keeps_their_tokens() -> None:
    sentences = parse(TEXT)
    assert sentences.between(1).sentence(0) == sentences.sentence(1)
    assert sentences.between(0, 1).sentence_start.tolist() == [0, 5]
    assert sentences.between(0, 99).n_sentences == 2
    with pytest.raises(ValueError, match="first is 2, wanted"):
        sentences.between(2)


def test_the_real_sentences_have_the_published_counts(present: Callable[[str], None]) -> None:
    present("conll2000")
    for part, n_sentences, n_tokens, n_noun_phrases, n_tags in (
        ("train", 8936, 211_727, 55_081, 22),
        ("test", 2012, 47_377, 12_422, 19),
    ):
        sentences = conll2000(part)
        assert (sentences.n_sentences, len(sentences.tokens)) == (n_sentences, n_tokens)
        counts = np.bincount(sentences.labels, minlength=23)
        assert counts[CHUNKS.index("B-NP")] == n_noun_phrases
        assert (counts > 0).sum() == n_tags
        first = sentences.labels[sentences.sentence_start[:-1]]
        assert not [CHUNKS[label] for label in np.unique(first) if CHUNKS[label].startswith("I-")]
        X, y = conll2000(part, return_X_y=True)
        assert [len(tokens) for tokens in X] == [len(tags) for tags in y] == np.diff(sentences.sentence_start).tolist()
        assert (X[0][0], y[0][0]) == (sentences.tokens[0][:2], sentences.tokens[0].chunk)
        assert sum(entity.kind == "NP" for tags in y for entity in entities_of(tags, "IOB2")) == n_noun_phrases
