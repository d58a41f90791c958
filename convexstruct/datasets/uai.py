"""Graphical models in the UAI format, that of the competitions on inference: tables of potentials on any scopes.

    MARKOV                      or BAYES, which is read the same way
    3                           variables
    2 2 3                       how many labels each has
    2                           factors
    1 0                         how many variables a factor has, and which
    2 0 2
    2                           how many entries a table has, and the entries in C order
    0.4 0.6
    6
    1 2 3 4 5 6

The score of an entry is the logarithm of its potential; a potential of 0 forbids the entry.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Vector
from convexstruct.features.graphs.factors import Factors, read_factors
from convexstruct.files import write_whole
from convexstruct.validation.arguments import cut, path_of, refuse, sentence
from convexstruct.validation.arrays import frozen, real


class ScoredFactors(NamedTuple):
    """Tabular factors and their scores theta (d,), one an entry of the tables; score(x) = <theta, f(x)>."""

    factors: Factors
    theta: Vector


def read_uai(path: str | os.PathLike[str]) -> ScoredFactors:
    """Read a model: ``best_labelling(*read_uai("grid.uai"))``, ``MarkovRandomField``'s factors, and so on.

    Factors without variables, constants, are left out.

    Raises
    ------
    ValueError
        If the file is no model in the format, or a potential is negative, NaN or infinite.
    FileNotFoundError
        If there is no such file.
    """
    named = Path(path_of("path", path))
    try:
        words = named.read_text(encoding="utf-8-sig").split()
    except UnicodeDecodeError:
        raise sentence(f"path: {named} is no text in UTF-8") from None
    except IsADirectoryError:
        raise sentence(f"path: {named} is a folder, wanted a file") from None
    reader = _Reader(named, words)
    if not words or words[0] not in ("MARKOV", "BAYES"):
        raise sentence(f"path: {named} begins with {cut(' '.join(words[:1]))!r}, wanted MARKOV or BAYES")
    cards = [reader.whole("labels of a variable", 1) for _ in range(reader.whole("variables", 1))]
    scopes = [
        [reader.whole("a variable of a factor", 0) for _ in range(reader.whole("variables of a factor", 0))]
        for _ in range(reader.whole("factors", 1))
    ]
    tables = []
    for scope in scopes:
        if any(v >= len(cards) for v in scope):
            raise sentence(f"path: {named} names variable {max(scope)}, wanted variables from 0 to {len(cards) - 1}")
        wanted = math.prod(cards[v] for v in scope)
        if reader.whole("entries of a table", 1) != wanted:
            raise sentence(f"path: {named} has a table with other than {wanted} entries for the variables {scope}")
        tables.append([reader.potential() for _ in range(wanted)])
    reader.end()
    kept = [c for c, scope in enumerate(scopes) if scope]
    factors = read_factors(cards, [scopes[c] for c in kept])
    potentials = np.concatenate([tables[c] for c in kept])
    zero = potentials == 0
    theta = np.log(np.where(zero, 1.0, potentials))
    return ScoredFactors(replace(factors, forbidden=frozen(zero)) if zero.any() else factors, theta)


def write_uai(path: str | os.PathLike[str], factors: Factors, theta: ArrayLike) -> Path:
    """Write the tables A theta of factors as potentials e^score, whole or not at all.

    Raises
    ------
    ValueError
        If an argument is malformed, or e^score is not a positive double for an entry that is allowed.
    """
    if not isinstance(factors, Factors):
        refuse("factors", factors, "Factors: see read_factors, factors_of_features, tabular_factors")
    read = real("theta", theta, (factors.dimension,), why="one a column of the design")
    flat = factors.masked(factors.design @ read)
    with np.errstate(over="ignore", under="ignore"):
        potentials = np.exp(flat)
    wrong = np.flatnonzero(~np.isneginf(flat) & ~((potentials > 0) & (potentials < np.inf)))
    if len(wrong):
        came = f"theta gives an entry the score {flat[wrong[0]]:g}"
        raise sentence(f"{came}, wanted scores whose potential e^score is a positive double")
    lines = ["MARKOV", str(factors.n_variables), " ".join(map(str, factors.cards)), str(len(factors.scopes))]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope in factors.scopes]
    for part in np.split(potentials, factors.start[1:-1]):
        lines += ["", str(len(part)), " ".join(map(repr, part.tolist()))]
    return write_whole(path, "\n".join(lines) + "\n", "UAI file")


class _Reader:
    """The words of a file, one after the other."""

    def __init__(self, path: Path, words: list[str]) -> None:
        self.path, self.words, self.at = path, words, 1

    def _next(self, what: str) -> str:
        if self.at >= len(self.words):
            raise sentence(f"path: {self.path} ends where the number of {what} was wanted")
        self.at += 1
        return self.words[self.at - 1]

    def whole(self, what: str, least: int) -> int:
        word = self._next(what)
        if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word) >= least):
            raise sentence(f"path: {self.path} has {cut(word)!r} for {what}, wanted a whole number of at least {least}")
        return int(word)

    def potential(self) -> float:
        word = self._next("entries of a table")
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise sentence(f"path: {self.path} has the potential {cut(word)!r}, wanted a number of at least 0")
        return value

    def end(self) -> None:
        if self.at < len(self.words):
            raise sentence(f"path: {self.path} goes on with {cut(self.words[self.at])!r} after the last table")
