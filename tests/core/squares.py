"""A problem whose bounds can be written down, and solvers of it that do what they are told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexstruct.arrays import Point
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution


@dataclass(frozen=True)
class Square:
    """Minimise x^2 + 1 over x >= 0; a witness y proves the bound 1 - y^2."""

    family: str = "square"

    @property
    def trivial_value(self) -> float:
        return 1.0

    def trivial(self) -> tuple[Point, Point]:
        return {"x": np.asarray(0.0)}, {"y": np.asarray(1.0)}

    def as_point(self, value: Any) -> Point:
        return {"x": np.asarray(value["x"] if isinstance(value, Mapping) else value, dtype=np.float64)}

    def primal(self, point: Point) -> float:
        return float(point["x"] ** 2 + 1)

    def dual(self, dual_point: Point) -> float:
        return float(1 - dual_point["y"] ** 2)

    def repair(self, point: Point) -> Point:
        return {"x": np.maximum(point["x"], 0.0)}

    def residuals(self, point: Point) -> Mapping[str, float]:
        return {"x below 0": max(0.0, -float(point["x"]))}

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        return {}


def iterate(x: float, y: float | None = None, **more: Any) -> Iterate:
    """An honest iterate at x and y."""
    dual: Callable[[], Point] | None = None if y is None else (lambda: {"y": np.asarray(y)})
    return Iterate({"x": np.asarray(x)}, dual, x**2 + 1, -math.inf if y is None else 1 - y**2, **more)


@dataclass(frozen=True)
class Scripted:
    """A solver that yields what it is told; an exception in the list is raised."""

    script: list[Iterate | BaseException]
    closed: list[bool] = field(default_factory=list)

    def iterate(self, problem: Square, start: Solution | None = None) -> Iterator[Iterate]:
        try:
            for item in self.script:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.closed.append(True)


@dataclass(frozen=True)
class Endless:
    """Halves x and y for ever, or keeps them."""

    factor: float = 0.5
    pause: float = 0.0

    def iterate(self, problem: Square, start: Solution | None = None) -> Iterator[Iterate]:
        x = 1.0 if start is None else float(start.point["x"])
        while True:
            time.sleep(self.pause)
            yield iterate(x, x)
            x *= self.factor


@dataclass
class Told:
    """A progress that notes what it is told."""

    said: list[str]

    def update(self, iteration: int, primal: float, lower_bound: float, seconds: float) -> None:
        self.said.append("round")

    def close(self) -> None:
        self.said.append("closed")
