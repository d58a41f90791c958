r"""Subgradient steps of size 1 / (lam t) (Shalev-Shwartz, Singer, Srebro 2007, "Pegasos"; Ratliff, Bagnell, Zinkevich
2007 for structures), whose iterates are dual points too.

At w_t, with y_i the most violated labellings, psi_t = sum_i c_i e_i(y_i) df_i(y_i), c_i = C omega_i, is minus a
subgradient of the sum of hinges, and

    w_{t+1} = w_t - 1/(lam t) (lam w_t - psi_t)   =>   w_{t+1} = (1/lam) (1/t) sum_{s <= t} psi_s:

lam w is the average of the psi of dual points, each with all of c_i on y_i, hence the psi of a dual point: the mixture
of the labellings met, in equal shares. So the method is certified (it is Frank-Wolfe on the dual with steps 1/t, Bach
2015). If a pass takes the data in B blocks, psi_t is B times the block's sum; each pass visits each example once, so
that after whole passes the shares are equal again. If weights must be >= 0, w = (average)_+ / lam: dual averaging.

Averaged: wbar_t = (1 - 2/(t + 1)) wbar_{t-1} + 2/(t + 1) w_t, for which (Lacoste-Julien, Schmidt, Bach 2012) with
G >= |lam w_t - psi_t|

    P(wbar_T) - p* <= 2 G^2 / (lam (T + 1)).

The rate is 1/t: two or three digits, not six.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, or_none, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks, starting_w
from convexstruct.families.structured_svm.solvers.labelling_mixture import LabellingMixture


@dataclass(frozen=True)
class Subgradient:
    """Options.

    block : examples of a step; None: all, one step a pass, to which the bound above applies. Smaller blocks make more
        progress a pass at first.
    average : also evaluate P at the weighted average of the w's, by one more call of the oracle a pass.
    seed : of the order of the examples.
    """

    block: int | None = None
    average: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, block=or_none(at_least(1)), average=flag, seed=seed)

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a pass. The first subgradient is taken at the w of ``start``, which the first step then replaces.
        ValueError if that w does not fit the problem."""
        rng = np.random.default_rng(self.seed)
        blocks = example_blocks(problem, self.block, rng)
        mixture = LabellingMixture(problem)
        w = mean = starting_w(problem, start)
        psi, loss = np.zeros(problem.dimension), 0.0
        steps, calls, passes = 0, 0, 0
        while True:
            found = problem.most_violated(w)
            calls += 1
            point, value = w, found.value
            if self.average and steps:
                calls += 1
                of_mean = problem.primal({"w": mean})
                point, value = (mean, of_mean) if of_mean < value else (point, value)
            bound = problem.dual_value(psi, loss)
            yield Iterate({"w": point}, mixture.snapshot(), value, bound, calls)
            passes += 1
            for at in rng.permutation(len(blocks)):
                deadline.check()
                block = blocks[at]
                steps += 1
                mean = mean + 2.0 / (steps + 1) * (w - mean)
                labels = found.labels if self.block is None else block.most_violated(w).labels
                a, b = block.columns(labels)
                scale = len(blocks) * block.ceiling
                psi = psi + (a.T @ scale - psi) / steps
                loss += (float(b @ scale) - loss) / steps
                w = problem.project(psi) / problem.lam
                for i, own in zip(block.examples, block.split(labels)):
                    mixture.move(int(i), own, 1.0 / passes)
            calls += self.block is not None
