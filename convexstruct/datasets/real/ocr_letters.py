"""Handwritten words: R. Kassel, MIT 1995, as prepared by B. Taskar for max-margin Markov networks (NIPS 2003).

One image of 16 x 8 pixels, 0 or 1, a letter. The first letter of each word, a capital, was left out by the authors.
Ten folds of words; the published protocol trains on one fold and tests on the other nine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convexstruct.arrays import Index, Labels
from convexstruct.brief import brief
from convexstruct.datasets.labelled import LabelledGraphs, chain_edges
from convexstruct.datasets.real.sources import read_arrays
from convexstruct.graphs import ranges
from convexstruct.validation.arguments import mapping, sentence
from convexstruct.validation.arrays import chosen, wholes

#: A letter's number is its place here.
LETTERS = "abcdefghijklmnopqrstuvwxyz"
#: Rows and columns of an image.
SHAPE = (16, 8)
#: Parts that the set is published in, for cross-validation.
N_FOLDS = 10


@dataclass(frozen=True)
class Words:
    """Words and the images of their letters.

    pixels : (P, 128) uint8, 0 or 1, the rows of an image one after the other. labels : (P,) places in `LETTERS`.
    word_start : (W + 1,) letter at which each word begins. fold : (W,) 0 .. 9.
    """

    pixels: NDArray[np.uint8]
    labels: Labels
    word_start: Index
    fold: Labels

    __repr__ = brief

    @property
    def n_words(self) -> int:
        return len(self.fold)

    @property
    def texts(self) -> list[str]:
        """The words as they are read."""
        letters = "".join(LETTERS[label] for label in self.labels)
        return [letters[a:b] for a, b in zip(self.word_start[:-1], self.word_start[1:])]

    def some(self, words: ArrayLike) -> Words:
        """Some of the words: their numbers, or a mask (W,); ValueError if they are neither."""
        wanted = chosen("words", words, self.n_words).astype(np.intp)
        letters, start = ranges(self.word_start, wanted)
        return Words(self.pixels[letters], self.labels[letters], start, self.fold[wanted])

    def chains(self) -> LabelledGraphs:
        """One chain a word; node features are the pixels as float64 (P, 128)."""
        return LabelledGraphs(
            self.pixels.astype(np.float64), chain_edges(self.word_start), self.word_start, self.labels, len(LETTERS)
        )


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Words:
    """The words from the arrays of the stored file: ``pixels``, ``label``, ``word_start``, ``fold``. ValueError if an
    array is missing, of another shape, or holds a value out of range; or if a word is empty."""
    read = mapping("arrays", arrays, {"pixels", "label", "word_start", "fold"})
    pixels = wholes("pixels", read["pixels"], ("letters", SHAPE[0] * SHAPE[1]), least=0, most=1, keep=False)
    label = wholes("label", read["label"], (len(pixels),), least=0, most=len(LETTERS) - 1, why="one a letter")
    start = wholes("word_start", read["word_start"], ("words and 1",), least=0)
    if start[0] != 0 or start[-1] != len(pixels) or (np.diff(start) < 1).any():
        raise sentence(f"word_start must rise from 0 to {len(pixels)}, the number of letters")
    fold = wholes("fold", read["fold"], (len(start) - 1,), least=0, most=N_FOLDS - 1, why="one a word")
    return Words(pixels.astype(np.uint8), label, start.astype(np.intp), fold)


def ocr_letters(folds: Sequence[int] | None = None) -> Words:
    """All 6,877 words (52,152 letters), or those of some of the ten folds, in the order of the stored file.

    Raises
    ------
    ValueError
        If a fold is not 0 .. 9, or the set is not here (see `convexstruct.datasets.real.sources`).
    """
    if folds is None:
        return from_arrays(read_arrays("ocr_letters"))
    kept = wholes("folds", folds, ("folds",), least=0, most=N_FOLDS - 1, what="folds")
    words = from_arrays(read_arrays("ocr_letters"))
    return words.some(np.isin(words.fold, kept))
