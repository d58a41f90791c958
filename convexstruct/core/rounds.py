"""For solvers that work in rounds: the seconds spent in each subroutine, and a test of whether the bounds still
improve."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from convexstruct.tolerances import ROUNDING

#: Rounds in a row that improve neither bound, after which a solver whose rounds should improve one ends: what is left
#: of the gap is rounding.
PATIENCE = 50


class Clock:
    """``with clock("master"): ...`` adds the seconds inside to ``clock.parts["master"]``."""

    def __init__(self, *names: str) -> None:
        self.parts = dict.fromkeys(names, 0.0)
        self._name = ""
        self._since = 0.0

    def __call__(self, name: str) -> Clock:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.parts[self._name] += time.perf_counter() - self._since


@dataclass
class Patience:
    """Counts successive rounds in which neither bound improves by more than rounding; `ended` is true once there are
    ``rounds`` of them.

    least : rounding is `ROUNDING` times the objective or times this, absolute, if that is larger
        (`convexstruct.core.certificates.least_unit`).
    """

    rounds: int
    least: float = 0.0
    _primal: float = field(default=math.inf, init=False)
    _lower_bound: float = field(default=-math.inf, init=False)
    _idle: int = field(default=0, init=False)

    def ended(self, primal: float, lower_bound: float) -> bool:
        rounding = ROUNDING * max(self.least, abs(primal))
        if primal < self._primal - rounding or lower_bound > self._lower_bound + rounding:
            self._primal, self._lower_bound, self._idle = primal, lower_bound, 0
        else:
            self._idle += 1
        return self._idle >= self.rounds
