"""How a dataclass of arrays shows itself: sizes of its fields, not their numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, is_dataclass
from typing import Any

#: The most characters of the whole, and of one text or name in it.
LONGEST, TEXT = 400, 40
#: Dataclasses in dataclasses that are written out; those further inside are named.
DEPTH = 2


def brief(of: Any) -> str:
    """The repr of a dataclass: its fields but for those that are None, arrays by their shapes. Set ``__repr__ = brief``
    in the body of the class."""
    return _cut(_dataclass(of, DEPTH), LONGEST)


def _dataclass(of: Any, depth: int) -> str:
    name = type(of).__name__
    if depth == 0:
        return name
    shown = ((each.name, getattr(of, each.name, None)) for each in fields(of) if each.repr)
    return f"{name}({', '.join(f'{key} {_value(value, depth - 1)}' for key, value in shown if value is not None)})"


def _value(value: Any, depth: int) -> str:
    if isinstance(value, bool | int | float):
        return str(value) if isinstance(value, bool | int) else f"{value:g}"
    if isinstance(value, str):
        return _cut(repr(value[: TEXT + 1]), TEXT)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return str(shape) if shape else f"{float(value):g}"
    if is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, depth)
    if isinstance(value, Collection):
        few = list(value)[:3] if isinstance(value, tuple | list) else []
        inside = f" of {', '.join(dict.fromkeys(type(each).__name__ for each in few))}" if few else ""
        return f"{len(value)} entries{inside}"
    return type(value).__name__


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
