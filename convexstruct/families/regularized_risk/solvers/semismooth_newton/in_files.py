"""A risk whose rows lie in files, by tempering (`convexstruct.core.tempering`): the state is of the size of w."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from convexstruct.arrays import Point
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.core.tempering import Temper, beginning
from convexstruct.families.regularized_risk.in_files import RiskInFiles
from convexstruct.families.regularized_risk.problem import RegularizedRisk


def tempered(problem: RegularizedRisk, filed: RiskInFiles, start: Solution | None) -> Iterator[Iterate]:
    """An iterate at the first w, and one a stage."""
    w = np.zeros(problem.dimension) if start is None else np.ravel(start.point["w"])
    of_few = filed.of_sample(problem)
    first = Temper(of_few, w, of_few.trivial_value, of_few.variances(), fast=True)
    begin = beginning(first, start)
    temper = Temper(filed, w, problem.trivial_value, filed.variances(), at=begin, fast=True)
    while True:
        witness: Point = {}
        if temper.witness is not None:
            witness = {"gibbs": temper.witness[0][None], "gibbs_loss": np.array([temper.witness[1]])}
        point = {"w": temper.w.reshape(problem.shape)}
        now = Iterate(point, witness, temper.value, temper.bound, temper.calls)
        if temper.finished:
            yield replace(now, done=True, message="tempering goes no further; an exact end needs all examples")
            return
        yield now
        temper.stage()
