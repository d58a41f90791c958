"""The interface between the driver and a solver: `Iterate`, yielded each round, and the protocol `Solver`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from convexstruct.arrays import Point
from convexstruct.core.solution import Solution


@dataclass(frozen=True, eq=False)
class Iterate:
    """What a solver yields each round.

    point : the primal point reached (need not be the best so far; need not be feasible: certify repairs it).
    dual_point : its dual witness, a function that makes it (called only if this iterate is kept), or None.
    primal, lower_bound : the bounds the solver computed for them, inf and -inf where it has none.
    oracle_calls : how often the oracle ran over the whole batch so far.
    parts : seconds spent so far by subroutine, if the solver measures them.
    done : the solver has nothing left to try; the driver stops after this iterate.
    message : one sentence worth keeping, e.g. which branch the solver took.
    """

    point: Point
    dual_point: Point | Callable[[], Point] | None
    primal: float
    lower_bound: float
    oracle_calls: int = 0
    parts: Mapping[str, float] = field(default_factory=dict)
    done: bool = False
    message: str = ""


class Solver(Protocol):
    """A frozen dataclass of options; its class name is the solver's name."""

    def iterate(self, problem: Any, start: Solution | None = None) -> Iterator[Iterate]: ...
