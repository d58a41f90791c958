"""The values that the readers of numbers, names, lists and mappings accept and refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.malformed import Endless, Hostile
from convexstruct.validation.arguments import (
    SENTENCE_CHARACTERS,
    SHOWN_CHARACTERS,
    choice,
    described,
    flag,
    mapping,
    number,
    seed,
    sequence,
    whole,
)


class HostileMapping(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        yield "a"

    def __len__(self) -> int:
        return 1


#: Values that are neither a number nor a name, a list or a mapping.
NONSENSE: list[Any] = [
    Hostile(), Endless(), object(), object, 3j, np.complex128(1), np.datetime64("2020-01-01"), np.timedelta64(1, "s"),
    {1, 2}, iter([1]), np.ma.masked, sp.csr_array((2, 2)), lambda: 0, b"\xff" * 1000, NotImplemented, ...,
]  # fmt: skip
NO_NUMBERS = [*NONSENSE, None, True, np.True_, "1", "x" * 10_000, [1], (1.0,), np.ones(1), np.ones((2, 2)), {}, np.nan]

READERS: list[tuple[Callable[[Any], Any], list[Any]]] = [
    (lambda value: number("eta", value, above=0), [*NO_NUMBERS, 0, -1.0, np.inf, 10**400, -(10**5000), "1e3"]),
    (lambda value: whole("passes", value, least=1), [*NO_NUMBERS, 0, -3, 2.7, 2.0, np.float64(2), 2**63, 10**5000]),
    (lambda value: seed("seed", value), [*NO_NUMBERS, -1, 1.0, 2**70]),
    (lambda value: flag("bias", value), [*NONSENSE, None, 0, 1, "True", 1.0, [True], np.ones(1, dtype=bool)]),
    (lambda value: choice("loss", value, ["hamming", "ring"]), [*NONSENSE, None, "hammin", "", 3, ["ring"], b"ring"]),
    (lambda value: sequence("edges", value, least=1), [*NONSENSE, None, "chain", 3, {}, {"a": 1}, [], np.zeros(0)]),
    (lambda value: mapping("point", value, {"w"}, {"b"}),
     [*NONSENSE, None, 3, [], ["w"], {}, {"b": 1}, {"w": 1, "c": 2}, {1: 2}, {Hostile(): 1}, HostileMapping(),
      {"k" * 10_000: 1}, {i: i for i in range(10_000)}]),
]  # fmt: skip


@pytest.mark.parametrize(("read", "refused"), READERS, ids=["number", "whole", "seed", "flag", "choice", "list", "map"])
def test_what_is_refused_is_a_value_error_of_one_short_sentence(read: Callable[[Any], Any], refused: list[Any]) -> None:
    for value in refused:
        with pytest.raises(ValueError, match="wanted") as caught:
            read(value)
        text = str(caught.value)
        assert type(caught.value) is ValueError
        assert len(text) <= SENTENCE_CHARACTERS
        assert "\n" not in text


def test_what_came_is_cut_at_eighty_characters() -> None:
    long = type("L" * 500, (), {})
    for value in ("x" * 10_000, b"x" * 10_000, 10**30, 10**5000, long(), long, np.zeros((1,) * 30), [0] * 10**6):
        assert len(described(value)) <= SHOWN_CHARACTERS
    assert described("ab") == "'ab'"
    assert described([]) == "an empty list"


def test_numbers_of_other_types_are_taken_as_they_are() -> None:
    assert number("z", 3) == 3.0
    assert number("z", Fraction(1, 2)) == 0.5
    assert number("z", np.float32(0.5)) == 0.5
    assert number("z", np.array(2)) == 2.0
    assert number("upper", np.inf, infinite=True) == np.inf
    assert whole("n", np.int8(7), least=7, most=7) == 7
    assert type(whole("n", np.int8(7))) is int
    assert flag("bias", np.True_) is True
    assert choice("loss", np.str_("ring"), ["ring"]) == "ring"
    assert sequence("rows", range(3)) == [0, 1, 2]
    assert mapping("point", {"w": 1}, {"w"}, {"b"}) == {"w": 1}


def test_the_sentences_say_which_what_and_what_was_wanted() -> None:
    said: list[tuple[Callable[[], object], str]] = [
        (lambda: number("lam", -1, above=0), "lam is -1, wanted a positive number"),
        (lambda: number("shrink", 2, above=0, below=1), "shrink is 2, wanted a number above 0 and below 1"),
        (lambda: number("eta", np.inf), "eta is inf, wanted a finite number"),
        (lambda: whole("passes", -3, least=1), "passes is -3, wanted a whole number of at least 1"),
        (lambda: choice("kind", "no", ["a", "b"]), "kind is 'no', wanted one of a, b"),
        (lambda: sequence("edges", "chain", "a list of pairs"), "edges is 'chain', wanted a list of pairs"),
    ]
    for read, text in said:
        with pytest.raises(ValueError, match="wanted") as caught:
            read()
        assert str(caught.value) == text
