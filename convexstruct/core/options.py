"""The options of solvers, read once when a solver is made: each by a reader with its range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convexstruct.validation.arguments import choice, flag, function, number, seed, whole

Reader = Callable[[str, Any], Any]


def read_options(options: object, **readers: Reader) -> None:
    """Put each option through its reader, in a frozen dataclass's ``__post_init__``.

    Raises
    ------
    ValueError
        If an option is not of the kind, or not in the range, that its reader wants.
    """
    for name, read in readers.items():
        object.__setattr__(options, name, read(name, getattr(options, name)))


def at_least(bound: int) -> Reader:
    """A whole number of at least so much."""
    return lambda name, value: whole(name, value, least=bound)


def not_below(bound: float) -> Reader:
    """A finite number of at least so much."""
    return lambda name, value: number(name, value, least=bound)


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    return number(name, value, above=0)


def share(name: str, value: Any) -> float:
    """A number between 0 and 1, neither of them."""
    return number(name, value, above=0, below=1)


def or_none(read: Reader) -> Reader:
    """None, or what ``read`` reads."""
    return lambda name, value: None if value is None else read(name, value)


__all__ = ["at_least", "flag", "function", "not_below", "or_none", "positive", "read_options", "seed", "share"]


def one_of(*known: str) -> Reader:
    """One of these words."""
    return lambda name, value: choice(name, value, known)
