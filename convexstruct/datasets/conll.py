"""Files of labelled sentences in columns, as the CoNLL shared tasks have them: one token a line, an empty line after
each sentence."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from convexstruct.validation.arguments import path_of, refuse, sentence, sequence, text_of, whole


class TaggedSentences(NamedTuple):
    """X : for each sentence a list of tokens, feature dicts or (for `conll2000`) tuples of the word and its part of
    speech. y : for each sentence a list of labels."""

    X: list[list[Any]]
    y: list[list[str]]


def read_conll(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    label: int | str = -1,
    *,
    delimiter: str | None = None,
    comment: str | None = None,
) -> TaggedSentences:
    """Read a file, UTF-8, as what `convexstruct.estimators.ChainTagger` takes: ``X, y = read_conll("train.txt")``.

    Parameters
    ----------
    path : the file; with a name that ends with ".gz", as gzip packs it.
    columns : the names of its columns, the keys of the feature dicts; by default "0", "1", ...
    label : the column of the labels, which is no feature: its number, from 0, or from the end where negative; or its
        name in ``columns``.
    delimiter : what separates columns; None: any white space. The files of Universal Dependencies have "\\t".
    comment : lines that begin with this are left out ("#" for Universal Dependencies); None: there are none, since "#"
        may be a word.

    Raises
    ------
    ValueError
        If an argument is malformed, a line has another number of columns than the first, the file is not UTF-8 or not
        packed as its name says, or there is no token.
    FileNotFoundError
        If there is no such file.
    """
    named = path_of("path", path)
    packed = str(named).endswith(".gz")
    names = None
    if columns is not None:
        given = sequence("columns", columns, "a list of the columns' names", least=1)
        names = [text_of("an entry of columns", name) for name in given]
        if len(set(names)) < len(names):
            raise ValueError("columns names a column twice, wanted each once")
    for name, text in (("delimiter", delimiter), ("comment", comment)):
        if text is not None and not text_of(name, text):
            refuse(name, text, "a text of at least one character, or None")
    try:
        with gzip.open(named, "rt", encoding="utf-8-sig") if packed else open(named, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except UnicodeDecodeError:
        raise sentence(f"path: {named} is no text in UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise sentence(f"path: {named} is no whole gzip file, wanted one since its name ends with .gz") from None
    except IsADirectoryError:
        raise sentence(f"path: {named} is a folder, wanted a file") from None
    X: list[list[dict[str, str]]] = [[]]
    y: list[list[str]] = [[]]
    at = None
    for number, line in enumerate(lines, start=1):
        fields = line.split(delimiter) if line.strip() else []
        if comment is not None and line.startswith(comment):
            continue
        if not fields or fields[0] == "-DOCSTART-":  # begins a document in the files of 2003; no token
            if X[-1]:
                X.append([])
                y.append([])
            continue
        names = names or [str(i) for i in range(len(fields))]
        if len(fields) != len(names):
            raise sentence(f"path: line {number} of {named} has {len(fields)} columns, wanted {len(names)}")
        at = _place(label, names) if at is None else at
        X[-1].append({name: field for i, (name, field) in enumerate(zip(names, fields)) if i != at})
        y[-1].append(fields[at])
    if not X[-1]:
        X, y = X[:-1], y[:-1]
    if not X:
        raise sentence(f"path: {named} holds no token, wanted at least one")
    return TaggedSentences(X, y)


def _place(label: int | str, names: list[str]) -> int:
    """The column of the labels."""
    if isinstance(label, str):
        if label not in names:
            refuse("label", label, "the name or the number of a column")
        return names.index(label)
    return whole("label", label, least=-len(names), most=len(names) - 1) % len(names)
