"""Readers of the arguments of public functions: numbers, names, lists and mappings.

Arrays are read by `convexstruct.validation.arrays`, sparse matrices by `convexstruct.validation.sparse`, by the same
rules.

Each reader takes the name of the argument first. It returns a value that no other code can change, or raises a
ValueError of one sentence: which argument, what came, what was wanted. The sentence describes what came and never
prints it at length: no foreign ``__repr__`` is called, since it may fail or be endless. Booleans are not numbers here,
nor are strings, complex numbers, dates, masked arrays or Python objects; no number is rounded to a whole one.
"""

from __future__ import annotations

import difflib
import math
import operator
import os
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np
import scipy.sparse as sp

T = TypeVar("T")

#: The most characters of a value that a sentence shows, and the most characters of a sentence.
SHOWN_CHARACTERS, SENTENCE_CHARACTERS = 80, 300
#: Whole numbers that fit 64 bits.
LARGEST_WHOLE = 2**63 - 1
#: The most numbers that one array made here may hold (2 GiB); a call that needs more is taken for a mistake.
MOST_ENTRIES = 2**28

#: Sentences show lists of at most so many entries whole.
SHOWN_ENTRIES = 4
#: The most characters that the known names may take in a sentence.
NAMES_CHARACTERS = 150

#: Types that are read as lists.
LISTS = (list, tuple, deque, range)


# -- sentences --------------------------------------------------------------------------------------------------------


def cut(text: str, length: int = SHOWN_CHARACTERS) -> str:
    """The first ``length`` characters on one line, with two dots where there were more."""
    line = " ".join(text[: length + 1].split())
    return line if len(text) <= length and len(line) <= length else line[: length - 2] + ".."


def described(value: Any) -> str:
    """What ``value`` is, in at most 80 characters: numbers and strings themselves, of all else the type and size."""
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is complex:
        return repr(value)
    if kind is int:
        return repr(value) if abs(value) < 10**40 else f"a whole number of about {value.bit_length() * 3 // 10} digits"
    if kind is str or kind is bytes:
        return cut(repr(value[:SHOWN_CHARACTERS]))
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array"
    if kind is np.ndarray:
        return cut(f"an array of shape {value.shape} of {value.dtype}")
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return cut(str(value))
    if sp.issparse(value):
        return "a sparse matrix"
    if isinstance(value, type):
        return cut(f"the class {value.__name__}")
    if (
        kind in (list, tuple)
        and 0 < len(value) <= SHOWN_ENTRIES
        and {*map(type, value)} <= {str, int, float, bool, type(None)}
    ):
        return cut(f"{'[' if kind is list else '('}{', '.join(map(described, value))}{']' if kind is list else ')'}")
    if kind in (list, tuple, dict, set, frozenset, deque):
        return f"a {kind.__name__} of {len(value)}" if len(value) else f"an empty {kind.__name__}"
    name = kind.__name__
    return cut(f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}")


def refuse(name: str, value: Any, wanted: str) -> NoReturn:
    """Raise "<name> is <what came>, wanted <what was wanted>"."""
    raise ValueError(cut(f"{name} is {described(value)}, wanted {wanted}", SENTENCE_CHARACTERS)) from None


def sentence(text: str) -> ValueError:
    """A ValueError of at most 300 characters."""
    return ValueError(cut(text, SENTENCE_CHARACTERS))


def listed(values: Iterable[Any]) -> str:
    """The first five of a sequence, for a sentence, each as `described`."""
    found = list(values)
    return ", ".join(cut(str(v) if isinstance(v, str) else described(v), 20) for v in found[:5]) + (
        ", .." if len(found) > 5 else ""
    )


# -- one number, one word ---------------------------------------------------------------------------------------------


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    infinite: bool = False,
) -> float:
    """One real number, within the bounds given; infinity only where ``infinite`` says so, NaN never. ValueError if it
    is none: a boolean, a string, an array of more than a number, or outside the bounds."""
    read = _scalar(value, "iuf")
    if read is None:
        refuse(name, value, _range("number", above, least, below, most, infinite))
    try:
        found = float(read)
    except OverflowError:
        refuse(name, value, _range("number", above, least, below, most, infinite))
    inside = _inside(found, above, least, below, most)
    if not inside or math.isnan(found) or (math.isinf(found) and not infinite):
        refuse(name, value, _range("number", above, least, below, most, infinite))
    return found


def whole(name: str, value: Any, *, least: int | None = None, most: int | None = None) -> int:
    """One whole number that fits 64 bits; 2.0 is refused, because the computation that gave it may give 2.7 next time.
    ValueError if it is none or outside the bounds."""
    read = _scalar(value, "iu")
    if read is None or not _inside(int(read), None, least, None, most) or abs(int(read)) > LARGEST_WHOLE:
        refuse(name, value, _range("whole number", None, least, None, most, False))
    return int(read)


def sized(name: str, value: int, entries: int, most: int = MOST_ENTRIES) -> int:
    """``value`` again, unless the arrays that it asks for would hold more than ``most`` numbers."""
    if entries > most:
        raise sentence(f"{name} is {described(value)}, wanted at most {most} numbers, not {entries:.3g}")
    return value


def seed(name: str, value: Any) -> int:
    """A seed of a random generator: a whole number of at least 0."""
    return whole(name, value, least=0)


def flag(name: str, value: Any) -> bool:
    """True or False; values that Python merely treats as true or false, such as 1, are refused."""
    if not isinstance(value, (bool, np.bool_)):
        refuse(name, value, "True or False")
    return bool(value)


def choice(name: str, value: Any, known: Collection[str], otherwise: str = "") -> str:
    """One of the names ``known``; ``otherwise`` ends the sentence ("or a cost matrix")."""
    if not isinstance(value, str) or value not in set(known):
        end = f" {otherwise}" if otherwise else ""
        refuse(name, value, f"{among(value, known)}{end}")
    return str(value)


def among(value: Any, known: Collection[str]) -> str:
    """ "one of a, b, c"; of more than four the number and the names nearest to ``value``, unless none is alike and the
    list is short enough for a sentence."""
    every = [str(each) for each in known]
    shown = ", ".join(every)
    short = len(shown) <= NAMES_CHARACTERS
    if len(every) <= 1 or (short and len(every) <= SHOWN_ENTRIES):
        return f"one of {shown}" if len(every) > 1 else cut(shown, NAMES_CHARACTERS)
    near: list[str] = []
    if isinstance(value, str):  # those that are alike or begin with it; if none does, the least unlike
        own, folded = value[:SHOWN_CHARACTERS].casefold(), {each.casefold(): each for each in every}
        begin = [each for each in folded if own and each.startswith(own)]
        alike = [*begin, *difflib.get_close_matches(own, folded, n=SHOWN_ENTRIES)]
        if not alike and not short:
            alike = difflib.get_close_matches(own, folded, n=SHOWN_ENTRIES, cutoff=0.0)
        near = [folded[each] for each in dict.fromkeys(alike)][:SHOWN_ENTRIES]
    if short and not near:
        return f"one of {shown}"
    first = [cut(each, NAMES_CHARACTERS // SHOWN_ENTRIES) for each in near or every[:SHOWN_ENTRIES]]
    return f"one of {len(every)} names, {'the nearest' if near else 'among them'} {', '.join(first)}"


class Named(dict[str, T]):
    """A mapping by name in which a name that is missing is a KeyError of one sentence, with the names that are near.

    what : what the names are of, "equation".
    """

    def __init__(self, what: str, values: Mapping[str, T]) -> None:
        super().__init__(values)
        self._what = what

    def __missing__(self, name: Any) -> NoReturn:
        raise KeyError(cut(f"{self._what} is {described(name)}, wanted {among(name, self)}", SENTENCE_CHARACTERS))


def no_attribute(module: str, known: Collection[str], name: str) -> NoReturn:
    """The ``__getattr__`` of a module, its public names ``known``: one sentence, with those near to ``name``, unless it
    is one of Python's own, for which tools ask every module.

    Raises
    ------
    AttributeError
        Always.
    """
    if name.startswith("__"):
        raise AttributeError(f"{module} has no {described(name)}")
    raise AttributeError(cut(f"{module} has no {described(name)}, wanted {among(name, known)}", SENTENCE_CHARACTERS))


def text_of(name: str, value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        refuse(name, value, "a text")
    return str(value)


def path_of(name: str, value: Any) -> str:
    """The path of a file: a string, or an object that has one (``os.PathLike``). ValueError if it is neither, is empty,
    or holds a null character."""
    try:
        found = os.fspath(value)
    except Exception:  # any: foreign code behind __fspath__
        refuse(name, value, "the path of a file")
    if not isinstance(found, str) or not found or "\0" in found:
        refuse(name, value, "the path of a file")
    return found


def function(name: str, value: Any, of: str = "") -> Any:
    """Anything that can be called; ``of`` says with what."""
    if not callable(value):
        refuse(name, value, f"a function{f' of {of}' if of else ''}")
    return value


def _scalar(value: Any, kinds: str) -> Any:
    """``value`` as a Python number if it is one number of these kinds of dtype, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and "f" in kinds):
        return value
    if isinstance(value, np.ma.MaskedArray) or not isinstance(value, (np.generic, np.ndarray)):
        return _exact(value, kinds)
    return value.item() if value.ndim == 0 and value.dtype.kind in kinds else None


def _exact(value: Any, kinds: str) -> Any:
    """A number of a foreign type: by ``__index__`` where whole, by ``__float__`` if it is registered as real."""
    from numbers import Real

    try:
        if hasattr(type(value), "__index__"):
            return operator.index(value)
        return float(value) if "f" in kinds and isinstance(value, Real) else None
    except Exception:  # any: it is foreign code that fails, and the caller says what was wanted
        return None


def _inside(value: float, above: float | None, least: float | None, below: float | None, most: float | None) -> bool:
    return (
        (above is None or value > above)
        and (least is None or value >= least)
        and (below is None or value < below)
        and (most is None or value <= most)
    )


def _range(
    what: str, above: float | None, least: float | None, below: float | None, most: float | None, infinite: bool
) -> str:
    """ "a positive number", "a whole number of at least 1", "a number above 0 and below 1"."""
    end = " or infinity" if infinite else ""
    if above == 0 and below is None and most is None:
        return f"a positive {what}{end}"
    if least is not None and most is not None:
        return f"a {what} from {least} to {most}"
    bounds = (("above", above), ("of at least", least), ("below", below), ("of at most", most))
    stated = " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)
    if not stated:
        return f"a {what}{end}" if infinite or what != "number" else "a finite number"
    return f"a {what} {stated}{end}"


# -- sequences and mappings -------------------------------------------------------------------------------------------


def sequence(name: str, value: Any, wanted: str = "a list", *, least: int = 0, length: int | None = None) -> list[Any]:
    """The entries of a list, tuple, range, or of an array along its first axis; no string, set, mapping or generator.
    ValueError if it is no sequence, or of another length."""
    if isinstance(value, LISTS) or (type(value) is np.ndarray and value.ndim):
        sized(f"the length of {name}", len(value), len(value))
        found = list(value)
    else:
        found = _foreign(name, value, wanted)
    if len(found) < least:
        raise sentence(f"{name} is empty, wanted {wanted}" if not found else
                       f"{name} has {len(found)} entries, wanted at least {least}")  # fmt: skip
    if length is not None and len(found) != length:
        raise sentence(f"{name} has {len(found)} entries, wanted {length}: {wanted}")
    return found


def _foreign(name: str, value: Any, wanted: str) -> list[Any]:
    """The entries of another package's array or table column, read through ``__array__``."""
    if hasattr(type(value), "__array__") and not isinstance(value, np.generic):
        try:
            read = np.asarray(value)
        except Exception:  # any: foreign code
            refuse(name, value, wanted)
        if not isinstance(value, np.ma.MaskedArray) and read.ndim:
            return list(read)
    refuse(name, value, wanted)


def mapping(
    name: str, value: Any, required: Collection[str], optional: Collection[str] = (), otherwise: str = ""
) -> dict[str, Any]:
    """A mapping with the keys ``required``, and none beyond those and ``optional``; ``otherwise`` ends the sentence.
    ValueError if it is no mapping, or has other keys."""
    keys = " and ".join([*sorted(required), *(f"perhaps {key}" for key in sorted(optional))])
    if not required:
        keys = f"among {', '.join(sorted(optional))}" if optional else "none"
    keys += otherwise
    wanted = f"a mapping with the key{'s' if len(required) + len(optional) > 1 else ''} {keys}"
    wanted = wanted if required or optional else "an empty mapping"
    if not isinstance(value, Mapping):
        refuse(name, value, wanted)
    try:
        read = dict(value)
        found = set(read)
    except Exception:  # any: a mapping of foreign code
        refuse(name, value, wanted)
    if not set(required) <= found or not found <= {*required, *optional}:
        raise sentence(f"{name} has the keys {cut(f'[{listed(sorted(map(described, found)))}]')}, wanted {keys}")
    return read
