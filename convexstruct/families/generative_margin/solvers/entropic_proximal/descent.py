"""L-BFGS steps on a stage of the entropic proximal point method, in a changing metric."""

from __future__ import annotations

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.quasi_newton import ARMIJO, SEARCH_TRIALS, VALUE_ROUNDING, Pairs
from convexstruct.families.generative_margin.solvers.entropic_proximal.diagonal import DiagonalMetric
from convexstruct.families.generative_margin.solvers.entropic_proximal.newton import NewtonMetric
from convexstruct.families.generative_margin.solvers.entropic_proximal.stage import Stage, Value

#: The longest move of any phi in one step, in nats: the quadratic model does not hold further away. In a diagonal
#: metric without pairs, a tenth of this.
LONGEST_MOVE = 10.0
Metric = DiagonalMetric | NewtonMetric


class Descent:
    """L-BFGS steps on a stage; the metric is the approximate Hessian that the pairs correct.

    slope : gradient times direction of the last step; twice the decrease it predicts, if the metric is the Hessian.
    """

    def __init__(self, stage: Stage, value: Value, metric: Metric, pairs: Pairs) -> None:
        self.stage, self.value, self.pairs = stage, value, pairs
        self.exhausted = False
        self.slope = np.inf
        self.metric = metric

    def use(self, metric: Metric) -> None:
        """Change to a better metric, and drop the pairs."""
        self.metric = metric
        self.pairs.clear()

    def step(self) -> None:
        """One step with a backtracking line search; sets ``exhausted`` if rounding hides any further decrease."""
        stage, old = self.stage, self.value
        direction = self._direction(old.gradient)
        slope = float(old.gradient @ direction)
        if not slope > 0:
            self.pairs.clear()
            direction = self._direction(old.gradient)
            slope = float(old.gradient @ direction)
        self.slope = slope
        d = stage.problem.dimension
        reach = LONGEST_MOVE if len(self.pairs) or isinstance(self.metric, NewtonMetric) else 0.1 * LONGEST_MOVE
        # moves along 1 in a block change no softmax and are in no pair, so they may be large: they are not counted
        moved = direction[:d] - stage.layout.block_sum(old.softmax * direction[:d])[stage.layout.block_of]
        size = min(1.0, reach / max(float(np.abs(moved).max(initial=0.0)), 1e-12))
        for _ in range(SEARCH_TRIALS):
            deadline.check()
            x = old.x - size * direction
            x[d:] = np.maximum(x[d:], stage.least_delta)
            new = stage.at(x)
            expected = float(old.gradient @ (old.x - x))
            if new.merit <= old.merit - ARMIJO * expected + VALUE_ROUNDING * abs(old.merit):
                break
            fall = new.merit - old.merit + size * slope
            size *= float(np.clip(0.5 * size * slope / fall, 0.1, 0.5)) if fall > 0 else 0.5
        else:
            self.exhausted = True
            return
        self.exhausted = not new.merit < old.merit and not np.abs(new.gradient).max() < np.abs(old.gradient).max()
        self.pairs.add(new.x - old.x, new.slope - old.slope)
        self.value = new
        self.metric = self.metric.moved(stage, new)

    def _direction(self, gradient: Vector) -> Vector:
        barrier = self.stage.barrier_curvature(self.value)
        fit = isinstance(self.metric, DiagonalMetric)
        return self.pairs.solve(self.metric.inverse(barrier), gradient, fit, barrier)
