"""Block-coordinate Frank-Wolfe: a dual value that never falls, bounds that hold, steps best on their segment."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from convexstruct.families.structured_svm.solvers import block_frank_wolfe
from convexstruct.families.structured_svm.solvers.block_frank_wolfe import BlockFrankWolfe
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks
from convexstruct.tolerances import ROUNDING
from tests.families.structured_svm.solvers.references import radius, reference


@pytest.mark.parametrize("name", ["slack scaling, weighted, a cost matrix", "chains, weighted, a cost matrix, C_mean"])
def test_a_step_is_the_best_on_its_segment(name: str) -> None:
    problem, _ = reference(name)
    run = block_frank_wolfe._Run(problem)
    blocks = [block_frank_wolfe._Block(each) for each in example_blocks(problem, 2)]
    for _ in range(4):
        for at in blocks:
            labels = at.block.most_violated(run.w).labels
            columns, losses = at.block.columns(labels)
            by = columns.T @ at.block.ceiling - at.psi.toarray()[0]
            lost, psi, before = float(at.block.ceiling @ losses) - at.lost, run.psi.copy(), run.bound
            moved = run.visit(at)
            np.testing.assert_allclose(run.w, run.psi / problem.lam, atol=ROUNDING)
            values = [problem.dual_value(psi + t * by, t * lost) for t in np.linspace(0.0, 1.0, 101)]
            gained = max(values) - problem.dual_value(psi, 0.0)
            assert run.bound - before >= gained - ROUNDING
            assert moved == (run.bound > before)


def test_the_average_is_that_of_the_paper_and_costs_no_pass_over_the_weights() -> None:
    for name in ("chains, weighted, a cost matrix, C_mean", "associative chains, three labels"):
        problem, _ = reference(name)
        run, mean, k = block_frank_wolfe._Run(problem), np.zeros(problem.dimension), 0
        blocks = [block_frank_wolfe._Block(each) for each in example_blocks(problem, 1)]
        for visit in range(25):
            if run.visit(blocks[visit % len(blocks)]):
                mean, k = (k * mean + 2.0 * run.w) / (k + 2.0), k + 1
            np.testing.assert_allclose(run.mean, mean, atol=ROUNDING)
        assert mean.any()
        assert (run.w[problem.features.nonnegative] >= 0).all()


def test_the_rate_of_frank_wolfe_holds_with_the_whole_set_as_one_block() -> None:
    """D* - D_k <= 2 Curvature / (k + 2) (Jaggi 2013)."""
    problem, expected = reference("trees, weighted")
    curvature = (2 * radius(problem) * float(problem.ceiling.sum())) ** 2 / problem.lam
    for k, iterate in enumerate(islice(BlockFrankWolfe(block=None).iterate(problem), 60), start=1):
        assert expected - iterate.lower_bound <= 2 * curvature / (k + 2)
