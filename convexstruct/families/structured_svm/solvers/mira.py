r"""MIRA, the margin-infused relaxed algorithm (Crammer, Singer 2003; McDonald, Crammer, Pereira 2005; paper 1, "Online
training, example MIRA"): an online learner, which solves no stated problem.

    for each example   w <- argmin_v  1/2 |v - w|^2 + C max(0, max_{y in best} [E_i(y) - <v, df_i(y)>])

where best holds the k best labellings of <w, f(x_i, y)>, or the one most violated with its loss (``augmented``). With
one labelling y this is  w + tau df_i(y),  tau = min(C, max(0, E_i(y) - <w, df_i(y)>) / |df_i(y)|^2);  with two it is a
restricted problem of two columns (`restricted_master`). The second is `best_other` than the first, so k is 1 or 2.

Each step is the smallest that attains the margin (up to C), but the resulting w minimises no objective, so the status
is UNCERTIFIED. The factor e_i(y) of slack scaling and the example weights are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, positive, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import PoolColumns, solve_pools
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, starting_w
from convexstruct.families.structured_svm.solvers.perceptron import Pass, passes_of, valued
from convexstruct.inference.exact import best_other
from convexstruct.tolerances import HIGH


@dataclass(frozen=True)
class Mira:
    """Options.

    C : the largest tau, the multiplier of df in a step; with a large C each step attains the full margin.
    passes : at most so many passes over the examples; the run ends after one in which w did not change.
    k : the number of best labellings in an update, 1 or 2; not 2 together with ``augmented``.
    augmented : use the most violated labelling, its loss included, in place of the best.
    average : return the mean of w over all visits; else the last w.
    seed : of the order of the examples.
    """

    C: float = 0.1
    passes: int = 10
    k: int = 1
    augmented: bool = False
    average: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, C=positive, passes=at_least(1), k=at_least(1), augmented=flag, average=flag, seed=seed)
        if self.k > 2 or (self.k == 2 and self.augmented):
            raise ValueError(f"k is {self.k!r}, wanted 1 or, without augmented, 2: the oracles find the two best")

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate, after the last pass or where the time limit cut it, without a dual point. To step through the
        passes use `walk`. ValueError if the w of ``start`` does not fit the problem, or k is 2 and the oracle finds the
        best labelling only."""
        yield from valued(problem, self.walk(problem, starting_w(problem, start)), self.average)

    def walk(self, problem: StructuredSVM, w: Vector) -> Iterator[Pass]:
        """The passes one by one, from ``w`` (d,); ``mistakes`` counts the examples that moved w."""

        def update(block: ExampleBlock[StructuredSVM], w: Vector) -> tuple[Vector, int]:
            by = step(block, self._best(block, w), w, self.C)
            return (w, 0) if by is None else (problem.project(w + by), 1)

        return passes_of(problem, w, 1, self.passes, self.seed, update)

    def _best(self, block: ExampleBlock[StructuredSVM], w: Vector) -> list[Labels]:
        if self.augmented:
            return [block.most_violated(w).labels]
        if self.k == 1:
            return [block.predict(w)]
        part = block.part
        node, edge = part.scores(w[: part.dimension])
        first = part.oracle.best(node, edge)
        second = best_other(part.oracle, part.features, node, edge, first.labels)
        return [first.labels] + ([second.labels] if np.isfinite(second.scores[0]) else [])


def step(block: ExampleBlock[StructuredSVM], best: list[Labels], w: Vector, longest: float) -> Vector | None:
    """v - w of the update for a block of one example, with C = ``longest``; None if w does not change."""
    rows = np.concatenate([block.differences(labels).toarray() for labels in best])
    losses = np.array([block.part.loss.of(labels)[0] for labels in best])
    violation = losses - rows @ w
    if violation.max() <= 0:
        return None
    if len(rows) == 1:
        square = float(rows[0] @ rows[0])
        return None if square == 0 else rows[0] * min(longest, float(violation[0]) / square)
    a = np.vstack((np.zeros_like(w), rows))
    columns = PoolColumns(a, np.append(0.0, violation), np.zeros(len(a), dtype=np.intp), a @ a.T)
    tolerance = 1e-3 * HIGH.gap * longest * float(violation.max())
    return solve_pools(columns, np.array([longest]), 1.0, np.zeros_like(w), tolerance).w
