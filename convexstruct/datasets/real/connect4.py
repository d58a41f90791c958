"""Connect-4 positions after 8 plies with the value of the game: J. Tromp, UCI 1995; paper 0's second experiment.

The text: one position a line, comma-separated: 42 squares in the order a1 .. a6, b1 .. b6, ..., g6, each ``x`` (the
first player), ``o`` or ``b`` (blank), then the value for x: ``win``, ``loss`` or ``draw``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Labels
from convexstruct.brief import brief
from convexstruct.datasets.real.connect4_codes import SQUARES, VALUES
from convexstruct.datasets.real.sources import read
from convexstruct.validation.arguments import sentence, text_of

#: Columns a .. g, each from the bottom up.
NAMES = tuple(f"{column}{row}" for column in "abcdefg" for row in range(1, 7))


@dataclass(frozen=True)
class Positions:
    """Positions and their values.

    squares : (N, 42) places in `SQUARES`, columns named by `NAMES`. values : (N,) places in `VALUES`.
    """

    squares: Labels
    values: Labels

    __repr__ = brief


def parse(text: str) -> Positions:
    """Read the text of the set. ValueError if there is no position, or a line is not 42 squares and a value."""
    text = text_of("text", text)
    square = {name: i for i, name in enumerate(SQUARES)}
    value = {name: i for i, name in enumerate(VALUES)}
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        *squares, result = line.strip().split(",")
        if len(squares) != len(NAMES) or result not in value or not square.keys() >= set(squares):
            raise sentence(
                f"line {number} of the Connect-4 text is {line[:40]!r}, wanted 42 of b, o, x and one of draw, loss, win"
            )
        rows.append([*(square[s] for s in squares), value[result]])
    if not rows:
        raise ValueError("the Connect-4 text holds no position, wanted at least one")
    table = np.array(rows, dtype=np.int64)
    return Positions(table[:, :-1], table[:, -1])


def connect4() -> Positions:
    """All 67,557 positions, in the order of the published file.

    Raises
    ------
    ValueError
        If the set is not here (see `convexstruct.datasets.real.sources`).
    """
    return parse(read("connect4").decode("ascii"))
