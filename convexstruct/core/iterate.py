"""The interface between the driver and a solver: `Iterate`, yielded each round, and the protocol `Solver`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from convexstruct.arrays import Point
from convexstruct.brief import brief
from convexstruct.core.solution import Solution
from convexstruct.validation.arguments import refuse, text_of, whole


@dataclass(frozen=True, eq=False)
class Iterate:
    """What a solver yields each round.

    point : the primal point reached (need not be the best so far; need not be feasible: certify repairs it).
    dual_point : a dual point, a function that makes it (called only if this iterate is kept), or None.
    primal, lower_bound : the bounds that the solver computed for these points, inf and -inf where it has none: of
        iterates without, the last is kept. An exact solver of one round may leave both to the certificate.
    oracle_calls : how often the oracle was run on the whole batch so far.
    parts : seconds spent so far by subroutine, if the solver measures them.
    done : the solver has nothing left to try; the driver stops after this iterate.
    message : one sentence for the solution's message, e.g. which branch the solver took.
    stationary : the last iterate of a problem that is not convex, and its gradient vanishes, or no move that the solver
        knows lowers the loss; the message says what was measured.
    """

    point: Point
    dual_point: Point | Callable[[], Point] | None
    primal: float
    lower_bound: float
    oracle_calls: int = 0
    parts: Mapping[str, float] = field(default_factory=dict)
    done: bool = False
    message: str = ""
    stationary: bool = False

    __repr__ = brief

    def __post_init__(self) -> None:
        if not isinstance(self.point, Mapping):
            refuse("point of an iterate", self.point, "a mapping of names to arrays")
        if not (self.dual_point is None or isinstance(self.dual_point, Mapping) or callable(self.dual_point)):
            refuse("dual_point of an iterate", self.dual_point, "a mapping, a function that makes one, or None")
        for name, bound in (("primal", self.primal), ("lower_bound", self.lower_bound)):
            if isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating)):
                refuse(f"{name} of an iterate", bound, "a number, inf or -inf where there is none")
        whole("oracle_calls of an iterate", self.oracle_calls, least=0)
        if not isinstance(self.parts, Mapping):
            refuse("parts of an iterate", self.parts, "a mapping of subroutines to seconds")
        text_of("message of an iterate", self.message)


class Solver(Protocol):
    """A frozen dataclass of options; its class name is the solver's name."""

    def iterate(self, problem: Any, start: Solution | None = None) -> Iterator[Iterate]: ...
