"""Features of the words of a sentence, ready made: ``ChainTagger(features="words")``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from convexstruct.validation.arguments import refuse, sentence, sequence

#: Distances of the neighbours that a position sees.
WINDOW = (-2, -1, 1, 2)
#: Letters of the prefixes and suffixes.
AFFIXES = (1, 2, 3, 4)


def word_features(tokens: Sequence[Any]) -> list[list[str]]:
    """The names of the features of each position of a sentence; each has the value 1.

    tokens : words; or tuples or dicts whose first entry is the word and whose others are columns such as a part of
    speech, all strings of one length, as `convexstruct.datasets.read_conll` returns them.

    A position has its word, the word in lower case, its prefixes and suffixes, its shape ("Xx-d" for "Ann-7"), its
    digits as a pattern, whether it is the first or the last, its other columns, and of its neighbours at a distance of
    at most two the lower case, the shape and the columns; and the pairs that the columns of neighbours form.

    Raises
    ------
    ValueError
        If a token is none of these, or has another number of columns than the first.
    """
    columns = [_columns(t, token) for t, token in enumerate(sequence("a sentence", tokens, "a list of words"))]
    odd = next((t for t, each in enumerate(columns) if len(each) != len(columns[0])), None)
    if odd is not None:
        raise sentence(f"token {odd} of a sentence has {len(columns[odd])} columns, wanted {len(columns[0])} as before")
    seen = [_seen(each) for each in columns]
    return [
        ["bias", *_alone(columns[t][0]), *seen[t], *_around(seen, t), *_pairs(columns, t)] for t in range(len(columns))
    ]


def _columns(t: int, token: Any) -> tuple[str, ...]:
    given = (token,) if isinstance(token, str) else tuple(token.values()) if isinstance(token, Mapping) else token
    if not isinstance(given, tuple) or not given or not all(isinstance(each, str) for each in given):
        refuse(f"token {t} of a sentence", token, "a word, or a tuple or dict of strings whose first is the word")
    return given


def _seen(columns: tuple[str, ...]) -> list[str]:
    """What neighbours see of a position too."""
    word, *others = columns
    return [f"lower={word.lower()}", f"shape={_shape(word)}", *(f"{k}={each}" for k, each in enumerate(others, 1))]


def _alone(word: str) -> list[str]:
    """What only the position itself sees of its word."""
    lower = word.lower()
    parts = [f"word={word}"]
    parts += [f"prefix={lower[:k]}" for k in AFFIXES if k <= len(lower)]
    parts += [f"suffix={lower[-k:]}" for k in AFFIXES if k <= len(lower)]
    if any(map(str.isdigit, word)):
        parts.append("digits=" + re.sub(r"\d", "0", lower))
    return parts


def _shape(word: str) -> str:
    """Capitals as X, small letters as x, digits as d, each run as one: "Xx-d" for "Ann-7"."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", "".join(kinds))


def _around(seen: list[list[str]], t: int) -> list[str]:
    around = [f"{k:+d}:{name}" for k in WINDOW if 0 <= t + k < len(seen) for name in seen[t + k]]
    return around + ["first"] * (t == 0) + ["last"] * (t == len(seen) - 1)


def _pairs(columns: list[tuple[str, ...]], t: int) -> list[str]:
    """Pairs of neighbours' columns: before and here, here and after."""
    inside = [k for k in (-1, 0) if 0 <= t + k < len(columns) - 1]
    return [
        f"{k:+d}:{c}={columns[t + k][c]}|{columns[t + k + 1][c]}" for k in inside for c in range(1, len(columns[0]))
    ]
