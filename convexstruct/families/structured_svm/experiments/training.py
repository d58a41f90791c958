"""What the experiments on labelled graphs share: training on them, with its time."""

from __future__ import annotations

from typing import Any, NamedTuple

from convexstruct.core.driver import solve
from convexstruct.core.experiment import timed
from convexstruct.core.solution import Solution
from convexstruct.datasets.labelled import LabelledGraphs
from convexstruct.families.structured_svm.problem import StructuredSVM

#: What is published on sets that none of the papers has.
NOTHING = {"papers 0 to 4": "no numbers on this set"}


class Trained(NamedTuple):
    """The problem, its solution, and the processor seconds both took."""

    problem: StructuredSVM
    solution: Solution
    seconds: float


def train(g: LabelledGraphs, gap: float, rounds: int, **options: Any) -> Trained:
    """Train to a relative gap or for some rounds: a time limit would make the results depend on the machine.
    options : as `StructuredSVM.read` takes them."""

    def both() -> tuple[StructuredSVM, Solution]:
        problem = StructuredSVM.read(**g.arguments, **options)
        return problem, solve(problem, tol=gap, max_iterations=rounds)

    return Trained(*(found := timed(both))[0], found[1])
