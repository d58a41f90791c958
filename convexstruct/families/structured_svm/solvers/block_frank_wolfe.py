r"""Block-coordinate Frank-Wolfe on the dual (Lacoste-Julien, Jaggi, Schmidt, Pletscher 2013, algorithms 3 and 4).

The dual is a product of one simplex an example; with c_i = C omega_i and alpha_i = c_i q_i, each example keeps

    psi_i = c_i E_q[e_i(y) df_i(y)],    l_i = c_i E_q[E_i(y)],    w = (sum_i psi_i)_+ / lam,

starting on the truth (psi_i = 0, l_i = 0). A step takes one example's most violated labelling y at w, and goes towards
its corner psi_s = c_i e_i(y) df_i(y), l_s = c_i E_i(y) by the step that is best on the segment,

    gamma = clip( [l_s - l_i - <w, psi_s - psi_i>] lam / |psi_s - psi_i|^2, 0, 1 ),

which is exact if no weight has to be >= 0, and no longer than the best step otherwise: the dual value never falls. q_i
moves by the same step, which gives the witness (`LabellingMixture`). Averaged: wbar_k = k/(k + 2) wbar_{k-1} +
2/(k + 2) w_k, once a block.

In NumPy the oracle over one example costs almost as much as over several. So one call finds the labellings of ``block``
examples at the present w; then each example takes its own step, one after the other, with the current w in its line
search. Only the corners are those of the w before the block. Measured on 626 words of handwriting (one thread,
C_mean = 10), 30 passes take 15.0 s and leave 0.36% with ``block=1``, 4.8 s and 0.45% with 8, 2.9 s and 1.3% with 32.

psi_i is kept densely, N d numbers in all, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexstruct import deadline
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, or_none, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, example_blocks
from convexstruct.families.structured_svm.solvers.labelling_mixture import LabellingMixture

#: Largest N d: the vectors psi_i of all examples then take 4 GB.
MOST_NUMBERS = 5e8


@dataclass(frozen=True)
class BlockFrankWolfe:
    """Options.

    block : examples of one call of the oracle; 1 is the paper's algorithm, None takes all.
    average : also evaluate P at the weighted average of the w's, by one more call of the oracle a pass.
    seed : of the order of the examples.
    """

    block: int | None = 8
    average: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, block=or_none(at_least(1)), average=flag, seed=seed)

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a pass over the examples. It begins on the truth, where psi_i and l_i are 0; ``start`` is
        ignored, since a solution does not hold psi_i of each example.

        Raises
        ------
        ValueError
            If block is no whole number of at least 1, or N d numbers are too many.
        """
        size = problem.n_examples * problem.dimension
        if size > MOST_NUMBERS:
            raise ValueError(
                f"examples times weights are {size}, wanted at most {MOST_NUMBERS:g}: use NSlack or Subgradient"
            )
        rng = np.random.default_rng(self.seed)
        blocks = example_blocks(problem, self.block, rng)
        run = _Run(problem)
        mean, steps, calls = run.w, 0, 0
        while True:
            for at in rng.permutation(len(blocks)):
                deadline.check()
                run.step(blocks[at])
                mean = (steps * mean + 2.0 * run.w) / (steps + 2.0)
                steps += 1
            w, value = run.w, problem.primal({"w": run.w})
            calls += 2
            if self.average:
                calls += 1
                of_mean = problem.primal({"w": mean})
                w, value = (mean, of_mean) if of_mean < value else (w, value)
            yield Iterate({"w": w}, run.mixture.snapshot(), value, run.bound, calls)


class _Run:
    """psi_i and l_i of each example, the sum of psi_i, w, and the mixtures of labellings that they belong to."""

    def __init__(self, problem: StructuredSVM | OracleSVM) -> None:
        self.problem = problem
        self.psi, self.loss = np.zeros((problem.n_examples, problem.dimension)), np.zeros(problem.n_examples)
        self.total, self.w = np.zeros(problem.dimension), np.zeros(problem.dimension)
        self.mixture = LabellingMixture(problem)

    @property
    def bound(self) -> float:
        return self.problem.dual_value(self.total, float(self.loss.sum()))

    def step(self, block: ExampleBlock[Any]) -> None:
        """One step of each example of a block, towards its most violated labelling at the w before the block."""
        problem, lam = self.problem, self.problem.lam
        labels = block.most_violated(self.w).labels
        a, b = block.columns(labels)
        corners = a.toarray() * block.ceiling[:, None]
        for corner, loss, i, own in zip(corners, b * block.ceiling, block.examples, block.split(labels)):
            by, rise = corner - self.psi[i], loss - self.loss[i]
            slope, square = rise - float(self.w @ by), float(by @ by)
            if slope <= 0:
                continue
            gamma = 1.0 if slope * lam >= square else slope * lam / square
            by *= gamma
            self.psi[i] += by
            self.loss[i] += gamma * rise
            self.total += by
            self.w = problem.project(self.total) / lam
            self.mixture.move(int(i), own, gamma)
