"""The parser on small texts, and the real positions where they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct.datasets import connect4
from convexstruct.datasets.real.connect4 import NAMES, parse
from convexstruct.datasets.real.connect4_codes import from_codes

BLANK = ",".join(["b"] * 40)


def test_squares_and_values_are_read_in_order() -> None:
    positions = parse(f"x,o,{BLANK},win\n\no,x,{BLANK},draw\n{BLANK},b,x,loss\n")
    assert positions.squares.shape == (3, 42)
    assert positions.squares[:2, :2].tolist() == [[2, 1], [1, 2]]
    assert positions.squares[2, -1] == 2
    assert positions.values.tolist() == [2, 0, 1]
    assert (NAMES[0], NAMES[6], NAMES[-1]) == ("a1", "b1", "g6")


def test_published_codes_become_the_original_letters() -> None:
    codes = "\t".join(["0"] * 40)
    text = from_codes("\t".join([*NAMES, "target"]) + f"\n2\t1\t{codes}\t2\n1\t2\t{codes}\t0\n")
    assert text == f"x,o,{BLANK},win\no,x,{BLANK},draw\n"


def test_the_real_positions_keep_the_rules(present: Callable[[str], None]) -> None:
    present("connect4")
    positions = connect4()
    assert np.bincount(positions.values).tolist() == [6449, 16635, 44473]
    for player in (1, 2):
        assert ((positions.squares == player).sum(axis=1) == 4).all()
    columns = positions.squares.reshape(-1, 7, 6) > 0
    assert not (columns[:, :, 1:] & ~columns[:, :, :-1]).any(), "a piece floats"
