r"""An interior point method for the reduced SDP of few rows: the `central_path` in its free entries.

The first point is strictly inside (`interior`), so every iterate is strictly feasible, whatever the balances: a band of
(9) with hardly any room in it is no harder than a wide one, and nothing has to be repaired. A step costs d^3 / 3 for d
free entries, about (p1^2 + p2^2) / 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.central_path import follow
from convexstruct.families.unsupervised_margin.solvers.free_entries import FreeEntries


@dataclass(frozen=True)
class InteriorPoint:
    """Predictor and corrector along the central path of the reduced SDP.

    barrier : mu at first, in units of the largest cost. steps : at most; after so many, only rounding is left.
    """

    barrier: float = 0.1
    steps: int = 100

    def __post_init__(self) -> None:
        read_options(self, barrier=positive, steps=at_least(1))

    def iterate(self, problem: UnsupervisedMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """A start is yielded with its bounds, and not used: points near the border are no good first ones."""
        point, witness = problem.trivial()
        if start is not None and start.dual_point is not None:
            point, witness = dict(problem.repair(start.point)), start.dual_point
        yield Iterate(point, witness, problem.primal(point).upper, problem.dual(witness).lower, 0)
        of = FreeEntries(problem)
        cones = of.cones()
        for step, (x, mu) in enumerate(follow(of.c, of.x, cones, self.barrier, self.steps), start=1):
            point, witness = of.point(x), of.witness(*(cone.z for cone in cones))
            bounds = problem.primal(point).upper, problem.dual(witness).lower
            found = Iterate(point, witness, *bounds, step, message=f"{step} steps, mu {mu:.1e}")
            yield found
        if why := problem.rounding_reason(point, witness):
            yield replace(found, done=True, message=f"{found.message}: {why}")
