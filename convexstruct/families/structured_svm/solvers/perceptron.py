r"""The structured perceptron (Collins 2002; paper 4, "MAP approximation (perceptron training)"; paper 1, "Collins
Trainer"): an online learner, which solves no stated problem.

    for each example   y = argmax_y <w, f(x_i, y)>,    w <- w + df_i(y)   if y is not the truth

Paper 4 reads it as gradient steps on the likelihood with the partition function replaced by the best labelling,

    l(w) = sum_i omega_i [ <w, f(x_i, y_i)> - max_y <w, f(x_i, y)> ],

and says what is wrong with that: l(w) <= 0 and l(0) = 0, and l(t w) = t l(w) for t >= 0, so that the useless w = 0 is a
maximiser ("collapsing"). The margin, E_i(y) in P, prevents this. The perceptron has no lower bound: P is evaluated at
its w, and the status is UNCERTIFIED.

**Bound** (Novikoff 1962, Collins 2002). If some u with |u| = 1 has <u, df_i(y)> >= g for all y that are not the truth,
and R = max |df_i(y)|, then no more than (R / g)^2 updates are made, in all passes together (``block=1``).

Averaged: the mean of w over all visits, which generalises better than the last w. Example weights are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, example_blocks, starting_w

#: The end of the message of every online learner.
NO_PROBLEM = "an online learner: it minimises no stated problem, and P is only valued at its w"


class Pass(NamedTuple):
    """After a pass: w (d,), the mean of w over all visits so far, and how many examples were wrong in this pass."""

    w: Vector
    mean: Vector
    mistakes: int


def valued(problem: StructuredSVM, walk: Iterator[Pass], average: bool) -> Iterator[Iterate]:
    """The one iterate of an online learner: P at the w of the last pass, or at the mean.

    If the time limit interrupts the passes, the iterate is the w reached so far, with primal inf since there is no time
    to evaluate P; then `DeadlinePassed` is raised again.
    """
    walked: list[Pass] = []
    try:
        walked.extend(walk)
    except deadline.DeadlinePassed:
        if walked:
            yield _iterate(problem, walked, average)
        raise
    last = _iterate(problem, walked, average)
    yield replace(last, primal=problem.primal(last.point), done=True, oracle_calls=last.oracle_calls + 1)


def passes_of(
    problem: StructuredSVM,
    w: Vector,
    block: int,
    passes: int,
    seed: int,
    update: Callable[[ExampleBlock[StructuredSVM], Vector], tuple[Vector, int]],
) -> Iterator[Pass]:
    """At most ``passes`` passes over blocks of ``block`` examples, from ``w`` (d,); the last is one without a mistake.

    update : (a block, w) -> (the next w, how many of its examples were mistakes).
    """
    rng = np.random.default_rng(seed)
    blocks = example_blocks(problem, block, rng)
    mean, visits = np.zeros_like(w), 0
    for _ in range(passes):
        mistakes = 0
        try:
            for at in rng.permutation(len(blocks)):
                deadline.check()
                w, more = update(blocks[at], w)
                mistakes += more
                size = len(blocks[at].examples)
                visits += size
                mean = mean + size / visits * (w - mean)
        except deadline.DeadlinePassed:
            if visits:
                yield Pass(w, mean, mistakes)
            raise
        yield Pass(w, mean, mistakes)
        if not mistakes:
            return


def _iterate(problem: StructuredSVM, walked: list[Pass], average: bool) -> Iterate:
    w = problem.project(walked[-1].mean if average else walked[-1].w)
    message = f"{sum(each.mistakes for each in walked)} updates in {len(walked)} passes; {NO_PROBLEM}"
    return Iterate({"w": w}, None, np.inf, -np.inf, len(walked), message=message)


@dataclass(frozen=True)
class Perceptron:
    """Options.

    passes : at most so many passes over the examples; the run ends after one without a mistake.
    average : return the mean of w over all visits; else the last w.
    block : examples decoded at the same w, whose updates are added up; 1 is the perceptron.
    seed : of the order of the examples.
    """

    passes: int = 10
    average: bool = True
    block: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, passes=at_least(1), average=flag, block=at_least(1), seed=seed)

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate, after the last pass or where the time limit cut it, without a dual point. To step through the
        passes use `walk`. ValueError if the w of ``start`` does not fit the problem."""
        yield from valued(problem, self.walk(problem, starting_w(problem, start)), self.average)

    def walk(self, problem: StructuredSVM, w: Vector) -> Iterator[Pass]:
        """The passes one by one, from ``w`` (d,); ``mistakes`` counts the examples that were wrong."""

        def update(block: ExampleBlock[StructuredSVM], w: Vector) -> tuple[Vector, int]:
            labels = block.predict(w)
            wrong = block.part.loss.example[labels != block.part.features.truth]
            if not len(wrong):
                return w, 0
            by = np.asarray(block.differences(labels).sum(axis=0)).ravel()
            return problem.project(w + by), len(np.unique(wrong))

        return passes_of(problem, w, self.block, self.passes, self.seed, update)
