"""Projection onto a box with one equality: one number, the root of a piecewise linear function (paper 2, appendix B).

The numerics are an oracle's, `convexstruct.oracles.box.projection`; here they stand in the driver's form. There is one
round, because every search is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.projection.box import BoxProjection
from convexstruct.oracles.box.projection import Search, project_with_multiplier
from convexstruct.validation.arguments import choice


@dataclass(frozen=True)
class BreakpointSearch:
    """The root of (30), and with it the projection.

    search : where Newton's steps start, which find the root in all three. "bracket" (ours): at the root of a sample's
        problem. "medians": at the root by Algorithm 2, which halves all 2n breakpoints again and again. "sorting": at
        the root from all breakpoints in order, what Algorithm 2 improves on.
    """

    search: Search = "bracket"

    def __post_init__(self) -> None:
        choice("search", self.search, ("bracket", "medians", "sorting"))

    def iterate(self, problem: BoxProjection, start: Solution | None = None) -> Iterator[Iterate]:
        a, rho = project_with_multiplier(
            problem.m, problem.lower, problem.upper, problem.s, problem.z, problem.d, self.search
        )
        point, dual_point = {"a": a}, {"rho": np.array(rho)}
        with np.errstate(all="ignore"):
            value = problem.value(a)
            believed = value + rho * (problem.total(a) - problem.z)  # the Lagrangian at its minimiser
        value = value if np.isfinite(value) else np.inf
        yield Iterate(point, dual_point, value, believed if np.isfinite(believed) else -np.inf, 1, done=True)
