r"""An interior point method: the `central_path` of the reduced SDP of few rows in its free entries, and that of the
two-class SDP (3) in its `bordered_dual`.

In free entries the first point is strictly inside (`interior`), so every iterate is strictly feasible, whatever the
balances: a band of (9) with hardly any room in it is no harder than a wide one, and nothing has to be repaired. A step
costs d^3 / 3 for d free entries, about (p1^2 + p2^2) / 2; on the dual of (3) a step costs (4 p1)^3 / 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.bordered_dual import BorderedDual
from convexstruct.families.unsupervised_margin.solvers.central_path import follow
from convexstruct.families.unsupervised_margin.solvers.free_entries import FreeEntries


@dataclass(frozen=True)
class InteriorPoint:
    """Predictor and corrector along the central path of the reduced SDP, or of the two-class SDP.

    barrier : mu at first, in units of the largest cost; not used for the two-class SDP, whose first multipliers are
    stationary. steps : at most; after so many, only rounding is left.
    """

    barrier: float = 0.1
    steps: int = 100

    def __post_init__(self) -> None:
        read_options(self, barrier=positive, steps=at_least(1))

    def iterate(
        self, problem: UnsupervisedMargin | PermutationInvariantMargin, start: Solution | None = None
    ) -> Iterator[Iterate]:
        """A start is yielded with its bounds, and not used: points near the border are no good first ones."""
        of = FreeEntries(problem) if isinstance(problem, UnsupervisedMargin) else BorderedDual(problem)
        point, witness = problem.trivial()
        if start is not None and start.dual_point is not None:
            point, witness = dict(problem.repair(start.point)), start.dual_point
        found = Iterate(point, witness, problem.primal(point).upper, problem.dual(witness).lower, 0)
        yield found
        cones = of.cones()
        for step, (x, mu) in enumerate(follow(of.c, of.x, cones, self.barrier, self.steps), start=1):
            point, witness = of.read(x, [cone.z for cone in cones])
            bounds = problem.primal(point).upper, problem.dual(witness).lower
            found = Iterate(point, witness, *bounds, step, message=f"{step} steps, mu {mu:.1e}")
            yield found
        if why := problem.rounding_reason(point, witness):
            yield replace(found, done=True, message=f"{found.message}: {why}")
