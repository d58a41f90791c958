"""Blocks of examples: their hinges, labels and columns are those of the whole problem for these examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.block_frank_wolfe import BlockFrankWolfe
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, example_blocks
from convexstruct.families.structured_svm.solvers.n_slack import NSlack
from convexstruct.families.structured_svm.solvers.perceptron import Perceptron
from convexstruct.tolerances import HIGH, ROUNDING
from tests.models.structured_svm.instances import INSTANCES, LOOPY, svm

CUT: dict[str, Any] = {"graphs": LOOPY, "n_labels": 2, "associative": True, "n_edge_features": 2}


@pytest.mark.parametrize("size", [1, 2, 3, None])
@pytest.mark.parametrize("name", INSTANCES)
def test_a_block_says_of_its_examples_what_the_whole_says(name: str, size: int | None) -> None:
    problem = INSTANCES[name]()
    rng = np.random.default_rng(0)
    w = problem.project(rng.normal(size=problem.dimension))
    whole, best = problem.most_violated(w), problem.decode(w)
    blocks = example_blocks(problem, size, rng)
    assert sorted(np.concatenate([block.examples for block in blocks])) == list(range(problem.n_examples))
    assert sorted(np.concatenate([block.nodes for block in blocks])) == list(range(problem.features.n_nodes))
    for block in blocks:
        found = block.most_violated(w)
        np.testing.assert_allclose(found.violation, whole.violation[block.examples], atol=ROUNDING)
        np.testing.assert_array_equal(found.labels, whole.labels[block.nodes])
        np.testing.assert_array_equal(block.predict(w), best[block.nodes])
        np.testing.assert_array_equal(block.ceiling, problem.ceiling[block.examples])
        _same_columns(problem, block, rng.integers(problem.features.n_labels, size=problem.features.n_nodes))


def _same_columns(problem: StructuredSVM, block: ExampleBlock[StructuredSVM], labels: NDArray[np.int64]) -> None:
    a, b = block.columns(labels[block.nodes])
    np.testing.assert_allclose(b, problem.loss.of(labels)[block.examples])
    joint = problem.features.joint_each
    difference = (joint(problem.features.truth) - joint(labels)).toarray()[block.examples]
    np.testing.assert_allclose(block.differences(labels[block.nodes]).toarray(), difference, atol=ROUNDING)
    scale = b[:, None] if problem.scaling == "slack" else 1.0
    np.testing.assert_allclose(a.toarray(), scale * difference, atol=ROUNDING)
    for part, i in zip(block.split(labels[block.nodes]), block.examples, strict=True):
        start = problem.features.node_start
        np.testing.assert_array_equal(part, labels[start[i] : start[i + 1]])


def test_blocks_keep_the_kind_of_inference() -> None:
    exact, cut = svm(11, **CUT), svm(11, **CUT, inference="minimum_cut")
    for block in example_blocks(cut, 2):
        assert type(block.part.oracle) is type(cut.oracle)
    w = cut.project(np.random.default_rng(1).normal(size=cut.dimension))
    for one, two in zip(example_blocks(exact, 1), example_blocks(cut, 1)):
        np.testing.assert_allclose(one.most_violated(w).violation, two.most_violated(w).violation, atol=ROUNDING)
    value = solve(exact).primal
    for solver in (NSlack(block=1), NSlack()):
        solution = solve(cut, solver)
        assert solution.status.solved
        assert solution.primal == pytest.approx(value, rel=2 * HIGH.gap)
    assert solve(cut, BlockFrankWolfe(), max_iterations=5).lower_bound <= value
    assert solve(cut, Perceptron(passes=1)).primal >= value * (1 - HIGH.gap)


def test_examples_without_edges_in_a_block_alone_leave_edge_weights_unasked() -> None:
    problem = svm(0, lengths=(1, 1, 4))
    w = np.random.default_rng(2).normal(size=problem.dimension)
    first = example_blocks(problem, 2)[0]
    assert first.part.dimension < problem.dimension
    np.testing.assert_array_equal(first.most_violated(w).labels, problem.most_violated(w).labels[:2])
    assert first.columns(first.predict(w))[0].shape == (2, problem.dimension)
