"""Readers for the options of solvers: each option is converted and checked against its range when a solver is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convexstruct.validation.arguments import choice, flag, function, number, seed, whole

__all__ = [
    "at_least",
    "flag",
    "function",
    "not_below",
    "one_of",
    "or_none",
    "positive",
    "read_options",
    "seed",
    "share",
]

Reader = Callable[[str, Any], Any]


def read_options(options: object, **readers: Reader) -> None:
    """Replace each option by what its reader returns; called in a frozen dataclass's ``__post_init__``.

    Raises
    ------
    ValueError
        If an option is not of the kind, or not in the range, that its reader wants.
    """
    for name, read in readers.items():
        object.__setattr__(options, name, read(name, getattr(options, name)))


def at_least(bound: int) -> Reader:
    """A reader of whole numbers >= ``bound``."""
    return lambda name, value: whole(name, value, least=bound)


def not_below(bound: float) -> Reader:
    """A reader of finite numbers >= ``bound``."""
    return lambda name, value: number(name, value, least=bound)


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    return number(name, value, above=0)


def share(name: str, value: Any) -> float:
    """A number above 0 and below 1."""
    return number(name, value, above=0, below=1)


def or_none(read: Reader) -> Reader:
    """A reader of None and of what ``read`` accepts."""
    return lambda name, value: None if value is None else read(name, value)


def one_of(*known: str) -> Reader:
    """A reader of the words ``known``."""
    return lambda name, value: choice(name, value, known)
