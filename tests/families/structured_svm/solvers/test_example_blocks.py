"""Blocks of examples: their hinges, labels and columns are those of the whole problem for these examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks
from convexstruct.families.structured_svm.solvers.n_slack import NSlack
from convexstruct.tolerances import HIGH, ROUNDING
from tests.models.structured_svm.instances import LOOPY, svm

CUT: dict[str, Any] = {"graphs": LOOPY, "n_labels": 2, "associative": True, "n_edge_features": 2}


def test_blocks_keep_the_kind_of_inference() -> None:
    exact, cut = svm(11, **CUT), svm(11, **CUT, inference="minimum_cut")
    for block in example_blocks(cut, 2):
        assert type(block.part.oracle) is type(cut.oracle)
    w = cut.project(np.random.default_rng(1).normal(size=cut.dimension))
    for one, two in zip(example_blocks(exact, 1), example_blocks(cut, 1)):
        np.testing.assert_allclose(one.most_violated(w).violation, two.most_violated(w).violation, atol=ROUNDING)
    assert solve(cut, NSlack(block=1)).primal == pytest.approx(solve(exact).primal, rel=2 * HIGH.gap)


def test_examples_without_edges_in_a_block_alone_leave_edge_weights_unasked() -> None:
    problem = svm(0, lengths=(1, 1, 4))
    w = np.random.default_rng(2).normal(size=problem.dimension)
    first = example_blocks(problem, 2)[0]
    assert first.part.dimension < problem.dimension
    np.testing.assert_array_equal(first.most_violated(w).labels, problem.most_violated(w).labels[:2])
    assert first.columns(first.predict(w))[0].shape == (2, problem.dimension)
