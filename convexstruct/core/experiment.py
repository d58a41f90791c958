"""Experiments, each a table or figure of a paper: their interface, and the result that they return."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from convexstruct.validation.arguments import choice, flag, function
from convexstruct.validation.arguments import seed as read_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
_executor: ContextVar[Executor | None] = ContextVar("executor", default=None)

#: A cell of a table: a value that JSON can hold.
Cell = str | int | float | None

#: Called with (steps done, steps in all, name of the next step).
Steps = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Result:
    """A table or figure of a paper, measured here.

    name, paper : of the experiment. columns : headings. rows : one list for each row, aligned with ``columns``.
    published : the paper's own numbers, by name. notes : sentences needed to read the table correctly. seconds : time
    of the whole run. figures : by caption.
    """

    name: str
    paper: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    published: Mapping[str, Any]
    notes: Sequence[str]
    seconds: float
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {self.name} has {len(row)} cells, wanted one for each of {self.columns}")

    def as_json(self) -> dict[str, Any]:
        """What ``convexstruct reproduce --json`` prints; cells that are not finite become null."""
        return {
            "name": self.name,
            "paper": self.paper,
            "columns": list(self.columns),
            "rows": [[_plain(cell) for cell in row] for row in self.rows],
            "published": dict(self.published),
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def column(self, name: str) -> list[Cell]:
        """The cells under one heading; ValueError names the headings if there is none of that name."""
        at = list(self.columns).index(choice("name", name, self.columns))
        return [row[at] for row in self.rows]


class Run(Protocol):
    """Runs an experiment; with ``quick`` a version of a few seconds, whose notes say what was left out."""

    def __call__(self, quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result: ...


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper. name : the name that ``convexstruct reproduce`` takes. family : the family of
    problems. paper : the paper and the place in it."""

    name: str
    family: str
    paper: str
    title: str
    run: Run

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", _read(self.run))


def _read(run: Run) -> Run:
    """``run`` with its arguments validated; ValueError names the one that is invalid."""

    @functools.wraps(run)
    def checked(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
        quick, seed = flag("quick", quick), read_seed("seed", seed)
        if progress is not None:
            function("progress", progress, "(done, total, name)")
        return run(quick=quick, seed=seed, progress=progress)

    return checked


class Progress:
    """Counts the steps of a run, reports them to the caller, and measures the time."""

    def __init__(self, steps: Steps | None, total: int) -> None:
        self._steps = steps
        self._total = total
        self._done = 0
        self._begin = time.perf_counter()

    def next(self, name: str) -> None:
        """The next step, called ``name``, begins."""
        if self._steps is not None:
            self._steps(self._done, self._total, name)
        self._done += 1

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin


@contextmanager
def spread_over(executor: Executor | None) -> Iterator[None]:
    """Inside, `in_order` submits its calls to ``executor``; with None it makes them one after the other in this
    process."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)


def in_order(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], names: Sequence[str], steps: Progress
) -> list[T]:
    """function(*call) of each call, in the order of ``calls``; each is a step of ``steps``, with its name of ``names``.

    The calls must not depend on one another, and each must take its seed from its own arguments: where an executor is
    set (`spread_over`) they run at the same time, and the results must be the same.
    """
    executor, found = _executor.get(), []
    if executor is None:
        for call, name in zip(calls, names, strict=True):
            steps.next(name)
            found.append(function(*call))
        return found
    futures = [executor.submit(function, *call) for call in calls]
    try:
        for future, name in zip(futures, names, strict=True):
            steps.next(name)
            found.append(future.result())
    finally:
        for future in futures:
            future.cancel()
    return found


def standard_error(lengths: Sequence[int], values: NDArray[Any]) -> float:
    """The standard error of the mean of ``values`` where whole sequences are sampled: sqrt(K / (K - 1) sum_k e_k^2) /
    n, with e_k the sum over sequence k of the values less the mean of all values.

    lengths (K,) : number of values in each sequence, K >= 2. values (n,) : one sequence after the other.
    """
    k = len(lengths)
    away = np.bincount(np.repeat(np.arange(k), lengths), weights=values - np.mean(values))
    return float(np.sqrt(k / (k - 1) * (away @ away)) / len(values))


def _plain(cell: Any) -> Cell:
    value = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(value, float) and not math.isfinite(value):
        return None
    plain: Cell = value
    return plain
