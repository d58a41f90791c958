"""Parts of a batch that are read from files where they are worked on, and kept there while there is room.

A process keeps the problems of as many files as fit into the memory that it is told; those of other files are read
again each time. What is kept but was not asked for since the file at hand was last here, as of an earlier problem,
makes room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from convexstruct.features.example_files import ExampleFile, named

#: Bytes that the problem of a file takes for each number in its features: the number, the same in the order of the
#: chains, and its square, of 8 bytes each; where they are sparse, its column two or three times besides.
TAKEN = 32


@dataclass(frozen=True, eq=False)
class FilePart:
    """The part of ``file``. made : (examples, weights) -> its problem. memory : bytes that a process may keep."""

    file: ExampleFile
    made: Callable[..., Any]
    memory: int

    def problem(self) -> Any:
        """The problem of the file. ValueError, which names it, if it cannot be read or its examples do not fit."""
        with _lock:
            before, _asked[self] = _asked.get(self, 0), next(_clock)
            if self in _kept:
                return _kept[self]
        read = self.file.read()
        with named(self.file.path):
            found = self.made(*read)
        with _lock:
            for each in [each for each in _kept if _asked[each] < before]:
                del _kept[each]
            if sum(each.size for each in [*_kept, self]) <= self.memory:
                _kept[self] = found
        return found

    @property
    def size(self) -> int:
        """The bytes that its problem takes, roughly."""
        return TAKEN * self.file.n_entries


_lock = threading.Lock()
_clock = count(1)
_kept: WeakKeyDictionary[FilePart, Any] = WeakKeyDictionary()
_asked: WeakKeyDictionary[FilePart, int] = WeakKeyDictionary()
