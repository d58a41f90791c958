r"""L-BFGS-B on the dual of a convex energy network: N L variables in the cube, one L x L eigendecomposition a step.

D of `problem` has the gradient d_i + U x_i - Q y_i - sum_k v_k softplus'(a_k'y_i + b_k) a_k in y_i at W = W(Y), that of
the loss-augmented energies; the variables are r = |Y - T|. SciPy's L-BFGS-B runs for a number of steps, which doubles
from round to round, so that what a new run forgets is little; after each the loss-augmented inference at W(Y), begun at
Y, gives the upper bound.

Where features differ much in size, or lam is small, this takes many steps or ends far from the optimum. So once its
sums over the examples cost as much as the `interior_point` method, or L-BFGS-B ends by itself, that takes over, where
its matrices fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from convexstruct import deadline
from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.energy_network.problem import ConvexEnergyNetwork
from convexstruct.families.energy_network.solvers.interior_point import central_path, operations
from convexstruct.rounding import exact

#: Rounds in a row that L-BFGS-B ends by itself, after which the rest is rounding: the first of them may have ended for
#: pairs of a region that is left.
MOST_ENDED = 2
#: A round that raises the dual by less than this share of the rest, upper less lower bound, counts as one that ended:
#: where features differ much in size no number of steps is enough.
LEAST_RISE = 1e-6
#: The interior point method begins after as many gradients as cost this many of its steps, of which it takes 10 to 30;
#: its steps are products of matrices, in which a multiplication takes a fifth of the time.
STEPS_BEFORE = 4


@dataclass(frozen=True)
class DualLBFGSB:
    """memory : pairs kept. steps : of the first round; each round has twice as many as the one before."""

    memory: int = 10
    steps: int = 25

    def __post_init__(self) -> None:
        read_options(self, memory=at_least(1), steps=at_least(1))

    def iterate(self, problem: ConvexEnergyNetwork, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield W(Y) and r at first, and after each round; ``start`` gives the first r, which is 0 without one."""
        signs, shape, calls, steps, ended = 1.0 - 2.0 * problem.T, problem.T.shape, 0, self.steps, 0
        r = np.zeros(shape)
        if start is not None and start.dual_point is not None and np.isfinite(start.dual_point["r"]).all():
            r = np.clip(start.dual_point["r"], 0.0, 1.0)
        # L-BFGS-B's first step has length 1: in this unit of r it is the best step along the slope at r = 0
        penalty = problem.lam * _square(problem.weights(np.ones(shape)))
        unit = max(min(1.0, r.size**1.5 / penalty), np.finfo(np.float64).tiny) if penalty > 0.0 else 1.0

        def negative(scaled: Vector) -> tuple[float, Vector]:
            nonlocal calls
            deadline.check()
            calls += 1
            here = unit * scaled.reshape(shape)
            point = problem.weights(here)
            slope = signs * problem.energy(point).gradient(problem.scores(point), problem.T + signs * here)
            return 0.5 * problem.lam * _square(point) - float(here.sum()), unit * slope.ravel()

        shown = self._shown(problem, r, float(problem.bound(exact(r))), 1)
        yield shown
        gradient = 4 * r.size * sum(problem.shapes["U"])
        most = STEPS_BEFORE * operations(problem) / gradient
        while ended < MOST_ENDED:
            limit = min(20 * steps, max(int(min(most, 1e9)) - calls, steps))
            found = scipy.optimize.minimize(
                negative, r.ravel() / unit, jac=True, method="L-BFGS-B", bounds=scipy.optimize.Bounds(0.0, 1.0 / unit),
                options={"maxiter": steps, "maxfun": limit, "maxcor": self.memory, "ftol": 0.0, "gtol": 0.0},
            )  # fmt: skip
            r, bound = np.clip(unit * found.x.reshape(shape), 0.0, 1.0), -float(found.fun)
            rose = bound - shown.lower_bound > LEAST_RISE * (shown.primal - shown.lower_bound)
            ended, steps = 0 if rose and found.nit == steps else ended + 1, 2 * steps
            over = most < math.inf and (ended > 0 or calls >= most)
            shown = self._shown(problem, r, bound, calls, ended == MOST_ENDED and not over)
            yield shown
            if over:
                yield from central_path(problem, calls)
                return

    def _shown(self, problem: ConvexEnergyNetwork, r: Matrix, bound: float, calls: int, done: bool = False) -> Iterate:
        """W(Y), stretched."""
        point, value = problem.stretched(problem.weights(r), problem.T + (1.0 - 2.0 * problem.T) * r)
        said = "no step raises the dual: where lam is small, or features are large, its slopes are rounding"
        return Iterate(point, {"r": r}, value, bound, calls, done=done, message=said if done else "")


def _square(point: Point) -> float:
    """|W|^2."""
    return sum(float(np.vdot(each, each)) for each in point.values())
