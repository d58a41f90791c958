"""How long a solver may go on inside a round: the driver sets a deadline, and inner loops check it.

`solve` runs a solver ``with within(time_limit)``. Every inner loop of a solver that can be long (a line search, the
steps of an interior point method or of L-BFGS, a pass over the examples) calls `check`, which raises `DeadlinePassed`
once the time is over; the driver catches it and keeps the best iterate found before. So no solver has to pass a clock
from function to function, and without a limit a check costs a fraction of a microsecond.

The deadline belongs to the context of the caller (`contextvars`): two solves in two threads have one each, and of one
solve inside another the earlier deadline holds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float] = ContextVar("deadline", default=math.inf)


class DeadlinePassed(Exception):
    """The time is over; raised by `check`, or where a library that is given `left` ends without a result. The driver
    catches it; any other code must raise it again."""


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Inside, `check` raises when ``seconds`` from now are over, or earlier where an outer deadline is nearer."""
    end = math.inf if seconds is None else time.perf_counter() + seconds
    token = _end.set(min(_end.get(), end))
    try:
        yield
    finally:
        _end.reset(token)


@contextmanager
def without() -> Iterator[None]:
    """Inside there is no deadline: for the last certificate, which must be computed even after the deadline."""
    token = _end.set(math.inf)
    try:
        yield
    finally:
        _end.reset(token)


def left() -> float:
    """Seconds until the deadline, at least 0; inf if there is none."""
    end = _end.get()
    return end if math.isinf(end) else max(end - time.perf_counter(), 0.0)


def check(needed: float = 0.0) -> None:
    """Raise `DeadlinePassed` if the time is over, or less than the seconds ``needed`` are left: what takes so long and
    cannot be interrupted is not begun."""
    end = _end.get()
    if end < math.inf and time.perf_counter() + needed >= end:
        raise DeadlinePassed
