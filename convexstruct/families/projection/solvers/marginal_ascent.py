"""Projection onto the local marginal polytope by accelerated ascent of its dual, (33)-(36) of paper 2, E.3.

The steps are those of `convexstruct.oracles.polytope.local_polytope.ascend`. In a round each block of components takes
steps until its tables agree to a tolerance. Then the tables are made feasible, which gives both bounds. The next round
has a stricter tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options, share
from convexstruct.core.solution import Solution
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.oracles.polytope.feasible_tables import feasible_tables
from convexstruct.oracles.polytope.local_polytope import Ascent, Weights, ascend

#: The solver ends after so many rounds without improvement of either bound: what is left is rounding.
PATIENCE = 20


@dataclass(frozen=True)
class MarginalAscent:
    """Accelerated ascent in the multipliers of the agreements.

    first, factor, last : the disagreement, relative to z, at which blocks stop in the first round; the factor by which
        it is multiplied after a round in which all blocks have reached it; and its least value, below which only
        rounding is left.
    steps : most gradient steps of one block in one round.
    """

    first: float = 1e-2
    factor: float = 1e-2
    last: float = 1e-13
    steps: int = 100

    def __post_init__(self) -> None:
        read_options(self, first=positive, factor=share, last=positive, steps=at_least(1))
        if self.last > self.first:
            raise ValueError(f"first is {self.first} and last {self.last}, wanted 0 < last <= first")

    def iterate(self, problem: MarginalProjection, start: Solution | None = None) -> Iterator[Iterate]:
        structure, weights, tables = problem.structure, problem.weights, problem.groups
        known = None if start is None or start.dual_point is None else start.dual_point.get("xi")
        xi = np.zeros(structure.n_multipliers)
        if known is not None and known.shape == xi.shape:
            xi = np.array(known, dtype=np.float64)
        begin = structure.split_multipliers(xi)
        runs: list[Iterator[Ascent]] = []
        low, spans = 0, []
        for part, rows, pairs in structure.blocks:
            some = Weights(*([x[r] for x, r in zip(each, rows)] for each in weights))
            runs.append(ascend(part, [t[r] for t, r in zip(tables, rows)], some, [x[p] for x, p in zip(begin, pairs)]))
            spans.append(slice(low, low + part.n_components))
            low += part.n_components
        states = [next(run) for run in runs]
        scales = [problem.scale[span] for span in spans]
        wanted, steps, least, waited = self.first, 1, np.inf, 0
        while True:
            for b, run in enumerate(runs):
                for _ in range(self.steps):
                    deadline.check()
                    if (states[b].disagreement <= wanted * scales[b]).all():
                        break
                    states[b] = next(run)
                    steps += 1
            a, xi = np.empty(structure.n_entries), np.empty(structure.n_multipliers)
            whole, multipliers = structure.split(a), structure.split_multipliers(xi)
            for (part, rows, pairs), state, scale in zip(structure.blocks, states, scales):
                for target, r, table in zip(whole, rows, feasible_tables(part, state.tables, scale)):
                    target[r] = table
                for target, p, value in zip(multipliers, pairs, state.multipliers):
                    target[p] = value
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
            if worst <= wanted:
                wanted = max(wanted * self.factor, self.last)
