"""The steps of dual coordinate ascent stay in the dual's feasible set; `test_every_solver` has its optima."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.dual_coordinate_ascent import _Run
from convexstruct.tolerances import ROUNDING


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_multipliers_stay_at_least_0_and_those_of_an_example_add_up_to_its_share(C: float) -> None:
    """A step that wants more of a multiplier than there is takes all of it."""
    rng, emptied = np.random.default_rng(0), 0
    inputs, labels = [rng.normal(size=(3, 2)) for _ in range(4)], [rng.integers(2, size=3) for _ in range(4)]
    run = _Run(problem := StructuredSVM.read(inputs, labels, 2, C=C))
    for _ in range(6):
        found = problem.most_violated(run.w)
        run.grow(found.labels, found.violation > 0)
        run.sweep(rng)
        assert (run.alpha >= 0.0).all()
        emptied += int((run.alpha == 0.0).sum())
        sums = np.add.reduceat(run.alpha, run.start[:-1])
        np.testing.assert_allclose(sums, problem.ceiling, rtol=ROUNDING)
    assert emptied > 0
