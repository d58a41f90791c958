"""Latent structural SVMs by the concave-convex procedure (Yu, Joachims 2009: Learning structural SVMs with latent
variables; Yuille, Rangarajan 2003).

A round completes the labels, each example's by its best completion at the present w, which gives a convex upper bound
P_h on P that equals P there (`LatentSVM`), and minimises it: the `StructuredSVM` of the completed labels, solved to a
certified ``gap`` from w. P never rises, and there are finitely many completions, so that it ends: each completion is a
best one at w, and w is the completions' best up to ``gap``, a stationary point of the difference of convex functions.
The status is STATIONARY, and nothing else is claimed of it, except where the lower bound meets it.

The first completions are those of the weights that the examples with all labels known alone give; their dual point is
the lower bound. Further starts complete at random. Of several starts the best result is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from convexstruct.arrays import Labels, Point, Vector
from convexstruct.core.alternation import solved_within, trainings
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.latent import LatentSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.tolerances import HIGH


@dataclass(frozen=True)
class ConcaveConvex:
    """restarts : number of starts, at least 1. seed : of those that are drawn. gap : certified relative gap of each
    training."""

    restarts: int = 1
    seed: int = 0
    gap: float = HIGH.gap

    def __post_init__(self) -> None:
        read_options(self, restarts=at_least(1), seed=seed, gap=positive)

    def iterate(self, problem: LatentSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield the weights after each training; ``start`` gives the weights of the first completion."""
        witness: Point = {}
        w, calls, first = np.zeros(problem.dimension), 0, None
        if problem.complete is not None:
            known = solved_within(problem.complete, self.gap)
            w, witness, calls = known.point["w"], known.dual_point or {}, known.trace.oracle_calls[-1]
            first = known if problem.complete is problem.model else None
        if start is not None:
            w = problem.as_point(start.point)["w"]

        def completed(machine: StructuredSVM, w: Vector) -> Labels:
            return problem.completed(w, machine.features.truth)

        rng, shape = np.random.default_rng(self.seed), problem.known.shape
        drawn = (np.where(problem.known, rng.random(shape), -1.0).argmax(axis=1) for _ in range(self.restarts - 1))
        bound, best = problem.dual(witness).lower, None
        for begin in itertools.chain([problem.completed(w)], drawn):
            for _, solution in trainings(problem.machine, begin, completed, self.gap, first):
                calls += solution.trace.oracle_calls[-1]
                here = Iterate({"w": solution.point["w"]}, witness, solution.primal, bound, calls)
                yield here
            best = here if best is None or here.primal < best.primal else best
        assert best is not None
        said = (
            f"no completion of the labels scores higher at w, which is the completions' best to {self.gap:.0e}; the "
            "lower bound is that of the examples whose labels are all known"
        )
        yield replace(best, oracle_calls=calls, done=True, message=said, stationary=True)
