"""Online learners on few words: certified rows where there are bounds, and learners that go on learning."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.core.experiment import Result
from convexstruct.datasets.real.ocr_letters import ocr_letters
from convexstruct.families.structured_svm.experiments import online_learners
from convexstruct.families.structured_svm.experiments.ocr import first
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks
from convexstruct.families.structured_svm.solvers.mira import Mira, step
from tests.families.quick_runs import quick as run_quick


@pytest.fixture(scope="module")
def quick() -> Result:
    return run_quick("online-learners").result


def test_only_larank_and_the_batch_solver_have_a_gap_and_no_learner_is_below_the_optimum(quick: Result) -> None:
    rows = [dict(zip(quick.columns, row)) for row in quick.rows]
    assert {row["learner"] for row in rows} == set(online_learners.LEARNERS)
    for row in rows:
        assert (row["gap"] is not None) == (row["learner"] in ("LaRank", "M3N, batch"))
        above, gap = row["above the optimum"], row["gap"]
        if isinstance(above, float):
            assert 0.0 <= above <= 1.0
            assert not isinstance(gap, float) or gap >= above - 1e-12


def test_a_step_towards_the_two_best_solves_its_program_where_there_are_thousands_of_weights() -> None:
    words = first(ocr_letters((0,)))
    problem = online_learners.m3n(words, 1.0)
    block, w = example_blocks(problem, 1)[0], np.zeros(problem.dimension)
    best = Mira(k=2)._best(block, w)
    rows = np.concatenate([block.differences(labels).toarray() for labels in best])
    losses = np.array([block.part.loss.of(labels)[0] for labels in best])
    by = step(block, best, w, 0.01)
    assert by is not None

    def value(v: Vector) -> float:
        return 0.5 * float(v @ v) + 0.01 * max(0.0, float((losses - rows @ v).max()))

    shares = [(a, b) for a in np.linspace(0, 0.01, 41) for b in np.linspace(0, 0.01, 41) if a + b <= 0.01 + 1e-12]
    assert value(by) <= min(value(np.array(each) @ rows) for each in shares) + 1e-9
