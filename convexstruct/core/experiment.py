"""Experiments, each a table or figure of a paper. A file in ``experiments/`` of a family holds one:

    NAME, PAPER, TITLE    what ``convexstruct reproduce`` takes and shows
    COLUMNS, PUBLISHED    the headings; the paper's own numbers by name, if it prints any
    run(sheet)            fills in the `Sheet`; its docstring says what the seed draws

and its docstring says what is measured, beside what, and what does not reproduce and why. Where its data are not here,
``run`` raises the ValueError of their reader, which says how to get them and where to put them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.validation.arguments import choice, flag, function
from convexstruct.validation.arguments import seed as read_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

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


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper. name : the name that ``convexstruct reproduce`` takes. family : the family of
    problems. paper : the paper and the place in it. file : the module that holds it."""

    name: str
    family: str
    paper: str
    title: str
    file: ModuleType

    @classmethod
    def of(cls, file: ModuleType, family: str) -> Experiment:
        """The experiment that a file holds."""
        return cls(file.NAME, family, file.PAPER, file.TITLE, file)

    def run(
        self, quick: bool = False, seed: int = 0, progress: Steps | None = None, executor: Executor | None = None
    ) -> Result:
        """The experiment, run; with ``quick`` a version of a few seconds, whose notes say what was left out.

        executor : makes the calls of `Sheet.in_order`; None: this process does, one after the other.

        Raises
        ------
        ValueError
            If an argument is none of these, or the data are not here.
        """
        if progress is not None:
            function("progress", progress, "(done, total, name)")
        published = getattr(self.file, "PUBLISHED", {})
        sheet = Sheet(self.file.COLUMNS, flag("quick", quick), read_seed("seed", seed), progress, published, executor)
        self.file.run(sheet)
        return Result(
            self.name, self.paper, sheet.columns, sheet.rows, sheet.published, sheet.notes, sheet.seconds, sheet.figures
        )


class Sheet:
    """What a run of an experiment fills in.

    quick, seed : how it is run. total : how many steps there will be, for the run to set before the first. rows,
    published, notes, figures : as in `Result`; ``published`` is at first that of the file.
    """

    def __init__(
        self,
        columns: Sequence[str] = (),
        quick: bool = False,
        seed: int = 0,
        progress: Steps | None = None,
        published: Mapping[str, Any] | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.columns, self.quick, self.seed, self._executor = columns, quick, seed, executor
        self.total, self._done, self._progress, self._begin = 0, 0, progress, time.perf_counter()
        self.rows: list[list[Cell]] = []
        self.published: dict[str, Any] = dict(published or {})
        self.notes: list[str] = []
        self.figures: dict[str, Figure] = {}

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.perf_counter() - self._begin

    def pick(self, full: T, quick: T) -> T:
        """One of the two sizes, lists or limits of a run."""
        return quick if self.quick else full

    def step(self, name: str) -> None:
        """The next step, called ``name``, begins."""
        if self._progress is not None:
            self._progress(self._done, self.total, name)
        self._done += 1

    def add(self, *cells: Any, **named: Any) -> None:
        """A row: cells from the first heading on, others by their heading; what is not given is None."""
        if len(cells) > len(self.columns) or not set(named) <= set(self.columns[len(cells) :]):
            raise ValueError(f"a row has {len(cells)} cells and {sorted(named)}, wanted some of {self.columns}")
        row = dict.fromkeys(self.columns) | dict(zip(self.columns, cells)) | named
        self.rows.append([cell.item() if isinstance(cell, np.generic) else cell for cell in row.values()])

    def table(self) -> list[dict[str, Any]]:
        """The rows so far, each by its headings."""
        return [dict(zip(self.columns, row)) for row in self.rows]

    def left_out(self, sentence: str) -> None:
        """A note on what a quick run leaves out; nothing in a full run."""
        self.notes += [f"quick: {sentence}"] if self.quick else []

    def choose(
        self, grid: Iterable[K], judge: Callable[[K], float], name: Callable[[K], str], largest: bool = False
    ) -> tuple[K, dict[K, float]]:
        """The value of ``grid`` that ``judge`` gives the least number (or the largest), the first of those that tie,
        and the numbers of all. A step each, called ``name`` of the value."""
        found = {}
        for value in grid:
            self.step(name(value))
            found[value] = judge(value)
        return (max if largest else min)(found, key=lambda value: found[value]), found

    def in_order(self, function: Callable[..., T], calls: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[T]:
        """function(*call) of each call, in the order of ``calls``; each is a step, with its name of ``names``.

        The calls must not depend on one another, and each must take its seed from its own arguments: where there is an
        executor they run at the same time, and the results must be the same.
        """
        found = []
        if self._executor is None:
            for call, name in zip(calls, names, strict=True):
                self.step(name)
                found.append(function(*call))
            return found
        futures = [self._executor.submit(function, *call) for call in calls]
        try:
            for future, name in zip(futures, names, strict=True):
                self.step(name)
                found.append(future.result())
        finally:
            for future in futures:
                future.cancel()
        return found


def timed(function: Callable[..., T], *arguments: Any, **options: Any) -> tuple[T, float]:
    """(the value of a call, processor seconds of it)."""
    begin = time.process_time()
    return function(*arguments, **options), time.process_time() - begin


def listed(found: Mapping[float, float], form: str) -> str:
    """ "12.3% at 0.1, 9.1% at 1": numbers by the value they were found at. form : of a number, as "{:.1%}"."""
    return ", ".join(f"{form.format(number)} at {value:g}" for value, number in found.items())


def standard_error(values: ArrayLike, lengths: ArrayLike | None = None) -> float | None:
    """The standard error of the mean of n values; None for one draw.

    values (n,) : independent draws, or the values of K sequences that are drawn as a whole, one after the other.
    lengths (K,) : the number of values in each sequence. Then it is sqrt(K / (K - 1) sum_k e_k^2) / n, with e_k the sum
    over sequence k of the values less the mean of all.
    """
    given = np.asarray(values, dtype=float)
    sizes = None if lengths is None else np.asarray(lengths, dtype=np.intp)
    k = len(given) if sizes is None else len(sizes)
    if k < 2:
        return None
    if sizes is None:
        return float(np.std(given, ddof=1) / np.sqrt(k))
    away = np.bincount(np.repeat(np.arange(k), sizes), weights=given - np.mean(given))
    return float(np.sqrt(k / (k - 1) * (away @ away)) / len(given))


def _plain(cell: Any) -> Cell:
    value = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(value, float) and not math.isfinite(value):
        return None
    plain: Cell = value
    return plain
