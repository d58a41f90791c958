"""Handwritten words: tiny arrays, and the real words where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convexstruct.datasets import ocr_letters
from convexstruct.datasets.real.ocr_letters import LETTERS, from_arrays


def tiny() -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    return {
        "pixels": rng.integers(0, 2, size=(6, 128)).astype(np.uint8),
        "label": np.array([2, 0, 1, 0, 25, 25], dtype=np.uint8),
        "word_start": np.array([0, 3, 4, 6], dtype=np.int32),
        "fold": np.array([0, 9, 0], dtype=np.uint8),
    }


def test_some_words_keep_their_letters() -> None:
    words = from_arrays(tiny())
    assert words.texts == ["cab", "a", "zz"]
    chosen = words.some(words.fold == 0)
    assert chosen.texts == ["cab", "zz"]
    np.testing.assert_array_equal(chosen.pixels, words.pixels[[0, 1, 2, 4, 5]])
    assert words.some([1, 1]).texts == ["a", "a"]


def test_chains_join_the_letters_of_a_word_alone() -> None:
    chains = from_arrays(tiny()).chains()
    assert chains.edges.tolist() == [[0, 1], [1, 2], [4, 5]]
    assert chains.node_features.dtype == np.float64
    assert chains.n_labels == len(LETTERS) == 26


def test_the_real_words_have_the_published_counts(present: Callable[[str], None]) -> None:
    present("ocr_letters")
    words = ocr_letters()
    assert (words.n_words, len(words.labels)) == (6877, 52_152)
    assert np.bincount(words.fold).tolist() == [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]
    assert words.texts[0] == "ommanding"
    assert len(np.unique(words.labels)) == 26
    assert ocr_letters([3, 0]).n_words == 626 + 698
    assert len(words.chains().edges) == 52_152 - 6877
