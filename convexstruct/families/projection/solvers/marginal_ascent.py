"""Projection onto the local marginal polytope by accelerated ascent of its dual, (33)-(36) of paper 2, E.3.

The steps are those of `convexstruct.oracles.polytope.local_polytope.ascend`. Before each round of them the tables are
made feasible, which gives both bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.oracles.polytope.feasible_tables import feasible_tables
from convexstruct.oracles.polytope.local_polytope import Ascent, Weights, ascend

#: The solver ends after so many rounds in which the tables agree no better: what is left is rounding.
PATIENCE = 100


@dataclass(frozen=True)
class MarginalAscent:
    """Accelerated ascent in the multipliers of the agreements.

    steps : gradient steps of one block in one round; making the tables feasible takes as long as a few of them.
    last : the disagreement, relative to z, at which a block stops: below it only rounding is left.
    """

    steps: int = 20
    last: float = 1e-13

    def __post_init__(self) -> None:
        read_options(self, steps=at_least(1), last=positive)

    def iterate(self, problem: MarginalProjection, start: Solution | None = None) -> Iterator[Iterate]:
        structure, weights, tables = problem.structure, problem.weights, problem.groups
        begin = structure.split_multipliers(starting_multipliers(problem, start))
        runs: list[Iterator[Ascent]] = []
        for block in structure.blocks:
            some = Weights(block.of(weights.square), block.of(weights.scale))
            runs.append(ascend(block.structure, block.of(tables), some, block.between(begin)))
        states = [next(run) for run in runs]
        scales = [problem.scale[block.components] for block in structure.blocks]
        steps, least, waited = 1, np.inf, 0
        while True:
            a, xi = np.empty(structure.n_entries), np.empty(structure.n_multipliers)
            whole, multipliers = structure.split(a), structure.split_multipliers(xi)
            for block, state, scale in zip(structure.blocks, states, scales):
                for target, table in zip(block.of(whole), feasible_tables(block.structure, state.tables, scale)):
                    target[...] = table
                for target, value in zip(block.between(multipliers), state.multipliers):
                    target[...] = value
            worst = max(float((s.disagreement / z).max(initial=0.0)) for s, z in zip(states, scales))
            waited = 0 if worst < least else waited + 1
            least = min(least, worst)
            yield Iterate(
                {"a": a},
                {"xi": xi},
                problem.primal({"a": a}),
                float(sum(state.value.sum() for state in states)),
                steps,
                done=worst <= self.last or waited >= PATIENCE,
                message=f"tables agree up to {worst:.1e} of their sums, {steps / len(runs):.0f} steps a block",
            )
            for b, run in enumerate(runs):
                for _ in range(self.steps):
                    deadline.check()
                    if (states[b].disagreement <= self.last * scales[b]).all():
                        break
                    states[b] = next(run)
                    steps += 1


def starting_multipliers(problem: MarginalProjection, start: Solution | None) -> Vector:
    """The multipliers xi of ``start``, as a copy; 0 where it has none that fit the problem."""
    known = None if start is None or start.dual_point is None else start.dual_point.get("xi")
    if known is None or known.shape != (problem.structure.n_multipliers,):
        return np.zeros(problem.structure.n_multipliers)
    return np.array(known, dtype=np.float64)
