"""Tables of refusals: what malformed arguments get from a public function, one sentence each.

A room's table is the file ``refusals.py`` beside its tests: a tuple REFUSALS of `Door`. `tests/test_refusals.py` runs
every row of every table, and `benchmarks.malformed` tries each door with arguments at random.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convexstruct.validation.arguments import SENTENCE_CHARACTERS

#: Words that the sentence must contain, as they stand there.
Words = str | tuple[str, ...]


@dataclass(frozen=True)
class Door:
    """A function, arguments that it takes, and what it says to others.

    sound : arguments by name. rows : (the arguments that are changed, the words of the sentence). name : for the test's
    name, where the function has none that tells. names : what a sentence may name in place of an argument: parts of it.
    """

    call: Callable[..., object]
    sound: Mapping[str, Any]
    rows: Sequence[tuple[Mapping[str, Any], Words]]
    name: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name or getattr(self.call, "__qualname__", type(self.call).__name__)

    def check(self, change: Mapping[str, Any], words: Words) -> None:
        """ValueError of one sentence with the words, and with the name of an argument."""
        try:
            self.call(**{**self.sound, **change})
        except ValueError as error:
            check_sentence(error)
            said = str(error)
        else:
            raise AssertionError(f"{self} takes {change}")
        for each in (words,) if isinstance(words, str) else words:
            assert each in said, said
        named = {*self.sound, *change, *self.names}
        assert any(name in said for name in named), f"{said}: names no argument"


def tables() -> list[Door]:
    """The doors of all tables."""
    top = Path(__file__).parent
    files = (path.relative_to(top).with_suffix("").parts for path in sorted(top.glob("*/**/refusals.py")))
    return [door for parts in files for door in importlib.import_module(".".join(("tests", *parts))).REFUSALS]


def check_sentence(error: BaseException) -> None:
    """A ValueError, no subclass of it, of one line that is not too long to be read."""
    assert type(error) is ValueError, type(error)
    said = str(error)
    assert 0 < len(said) <= SENTENCE_CHARACTERS, said
    assert "\n" not in said, said
