"""The solver's own bounds, round by round: `Trace`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from convexstruct.brief import brief
from convexstruct.core.certificates import relative_gap
from convexstruct.tolerances import upside_down


@dataclass
class Trace:
    """One row for each iteration with the solver's own bounds. They are not proved; the certificate at the end of the
    run is, and where a solver of one round leaves its bounds to the certificate, the row has those.

    ``primal`` and ``lower_bound`` are the best so far by the solver's own figures, ``seconds`` is the time since the
    start, and ``parts`` the cumulative seconds by name of subroutine, where the solver reports them. ``least`` is the
    smallest divisor of a relative gap, absolute (`convexstruct.core.certificates.least_unit`).
    """

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    oracle_calls: list[int] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    least: float = 0.0

    __repr__ = brief

    def append(self, iteration: int, seconds: float, oracle_calls: int, primal: float, lower_bound: float) -> None:
        self.iteration.append(iteration)
        self.seconds.append(seconds)
        self.oracle_calls.append(oracle_calls)
        self.primal.append(primal)
        self.lower_bound.append(lower_bound)

    def fill_last(self, primal: float, lower_bound: float) -> None:
        """Certified bounds in the last row, each where the solver computed none."""
        if not math.isfinite(self.primal[-1]):
            self.primal[-1] = primal
        if not math.isfinite(self.lower_bound[-1]):
            self.lower_bound[-1] = lower_bound

    def __len__(self) -> int:
        return len(self.iteration)

    def __iter__(self) -> Iterator[tuple[int, float, int, float, float]]:
        return iter(zip(self.iteration, self.seconds, self.oracle_calls, self.primal, self.lower_bound))

    def first_within(self, gap: float) -> tuple[int, float] | None:
        """(iteration, seconds) at which the solver's own bounds first came within the relative ``gap``; None if never,
        or if the lower bound was then above the primal value by more than rounding."""
        for (iteration, seconds, *_), reached in zip(self, self.gaps()):
            if reached <= gap:
                return None if upside_down(reached) else (iteration, seconds)
        return None

    def gaps(self) -> list[float]:
        """The relative gap of each row, by the solver's own figures."""
        return [relative_gap(primal, lower, self.least) for _, _, _, primal, lower in self]
