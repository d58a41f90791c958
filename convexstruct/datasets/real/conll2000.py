"""Text chunking: the CoNLL-2000 shared task, E. Tjong Kim Sang and S. Buchholz.

The text: one token a line, ``word tag chunk``; an empty line closes a sentence (several in a row count once). A chunk
of kind X begins with ``B-X`` and goes on with ``I-X``; ``O`` is outside all chunks. ``I-LST`` occurs in the test part
alone, and four chunk tags in the training part alone, so the tags are stated here and not read off a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, overload

import numpy as np

from convexstruct.arrays import Index, Labels
from convexstruct.brief import brief
from convexstruct.datasets.conll import TaggedSentences
from convexstruct.datasets.real.sources import read_part
from convexstruct.graphs import starts
from convexstruct.validation.arguments import flag, sentence, text_of, whole

KINDS = ("ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP")
#: The 23 chunk tags; a label's number is its place here.
CHUNKS = ("O", *(f"{begins}-{kind}" for kind in KINDS for begins in "BI"))


class Token(NamedTuple):
    """A word, its part of speech (a tag of the Penn Treebank) and its chunk tag."""

    word: str
    tag: str
    chunk: str


@dataclass(frozen=True)
class Sentences:
    """Sentences, one after the other.

    tokens : P tokens. sentence_start : (N + 1,) token at which each sentence begins.
    """

    tokens: list[Token]
    sentence_start: Index

    __repr__ = brief

    @property
    def n_sentences(self) -> int:
        return len(self.sentence_start) - 1

    @property
    def labels(self) -> Labels:
        """Places of the chunk tags in `CHUNKS`; (P,)."""
        number = {chunk: i for i, chunk in enumerate(CHUNKS)}
        return np.array([number[token.chunk] for token in self.tokens], dtype=np.int64)

    def between(self, first: int, end: int | None = None) -> Sentences:
        """The sentences from ``first`` on, those before ``end``; ValueError if there is no ``first``."""
        first = whole("first", first, least=0, most=self.n_sentences - 1)
        last = self.n_sentences if end is None else whole("end", end, least=first + 1)
        start = self.sentence_start[first : last + 1]
        return Sentences(self.tokens[start[0] : start[-1]], start - start[0])

    def sentence(self, i: int) -> list[Token]:
        """The tokens of sentence i; ValueError if there is none."""
        i = whole("i", i, least=0, most=self.n_sentences - 1)
        return self.tokens[self.sentence_start[i] : self.sentence_start[i + 1]]


def parse(text: str) -> Sentences:
    """Read the text of a part. ValueError if there is no sentence, or a line is not a word, a tag and one of
    `CHUNKS`."""
    text = text_of("text", text)
    tokens: list[Token] = []
    lengths = [0]
    known = set(CHUNKS)
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        if not fields:
            lengths.append(0)
            continue
        if len(fields) != 3 or fields[2] not in known:
            raise sentence(
                f"line {number} of the chunking text is {line[:60]!r}, wanted a word, a part of speech and one of "
                f"{', '.join(CHUNKS)}"
            )
        tokens.append(Token(*fields))
        lengths[-1] += 1
    if not tokens:
        raise ValueError("the chunking text holds no sentence, wanted at least one token")
    return Sentences(tokens, starts([length for length in lengths if length]))


@overload
def conll2000(part: str = ..., *, return_X_y: Literal[False] = ...) -> Sentences: ...


@overload
def conll2000(part: str = ..., *, return_X_y: Literal[True]) -> TaggedSentences: ...


def conll2000(part: str = "train", *, return_X_y: bool = False) -> Sentences | TaggedSentences:
    """The 8,936 training sentences (211,727 tokens) or the 2,012 test sentences (47,377 tokens).

    With ``return_X_y``, lists of (word, part of speech) and lists of chunk tags, as
    ``ChainTagger(features="words").fit(X, y)`` takes them.

    Raises
    ------
    ValueError
        If ``part`` is neither "train" nor "test", ``return_X_y`` is no boolean, or the set is not here (see
        `convexstruct.datasets.real.sources`).
    """
    tagged = flag("return_X_y", return_X_y)
    found = parse(read_part("conll2000", part))
    if not tagged:
        return found
    each = [found.sentence(i) for i in range(found.n_sentences)]
    X = [[(token.word, token.tag) for token in tokens] for tokens in each]
    return TaggedSentences(X, [[token.chunk for token in tokens] for tokens in each])
