"""Blocks of examples of a structural SVM, for solvers that go through the data in blocks.

A block holds a few examples and an oracle over these alone. The papers take one example a block; in NumPy the oracle
over one example costs about as much as over sixteen, so the size is an option of the solvers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.evaluation import Evaluation
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.graphs import ranges

AnyProblem = TypeVar("AnyProblem", bound=StructuredSVM | OracleSVM)


@dataclass(frozen=True, eq=False)
class ExampleBlock(Generic[AnyProblem]):
    """Examples (n,) of ``whole``, their flat nodes (p,), and ``part``: the problem of these examples alone."""

    whole: AnyProblem
    part: AnyProblem
    examples: Index
    nodes: Index

    @property
    def ceiling(self) -> Vector:
        """C omega_i of the block's examples; shape (n,)."""
        return self.whole.ceiling[self.examples]

    def most_violated(self, w: Vector) -> Evaluation:
        """The most violated labelling (p,) of each of the block's examples at w (d,); its value is not P."""
        return self.part.most_violated(self._own(w))

    def predict(self, w: Vector) -> Labels:
        """argmax_y <w, f(x_i, y)>; shape (p,)."""
        return np.concatenate(self.part.predict(self._own(w)))

    def columns(self, labels: Labels) -> tuple[sp.csr_array, Vector]:
        """e_i(y) df_i(y), sparse (n, d), and E_i(y), (n,), of a labelling (p,) of the block."""
        a = self.differences(labels)
        b = self.part.loss.of(labels)
        return (sp.csr_array(a.multiply(b[:, None])) if self.whole.scaling == "slack" else a), b

    def differences(self, labels: Labels) -> sp.csr_array:
        """df_i(y), sparse (n, d)."""
        features = self.whole.features
        joint = features.joint_each(np.concatenate((self.part.features.truth, labels)), np.tile(self.examples, 2))
        return sp.csr_array(joint[: len(self.examples)] - joint[len(self.examples) :])

    def split(self, labels: Labels) -> list[Labels]:
        """A labelling (p,) of the block as one array (n_i,) an example."""
        return np.split(labels, self.part.features.node_start[1:-1])

    def _own(self, w: Vector) -> Vector:
        return w[: self.part.dimension]  # if no example of the block has edges, its w ends before w_edge


def example_blocks(
    problem: AnyProblem, size: int | None, rng: np.random.Generator | None = None
) -> list[ExampleBlock[AnyProblem]]:
    """All examples in blocks of ``size``, in random order if ``rng`` is given; None: one block of all, in order.
    ValueError if ``size`` is no whole number of at least 1."""
    n, features = problem.n_examples, problem.features
    if size is None:
        return [ExampleBlock(problem, problem, np.arange(n), np.arange(features.n_nodes))]
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise ValueError(f"block is {size!r}, wanted a whole number of at least 1, or None for all examples at once")
    order = np.arange(n) if rng is None else rng.permutation(n)
    blocks = []
    for at in range(0, n, size):
        examples = order[at : at + size].astype(np.intp)
        nodes, _ = ranges(features.node_start, examples)
        blocks.append(ExampleBlock(problem, cast(AnyProblem, problem.some(examples)), examples, nodes))
    return blocks


def starting_w(problem: StructuredSVM | OracleSVM, start: Solution | None) -> Vector:
    """The w of ``start``, with entries that must be >= 0 clipped; 0 without a start."""
    if start is None:
        return np.zeros(problem.dimension)
    return problem.project(problem.as_point(start.point)["w"])


def at_zero(problem: StructuredSVM) -> Iterate:
    """The only iterate of a solver that cannot take a step: w = 0, and the labellings of the greatest losses, optimal
    where all features are 0. Otherwise their squares overflow, which the message says."""
    found = problem.most_violated(np.zeros(problem.dimension))
    witness = {"labels": found.labels[None], "label_shares": np.ones((1, problem.n_examples))}
    psi, loss = problem.aggregate(witness)
    bound, message = problem.best_on_ray(psi, loss), ""
    if not np.isfinite(psi @ psi):
        bound, message = 0.0, f"the squares of the features overflow; {problem.rounding_reason({}, None)}"
    return Iterate({"w": np.zeros(problem.dimension)}, witness, found.value, bound, 1, done=True, message=message)
