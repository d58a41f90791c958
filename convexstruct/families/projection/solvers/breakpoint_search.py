"""Projection onto a box with one equality: one number, the root of a piecewise linear function (paper 2, appendix B).

The computation is `convexstruct.oracles.box.projection`. There is one round, because every search is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.projection.box import BoxProjection
from convexstruct.oracles.box.projection import Box, Search
from convexstruct.validation.arguments import choice, sentence

#: Weights outside of [LEAST, GREATEST], whose squares may underflow or overflow, are scaled by a power of two. The
#: largest may be SPAN times the least, else no scale is right for both.
LEAST, GREATEST, SPAN = 1e-150, 1e150, 2.0**510


@dataclass(frozen=True)
class BreakpointSearch:
    """The root of (30), and with it the projection.

    search : where Newton's steps, which all three end with, start. "bracket" (ours): at the root of the problem of a
        sample of the variables. "medians": at the root by Algorithm 2, which halves the 2n breakpoints repeatedly.
        "sorting": at the root by sorting all breakpoints, which Algorithm 2 avoids.
    """

    search: Search = "bracket"

    def __post_init__(self) -> None:
        choice("search", self.search, ("bracket", "medians", "sorting"))

    def iterate(self, problem: BoxProjection, start: Solution | None = None) -> Iterator[Iterate]:
        """One round.

        Raises
        ------
        ValueError
            If the largest weight d is more than 2^510 times the least.
        """
        box, power = problem.box, 0
        least, greatest = problem.weight_ends
        if not LEAST <= least <= greatest <= GREATEST:  # 2^k d has the same projection, and 4^k rho
            if least < greatest / SPAN:
                raise sentence(
                    f"d reaches from {least:g} to {greatest:g}, wanted at most 2^510 = {SPAN:.1e} times as much"
                )
            power = -int(np.frexp(greatest)[1])
            box = Box.read(*box[:4], np.ldexp(box.d, power))
        a, rho = box.project(problem.z, self.search)
        with np.errstate(all="ignore"):
            rho = float(np.ldexp(rho, -2 * power))
            point, dual_point = {"a": a}, {"rho": np.array(rho)}
        # There is one round, so that values of the solver's own would decide nothing: the certificate gives them.
        yield Iterate(point, dual_point, np.inf, -np.inf, 1, done=True)
