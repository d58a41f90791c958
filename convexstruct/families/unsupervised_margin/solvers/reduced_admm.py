r"""ADMM for the reduced SDP, in the form of Douglas and Rachford, with Anderson acceleration.

`Splitting` defines the step. Two things make it fast:

* the penalty is raised where the distance between the copies causes most of the gap between the bounds, and lowered
  where the multipliers do;
* every few steps the state is replaced by the combination of the last ones that is predicted to have the shortest step
  (Anderson, type II; as in SCS 3).

Each round ends with proved bounds: the upper one at the copy in the cones, moved nearer to the feasible set
(`Splitting.polished`) and repaired; the lower one from the multipliers, with the `best_diagonal` for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.rounds import PATIENCE, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.splitting import BOUND_RATIO, Splitting

#: Regularisation of the combination of steps, relative to their squared lengths: steps that nearly depend on each other
#: would get huge weights.
REGULARISATION = 1e-8
#: Factor of the penalty where one bound is much farther off than the other: small, for the state is kept.
CHANGE = 1.5


@dataclass(frozen=True)
class ReducedADMM:
    """ADMM with Anderson acceleration on the reduced SDP.

    penalty : weight of the distance between copies and consensus at first, in units of the largest cost.
    relaxation : alpha, from 1 to below 2. memory : steps that are combined; 0 is plain ADMM. every : steps between two
    combinations. steps : steps of a round, after which the bounds are computed. changes : of the penalty, each by
    `CHANGE` after a round, at most.
    """

    penalty: float = 3.0
    relaxation: float = 1.8
    memory: int = 10
    every: int = 5
    steps: int = 50
    changes: int = 20

    def __post_init__(self) -> None:
        read_options(
            self,
            penalty=positive,
            relaxation=positive,
            memory=at_least(0),
            every=at_least(1),
            steps=at_least(1),
            changes=at_least(0),
        )
        if not 1.0 <= self.relaxation < 2.0:
            raise ValueError(f"relaxation is {self.relaxation:g}, wanted a number from 1 to below 2")

    def iterate(self, problem: UnsupervisedMargin, start: Solution | None = None) -> Iterator[Iterate]:
        begin = problem.trivial()[0] if start is None or start.point is None else start.point
        return self.from_point(problem, begin)

    def from_point(self, problem: UnsupervisedMargin, begin: Point, witness: Point | None = None) -> Iterator[Iterate]:
        """Iterate from a point, feasible or not, and from multipliers, 0 by default."""
        splitting = Splitting(problem)
        state = splitting.copies(begin["M"], begin["N"])
        penalty, taken, changes = self.penalty, 0, 0
        if witness is not None:
            state += splitting.multipliers(witness, penalty)
        combination = _Combination(self.memory, len(state))
        waiting = Patience(PATIENCE, least_unit(problem))
        while True:
            for _ in range(self.steps):
                deadline.check()
                z = splitting.project(state)
                m, n = splitting.consensus(2.0 * z - state, penalty)
                apart = splitting.copies(m, n) - z
                taken += 1
                multipliers = state - z
                state = combination.next(
                    state + self.relaxation * apart, apart * splitting.metric, taken % self.every == 0
                )
            close = dict(zip("MN", splitting.parts(z)))
            point, witness = dict(problem.repair(splitting.polished(close))), splitting.witness(multipliers, penalty, m)
            primal, lower = problem.primal(point), problem.dual(witness)
            yield Iterate(
                point,
                witness,
                primal.upper,
                lower.lower,
                taken,
                done=waiting.ended(primal.upper, lower.lower),
                message=f"{taken} steps, copies {float(np.linalg.norm(apart)):.1e} apart, penalty {penalty:.3g}",
            )
            factor = self._factor(float(primal), float(problem.primal(close)), float(lower))
            if factor != 1.0 and changes < self.changes:
                penalty, changes = penalty * factor, changes + 1
                state = z + multipliers / factor
                combination.forget()

    def _factor(self, primal: float, close: float, lower: float) -> float:
        """The factor of the penalty: above 1 where the repair of the copies causes most of the gap, below 1 where the
        dual point does."""
        repaired, left = primal - close, abs(close - lower)
        if repaired > BOUND_RATIO * left:
            return CHANGE
        return 1.0 / CHANGE if left > BOUND_RATIO * repaired else 1.0


class _Combination:
    """The last steps of a fixed point iteration, and the combination of them whose residual is least."""

    def __init__(self, memory: int, size: int) -> None:
        self.memory = memory
        self._changes = np.empty((memory, size))  # of the residual g
        self._images = np.empty((memory, size))  # of the image f
        self.forget()

    def forget(self) -> None:
        self._known, self._last = 0, None

    _last: tuple[Vector, Vector] | None

    def next(self, image: Vector, residual: Vector, combine: bool) -> Vector:
        """The next state, from the image of this one and its residual (image - state, in the metric)."""
        if not self.memory:
            return image
        if self._last is not None:
            at = self._known % self.memory
            np.subtract(image, self._last[0], out=self._images[at])
            np.subtract(residual, self._last[1], out=self._changes[at])
            self._known += 1
        self._last = (image, residual)
        if not combine or self._known < self.memory:
            return image
        products = self._changes @ self._changes.T
        size = float(np.trace(products))
        if not size > np.finfo(float).tiny:  # the steps no longer change
            return image
        products[np.diag_indices_from(products)] += REGULARISATION * size
        weights = np.linalg.solve(products, self._changes @ residual)
        return np.asarray(image - weights @ self._images)
