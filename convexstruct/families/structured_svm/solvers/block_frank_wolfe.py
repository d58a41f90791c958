r"""Block-coordinate Frank-Wolfe on the dual: Lacoste-Julien, Jaggi, Schmidt, Pletscher 2013, algorithms 3 and 4.

The dual is a product of one simplex an example. With a_i(y) = e_i(y) df_i(y) (e = 1 under margin scaling, E_i(y) under
slack scaling) and multipliers alpha_i(y) >= 0 that sum to c_i = C omega_i, at first all on the truth,

    D(alpha) = sum_i sum_y alpha_i(y) E_i(y) - |Psi_+|^2 / (2 lam),    Psi = sum_i sum_y alpha_i(y) a_i(y),

w = Psi_+ / lam, where entries are clipped at 0 if the weight must be >= 0. A visit to a block of examples asks the
oracle for the most violated labelling y_i of each at w, and moves the block's multipliers towards these vertices. With
Psi_b, E_b the block's part of the sums and a = sum_i c_i a_i(y_i), b = sum_i c_i E_i(y_i) over its examples,

    rise = b - E_b - <w, a - Psi_b>,    step = min(1, lam rise / |a - Psi_b|^2),    Psi_b += step (a - Psi_b),

the best on the segment if no weight has to be >= 0, and no longer than that otherwise (|(Psi + x)_+| <= |Psi_+ + x|):
the dual value never falls. ``block=1`` is the algorithm of the paper.

**Averaged**, one term a visit: wbar_k = k/(k + 2) wbar_{k-1} + 2/(k + 2) w_k. With t_k = (k + 1)(k + 2)/2 this is

    wbar_k = w_k - u_k / t_k,        u_k = u_{k-1} + t_{k-1} (w_k - w_{k-1}),

so that a visit changes u where it changes w, and O(d) numbers are computed once a pass.

**Memory**: three vectors like w, and for each block its Psi_b, sparse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, or_none, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, example_blocks
from convexstruct.families.structured_svm.solvers.labelling_mixture import LabellingMixture
from convexstruct.rounding import EPS


@dataclass(frozen=True)
class BlockFrankWolfe:
    """Options.

    block : examples of one visit, with one call of the oracle and one step; None takes all. A call for eight costs
        about as much as for one.
    average : also evaluate P at the weighted average of the w's, by one more call of the oracle a pass.
    seed : of the order of the examples.
    """

    block: int | None = 8
    average: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, block=or_none(at_least(1)), average=flag, seed=seed)

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a pass over the examples. It begins on the truth, where all multipliers are known; ``start`` is
        ignored, since w does not determine the multipliers."""
        rng = np.random.default_rng(self.seed)
        run, calls = _Run(problem), 0
        blocks = [_Block(block) for block in example_blocks(problem, self.block, rng)]
        while True:
            moved = sum(run.visit(blocks[at]) for at in rng.permutation(len(blocks)))
            w, value = run.w.copy(), problem.primal({"w": run.w})
            calls += 2
            if self.average:
                calls += 1
                of_mean = problem.primal({"w": run.mean})
                w, value = (run.mean, of_mean) if of_mean < value else (w, value)
            yield Iterate({"w": w}, run.mixture.snapshot(), value, run.bound, calls, done=not moved)
            if not moved:
                return


class _Block:
    """A block of examples, with its part of the sums: psi, sparse (1, d), and lost."""

    def __init__(self, block: ExampleBlock[Any]) -> None:
        self.block, self.psi, self.lost = block, sp.csr_array((1, block.whole.dimension)), 0.0


class _Run:
    """The multipliers as a mixture of labellings, Psi, its loss, w and u of the head of this file."""

    def __init__(self, problem: StructuredSVM | OracleSVM) -> None:
        self.problem, self.mixture = problem, LabellingMixture(problem)
        self.psi, self.w, self._u = (np.zeros(problem.dimension) for _ in range(3))
        self._low, self._lost, self._visits = problem.features.nonnegative, 0.0, 0

    @property
    def bound(self) -> float:
        return self._lost - 0.5 * self.problem.lam * float(self.w @ self.w)

    @property
    def mean(self) -> Vector:
        return self.w - self._u / max(0.5 * self._visits * (self._visits + 1), 1.0)

    def visit(self, at: _Block) -> bool:
        """One step of a block towards its most violated labellings; returns whether it moved."""
        deadline.check()
        block, lam = at.block, self.problem.lam
        labels = block.most_violated(self.w).labels
        columns, losses = block.columns(labels)
        by = sp.csr_array(sp.csr_array(block.ceiling[None]) @ columns - at.psi)
        more, place, scale = float(block.ceiling @ losses) - at.lost, by.indices, by.data
        away = float(self.w[place] @ scale)
        rise, bent = more - away, float(scale @ scale) / lam
        if rise <= EPS * (abs(more) + abs(away)):
            return False
        step = 1.0 if rise >= bent else rise / bent
        self.psi[place] += step * scale
        w = np.where(self._low[place], np.maximum(self.psi[place], 0.0), self.psi[place]) / lam
        self._u[place] += 0.5 * self._visits * (self._visits + 1) * (w - self.w[place])
        self.w[place] = w
        self._lost += step * more
        at.psi, at.lost = at.psi + step * by, at.lost + step * more
        for i, part in zip(block.examples.tolist(), block.split(labels)):
            self.mixture.move(i, part, step)
        self._visits += 1
        return True
