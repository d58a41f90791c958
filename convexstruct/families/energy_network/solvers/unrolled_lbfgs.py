"""L-BFGS on the loss of an unrolled energy network, with gradients through all of its steps.

One product with the Hessians a step and example, exact or by differences (`unrolled`). The loss is not convex and has
kinks: a run ends at a stationary point, where the gradient of the whole unrolled loss is small, or at a kink, where no
step along it helps; the message says which, with the gradient's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, one_of, positive, read_options, seed
from convexstruct.core.quasi_newton import VALUE_ROUNDING, Pairs, wolfe_search
from convexstruct.core.solution import Solution
from convexstruct.families.energy_network.unrolled import PRODUCTS, UnrolledEnergyNetwork


@dataclass(frozen=True)
class At:
    """J and its gradient at W, laid out as one vector w."""

    w: Vector
    value: float
    gradient: Vector


@dataclass(frozen=True)
class UnrolledLBFGS:
    """products, r : how products with Hessians are computed, as in `unrolled`. memory : pairs kept. slope : the length
    of the gradient, as a share of J(0), that counts as 0. size, seed : standard deviation and draw of the first W."""

    products: str = "exact"
    r: float = 1e-5
    memory: int = 20
    slope: float = 1e-6
    size: float = 0.3
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(
            self, products=one_of(*PRODUCTS), r=positive, memory=at_least(1), slope=positive, size=positive, seed=seed
        )

    def iterate(self, problem: UnrolledEnergyNetwork, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield each W with J; ``start`` gives the first W, which is drawn without one.

        Raises
        ------
        ValueError
            If the steps diverge at the first W; the sentence names the step.
        """
        cuts = np.cumsum([int(np.prod(shape)) for shape in problem.shapes.values()])[:-1]
        calls = 0

        def read(w: Vector) -> Point:
            parts = np.split(w, cuts)
            return {name: part.reshape(shape) for (name, shape), part in zip(problem.shapes.items(), parts)}

        def evaluated(w: Vector) -> At:
            nonlocal calls
            deadline.check()
            calls += 1
            value, gradient = problem.value_and_gradient(read(w), self.products, self.r)
            return At(w, value, np.concatenate([gradient[name].ravel() for name in problem.shapes]))

        rng = np.random.default_rng(self.seed)
        w = self.size * rng.normal(size=sum(int(np.prod(shape)) for shape in problem.shapes.values()))
        if start is not None:
            w = np.concatenate([np.ravel(start.point[name]) for name in problem.shapes])
        here = evaluated(w)
        if not np.isfinite(here.value):
            raise problem.diverging(problem.forward(read(w), problem.X)[1])
        pairs, least = Pairs(self.memory, len(w)), self.slope * problem.trivial_value
        while True:
            length = float(np.linalg.norm(here.gradient))
            if length <= least:
                said = f"stationary: the gradient of the whole unrolled loss has the length {length:.1e}"
                yield Iterate(read(here.w), {}, here.value, 0.0, calls, done=True, message=said, stationary=True)
                return
            said = f"the gradient of the whole unrolled loss has the length {length:.1e}"
            yield Iterate(read(here.w), {}, here.value, 0.0, calls, message=said)
            there = None
            if len(pairs):
                there = self._along(evaluated, here, -pairs.solve(lambda q: q, here.gradient, fit=True))
            if there is None:  # at first, and where the kept pairs give no descent
                pairs.clear()
                there = self._along(evaluated, here, -here.gradient / length)
            if there is None:
                said = f"no step lowers the loss, whose gradient has the length {length:.1e}: a kink, or rounding"
                yield Iterate(read(here.w), {}, here.value, 0.0, calls, done=True, message=said)
                return
            pairs.add(there.w - here.w, there.gradient - here.gradient)
            here = there

    @staticmethod
    def _along(evaluated: Callable[[Vector], At], here: At, direction: Vector) -> At | None:
        """The point that `wolfe_search` finds along ``direction``, or None."""

        def at(step: float) -> tuple[At, float]:
            there = evaluated(here.w + step * direction)
            return there, float(there.gradient @ direction)

        noise = VALUE_ROUNDING * max(1.0, abs(here.value))
        found = wolfe_search(at, here.value, float(here.gradient @ direction), noise)[0]
        return found if found is not None and found.value < here.value else None
