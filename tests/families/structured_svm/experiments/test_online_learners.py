"""Online learners on few words: certified rows where there are bounds, and learners that go on learning."""

from __future__ import annotations

import pytest

from convexstruct.core.experiment import Result
from convexstruct.families.structured_svm.experiments import online_learners
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
