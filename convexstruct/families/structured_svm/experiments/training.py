"""What the experiments on labelled graphs share: training on them, with its time, and their feature map."""

from __future__ import annotations

from typing import Any, NamedTuple

from convexstruct.core.driver import solve
from convexstruct.core.experiment import timed
from convexstruct.core.solution import Solution
from convexstruct.datasets.labelled import LabelledGraphs
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise

#: What is published on sets that none of the papers has.
NOTHING = {"papers 0 to 4": "no numbers on this set"}


class Trained(NamedTuple):
    """The problem, its solution, and the processor seconds both took."""

    problem: StructuredSVM
    solution: Solution
    seconds: float


def edges_of(g: LabelledGraphs) -> dict[str, Any]:
    """The edges as the readers of problems and of features take them."""
    return {"edges": g.edges_each, "edge_features": g.edge_features_each} if len(g.edges) else {"edges": "none"}


def train(g: LabelledGraphs, gap: float, rounds: int, **options: Any) -> Trained:
    """Train to a relative gap or for some rounds: a time limit would make the results depend on the machine.
    options : as `StructuredSVM.read` takes them."""

    def both() -> tuple[StructuredSVM, Solution]:
        problem = StructuredSVM.read(g.node_features, g.labels_each, g.n_labels, **edges_of(g), **options)
        return problem, solve(problem, tol=gap, max_iterations=rounds)

    return Trained(*(found := timed(both))[0], found[1])


def features(g: LabelledGraphs) -> PairwiseFeatures:
    """The feature map of some graphs, as ``predict`` takes it."""
    return read_pairwise(g.node_features, g.labels_each, g.n_labels, **edges_of(g))
