"""Inference by projected Newton steps (Bertsekas 1982): all examples at once, each with its own set of free labels.

`convexstruct.families.energy_network.energy.minimise` is the algorithm; one round is all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.energy_network.energy import minimise
from convexstruct.families.energy_network.inference import EnergyInference


@dataclass(frozen=True)
class ProjectedNewton:
    """No options."""

    def iterate(self, problem: EnergyInference, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield the minimum once; ``start`` gives the first Y."""
        begin = None if start is None else problem.repair(problem.as_point(start.point))["Y"]
        y = minimise(problem.energy, problem.scores, begin)
        values, gaps = (of(problem.scores, y) for of in (problem.energy.values, problem.energy.gaps))
        value = float(values.sum())
        yield Iterate({"Y": y}, {"Y": y}, value, value - float(gaps.sum()), 1, done=True)
