"""A toy family, not one of the package: minimise c'x over the box |x_j| <= 1. The optimum is -|c|_1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.verification import Case, Instance
from convexstruct.verification.isolation import Answer, Entrant


@dataclass(frozen=True, eq=False)
class Box:
    """min c'x, -1 <= x <= 1. A dual witness q >= max(c, 0), with p = q - c >= 0, has the value -sum(p + q).

    With ``certified=False`` it stands for a problem without duality.
    """

    c: Vector
    certified: bool = True
    family: str = "toy"

    @property
    def trivial_value(self) -> float:
        """The objective is 0 at the trivial point, so the size of the objective at a corner takes its place."""
        return float(np.abs(self.c).sum())

    def trivial(self) -> tuple[Point, Point]:
        return {"x": np.zeros_like(self.c)}, {"q": np.maximum(self.c, 0.0)}

    def as_point(self, value: Any) -> Point:
        x = np.asarray(value["x"] if isinstance(value, Mapping) else value, dtype=float)
        if x.shape != self.c.shape:
            raise ValueError(f"x has shape {x.shape}, wanted {self.c.shape}")
        return {"x": x}

    def primal(self, point: Point) -> float:
        return float(self.c @ point["x"])

    def repair(self, point: Point) -> Point:
        return {"x": np.clip(point["x"], -1.0, 1.0)}

    def residuals(self, point: Point) -> Mapping[str, float]:
        return {"|x| above 1": float(max(np.abs(point["x"]).max() - 1.0, 0.0))}

    def dual(self, dual_point: Point) -> float:
        q = self._read(dual_point)
        valid = self.certified and (q >= np.maximum(self.c, 0.0)).all()
        return float(-np.sum(2 * q - self.c)) if valid else -np.inf

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        return {"q below max(c, 0)": float(max(np.max(np.maximum(self.c, 0.0) - self._read(dual_point)), 0.0))}

    def _read(self, dual_point: Point) -> Vector:
        q = np.asarray(dual_point["q"], dtype=float)
        if q.shape != self.c.shape:
            raise ValueError(f"q has shape {q.shape}, wanted {self.c.shape}")
        return q


COSTS = np.array([1.0, -2.0, 3.0])
OPTIMUM = -6.0
BEST = -np.sign(COSTS)


def case(certified: bool = True) -> Case:
    """A case of this family; its system is not in the registry, and need not be."""
    return Case(
        "toy-box", "discriminative training of a hidden Markov model", "(1)", "a linear function on a box",
        lambda seed: Instance(Box(COSTS.copy(), certified), OPTIMUM), "none", certified=certified,
        family="generative_margin", paper="paper 0",
    )  # fmt: skip


def answer(solver: Callable[[Any], Any], limit: float = 20.0) -> Answer:
    """What a solver gives for that case."""
    with Entrant(solver) as entrant:
        return entrant.answer(case(), 0, limit)
