"""Every row of every table of refusals (`tests/refusals.py` says what they are)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.refusals import Door, Words, tables

DOORS = tables()


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_sound_arguments_are_taken(door: Door) -> None:
    door.call(**door.sound)


@pytest.mark.parametrize(
    ("door", "change", "words"),
    [pytest.param(door, *row, id=f"{door}-{', '.join(row[0])}") for door in DOORS for row in door.rows],
)
def test_malformed_arguments_are_refused_in_one_sentence(door: Door, change: Mapping[str, Any], words: Words) -> None:
    door.check(change, words)
