"""Tempering (`convexstruct.core.tempering`) of a structural SVM, the start of column generation.

Slack scaling and the zero-one loss have no such sums over labellings: there the tempering works on margin scaling with
the node losses, to find a start and first pools, and its bounds are not used.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Labels, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.core.tempering import Temper
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import starting_w
from convexstruct.features.graphs.feature_sizes import even


class LabellingTemper(Temper):
    """The stages, and the most violated labels of the last w.

    steps, most : `ColumnGeneration`'s steps and stages. switch, patient, at, fast : as in `Temper`; where features
    differ much in size a poor stage is always followed by a longer one.
    """

    def __init__(
        self, problem: StructuredSVM, start: Solution | None, steps: int, most: int, switch: float, *, patient: bool,
        at: tuple[Vector, Vector, float] | None = None, fast: bool = False,
    ) -> None:  # fmt: skip
        uneven, features = not even(problem.features.sample), problem.features
        variances = problem.uniform_variances() if uneven else np.zeros(problem.dimension)
        smooth = problem.scaling == "margin" and not problem.loss.zero_one
        unit = float(problem.loss.costs.max(initial=0.0))
        least = np.where(features.nonnegative, 0.0, -np.inf) if features.associative else None
        super().__init__(
            problem, starting_w(problem, start), unit, variances, steps, most,
            switch=switch, patient=patient or uneven, smooth=smooth, least=least, at=at, fast=fast,
        )  # fmt: skip
        self.finished |= not problem.oracle.summable  # the oracle has no sums

    def evaluate(self, w: Vector) -> float:
        found = self.problem.most_violated(w)
        self.labels = found.labels
        return float(found.value)

    def samples(self, many: int, rng: np.random.Generator) -> Iterator[Labels]:
        """Labellings of all examples drawn from q."""
        features = self.problem.features
        node = features.node_scores(self.theta) + self.loss * self.problem.loss.costs
        edge = features.edge_scores(self.theta)
        for _ in range(many):
            deadline.check()
            yield self.problem.oracle.sample(node, edge, rng)

    def shown(self) -> Iterate:
        witness: Point | None = {"labels": np.zeros((0, self.problem.features.n_nodes), dtype=np.int64)}
        if self.witness is not None:
            theta, loss = self.witness
            n = self.problem.n_examples
            witness = {"gibbs": theta[None], "gibbs_loss": np.array([loss]), "gibbs_shares": np.ones((1, n))}
        return Iterate({"w": self.w}, witness, self.value, self.bound, self.calls)
