"""Readers of arrays: they return read-only copies (`convexstruct.validation.arguments` has the rules).

A shape that is wanted is a tuple of lengths, in which a word stands for any length of at least 1: ("n", 3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Flags, Tensor
from convexstruct.validation.arguments import LARGEST_WHOLE, LISTS, cut, refuse, sentence

Shape = tuple[int | str, ...]

#: Lists nested deeper than this are no array (NumPy itself stops at 64 dimensions).
DEEPEST_LIST = 16
#: Arrays of more entries (128 GiB) are refused unread: a view of one number may have any shape.
LARGEST_VIEW = 2**34
#: What to say of a label of -1 where every label must be known.
NOT_KNOWN = "; HiddenField and LatentSVM take labels that are not known"

#: What the entries of an array are called in a sentence, by the kind of its dtype.
_KINDS = {
    "b": "booleans",
    "c": "complex numbers",
    "m": "time differences",
    "M": "dates",
    "O": "Python objects",
    "S": "bytes",
    "U": "strings",
    "V": "records",
}


def raw(name: str, value: Any, wanted: str = "an array of real numbers") -> NDArray[Any]:
    """``value`` as NumPy reads it, without a copy where it is an array already; of any dtype but objects. ValueError if
    it is no array, no list and no number, is masked, is ragged, or mixes numbers with something else."""
    if type(value) is np.ndarray:
        read = value
    else:
        if isinstance(value, np.ma.MaskedArray) or sp.issparse(value) or not _readable(value):
            refuse(name, value, wanted)
        if isinstance(value, LISTS):
            _scan(name, value, wanted, DEEPEST_LIST)
        try:
            read = np.asarray(list(value) if isinstance(value, deque) else value)
        except MemoryError:
            raise sentence(f"{name} does not fit into memory, wanted {wanted}") from None
        except Exception:  # any: ragged rows, or foreign code behind __array__
            if isinstance(value, LISTS):
                raise sentence(f"{name} has rows of unequal lengths, wanted {wanted}") from None
            refuse(name, value, wanted)
        if type(read) is not np.ndarray:
            read = np.asarray(read).view(np.ndarray)
    if read.size > LARGEST_VIEW:
        raise sentence(f"{name} has shape {read.shape}, wanted {wanted}: at most {LARGEST_VIEW} entries")
    return read


def _readable(value: Any) -> bool:
    """Whether NumPy may be asked to read it: it asks any object with a length for all of its entries."""
    if isinstance(value, (*LISTS, np.ndarray, np.generic, bool, int, float, complex)):
        return True
    kind = type(value)
    return not isinstance(value, type) and (hasattr(kind, "__array__") or hasattr(kind, "__array_interface__"))


def _scan(name: str, value: Any, wanted: str, depth: int) -> None:
    """Refuse lists that NumPy would read as something else: masked entries, True beside 2, "a" beside 1, objects."""
    if isinstance(value, range):
        return
    kinds = set(map(type, value))
    if depth == 0:
        raise sentence(f"{name} is nested deeper than {DEEPEST_LIST} lists, wanted {wanted}")
    words = set()
    for kind in kinds:
        if issubclass(kind, LISTS):
            words.add("lists")
        elif issubclass(kind, (np.ma.MaskedArray, sp.sparray, sp.spmatrix)):
            words.add("masked or sparse arrays")
        elif issubclass(kind, np.ndarray) or (hasattr(kind, "__array__") and not issubclass(kind, np.generic)):
            words.add("arrays")
        elif issubclass(kind, (bool, np.bool_)):
            words.add("booleans")
        elif issubclass(kind, (np.timedelta64, np.datetime64)):
            words.add("dates")
        elif issubclass(kind, (int, float, complex, np.number)):
            words.add("numbers")
        elif issubclass(kind, (str, bytes)):
            words.add("strings")
        else:
            words.add("None" if kind is type(None) else cut(f"{kind.__name__} objects", 40))
    known = {"lists", "arrays", "booleans", "numbers", "strings", "dates"}
    if words - known or (len(words) > 1 and not words <= {"lists", "arrays"}):
        raise sentence(f"{name} is a list that holds {' and '.join(sorted(words))}, wanted {wanted}")
    if "lists" in words:
        for each in value:
            if isinstance(each, LISTS):
                _scan(name, each, wanted, depth - 1)


def real(
    name: str,
    value: Any,
    *shapes: Shape,
    what: str = "numbers",
    finite: bool = True,
    positive: bool = False,
    least: float | None = None,
    keep: bool = True,
    why: str = "",
) -> Tensor:
    """An array of real numbers in double precision, of one of ``shapes`` (any, if none is given).

    Parameters
    ----------
    shapes : a whole number is a length that is wanted, a word a length that is free, but at least 1: (3, "n").
    what : what the numbers are, for the sentences.
    finite : whether NaN and infinity are refused.
    positive, least : bounds on every entry.
    keep : whether the result is a read-only copy; else it may be ``value`` itself.
    why : ends the sentence about a shape: "one weight an example".
    """
    wanted = f"{said(*shapes)} {what}" if shapes else f"an array of real {what}"
    read = raw(name, value, wanted)
    if read.dtype.kind not in "iuf":
        raise sentence(f"{name} holds {_KINDS.get(read.dtype.kind, str(read.dtype))}, wanted real {what}")
    _fits(name, read, shapes, why)
    try:
        with np.errstate(over="ignore"):
            array = owned(read) if keep else np.asarray(read, dtype=np.float64)
    except MemoryError:
        raise sentence(f"{name} of shape {read.shape} does not fit into memory, wanted {wanted}") from None
    if finite and not np.isfinite(array).all():
        raise sentence(f"{name} contains NaN or infinity, wanted finite {what}")
    bounded(name, array, positive=positive, least=least, what=what)
    return array


def predictive(point: Mapping[str, Any], least: float = 0.0) -> Mapping[str, Any]:
    """``point`` again, as a problem reads it; ValueError if an array of it has NaN or infinity, of which no prediction
    follows. ``least`` is -inf where that stands for the logarithm of 0."""
    for key, value in point.items():
        if not np.isfinite(np.maximum(value, 0.0) if least == -np.inf else value).all():
            more = ", or -infinity" if least == -np.inf else ""
            raise sentence(f"point[{key!r}] contains NaN or infinity, wanted finite numbers{more}")
    return point


def bounded(
    name: str, values: Tensor, *, positive: bool = False, least: float | None = None, what: str = "numbers"
) -> None:
    """Refuse an array with an entry that is not above 0, or below ``least``."""
    if positive and (values <= 0).any():
        raise sentence(f"{name} holds {values.min():g}, wanted positive {what}")
    if least is not None and (values < least).any():
        raise sentence(f"{name} holds {values.min():g}, wanted {what} of at least {least:g}")


def wholes(
    name: str,
    value: Any,
    *shapes: Shape,
    least: int | None = None,
    most: int | None = None,
    what: str = "whole numbers",
    keep: bool = True,
    why: str = "",
    kinds: str = "iuf",
    minus_one: str = "",
) -> NDArray[np.int64]:
    """An array of whole numbers in 64 bits; numbers in double precision are read if every one of them is whole (and
    ``kinds``, of dtypes, has "f"). ``minus_one`` : what to say besides where the first wrong entry is -1. ValueError if
    an entry is not whole, not within ``least`` .. ``most``, or beyond 64 bits; the first such is named."""
    span = f" from {least} to {most}" if least is not None and most is not None else (
        f" of at least {least}" if least is not None else "")  # fmt: skip
    read = raw(name, value, f"{what}{span}")
    if read.dtype.kind not in kinds and read.size:
        raise sentence(f"{name} holds {_KINDS.get(read.dtype.kind, str(read.dtype))}, wanted {what}{span}")
    _fits(name, read, shapes, why)
    if read.dtype.kind == "f" and not np.isfinite(read).all():
        raise sentence(f"{name} contains NaN or infinity, wanted {what}{span}")
    low = -(2**63) if least is None else least
    high = LARGEST_WHOLE if most is None else most
    bad = (read < low) | (read > high)
    if read.dtype.kind == "f":
        bad |= (read != np.floor(read)) | (np.abs(read) >= 2.0**63)
    elif read.dtype.kind == "u":
        bad |= read > np.uint64(LARGEST_WHOLE)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"[{', '.join(map(str, at))}]" if at else ""
        raise sentence(f"{name}{where} is {read[at]}, wanted a whole number{span}{minus_one if read[at] == -1 else ''}")
    array = np.array(read, dtype=np.int64) if keep else np.asarray(read, dtype=np.int64)
    if keep:
        array.setflags(write=False)
    return array


def flags(name: str, value: Any, *shapes: Shape, why: str = "") -> Flags:
    """An array of True and False, as a read-only copy."""
    read = raw(name, value, "True and False")
    if read.dtype.kind != "b" and read.size:
        raise sentence(f"{name} holds {_KINDS.get(read.dtype.kind, str(read.dtype))}, wanted True and False")
    _fits(name, read, shapes, why)
    array = np.array(read, dtype=bool)
    array.setflags(write=False)
    return array


def chosen(name: str, value: Any, n: int) -> NDArray[np.int64]:
    """The numbers, from 0, of some of ``n`` things: given as such, in any order, or as a mask (n,), True where wanted.
    ValueError if it is neither, or a number is not one of 0 .. n - 1."""
    read = raw(name, value, "whole numbers, or a mask of True and False")
    if read.dtype.kind == "b":
        return np.flatnonzero(flags(name, value, (n,), why="one True or False each"))
    if read.size == 0 and read.ndim == 1:
        return np.zeros(0, dtype=np.int64)
    return wholes(name, value, ("n",), least=0, most=n - 1, kinds="iu")


def labels(name: str, value: Any, n: int) -> NDArray[Any]:
    """One label an example: numbers, strings or booleans, all of one kind; as a read-only copy. ValueError if there is
    not one an example, they are of mixed kinds, or a number among them is NaN or infinite."""
    read = raw(name, value, "labels")
    if read.shape != (n,):
        raise sentence(f"{name} has shape {read.shape}, wanted ({n},): one label an example")
    if read.dtype.kind == "O" and set(map(type, read.tolist())) == {str}:
        read = read.astype(str)  # a column of strings in a table comes as objects
    if read.dtype.kind == "O":
        raise sentence(f"{name} holds mixed objects, wanted numbers or strings")
    if read.dtype.kind not in "biufUS":
        raise sentence(f"{name} holds {_KINDS.get(read.dtype.kind, str(read.dtype))}, wanted numbers or strings")
    if read.dtype.kind == "f" and not np.isfinite(read).all():
        raise sentence(f"{name} contains NaN or infinity, wanted labels")
    array = np.array(read)
    array.setflags(write=False)
    return array


def is_list_of_tables(value: Any) -> bool:
    """Whether it is a list (or an array of three axes) whose first entry is a matrix: one table an example."""
    if type(value) is np.ndarray:
        return value.ndim == 3
    if not isinstance(value, LISTS) or len(value) == 0:
        return False
    first = value[0]
    if isinstance(first, LISTS):
        return len(first) > 0 and isinstance(first[0], (*LISTS, np.ndarray))
    return isinstance(first, np.ndarray) and first.ndim == 2


def said(*shapes: Shape) -> str:
    """Shapes in a sentence, such as "(n,) or (n, 3)"."""
    return " or ".join(f"({', '.join(map(str, s))}{',' if len(s) == 1 else ''})" if s else "one number" for s in shapes)


def _fits(name: str, read: Any, shapes: tuple[Shape, ...], why: str) -> None:
    """Refuse a shape that none of ``shapes`` allows, before anything is copied; ``why`` ends the sentence."""
    shape = tuple(read.shape)
    for wanted in shapes:
        if len(wanted) == len(shape) and all((n >= 1) if isinstance(w, str) else n == w for n, w in zip(shape, wanted)):
            return
    if shapes:
        if 0 in shape and any(isinstance(w, str) for wanted in shapes for w in wanted):
            raise sentence(f"{name} is empty, of shape {shape}, wanted {said(*shapes)}: at least one of each")
        raise sentence(f"{name} has shape {shape}, wanted {said(*shapes)}{': ' if why else ''}{why}")


def owned(read: Any) -> Tensor:
    """A read-only copy in double precision; ``read`` itself if it is one already."""
    if read.dtype == np.float64 and is_frozen(read) and read.flags.c_contiguous:
        return np.asarray(read)
    array = np.array(read, dtype=np.float64, order="C")
    array.setflags(write=False)
    return array


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only copy of an array, of its dtype; ``array`` itself if it is one already."""
    if is_frozen(array):
        return array
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def is_frozen(array: NDArray[Any]) -> bool:
    """Whether no write can change it: it is read-only, and not a view of another array."""
    return type(array) is np.ndarray and not array.flags.writeable and array.base is None
