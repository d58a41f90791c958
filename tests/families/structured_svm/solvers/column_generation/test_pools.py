"""Pools of labellings: each once, with its column, and the witness that multipliers make of them."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.structured_svm.solvers.column_generation import pools as labelling_pools
from convexstruct.families.structured_svm.solvers.column_generation.pools import LabellingPools
from convexstruct.tolerances import ROUNDING
from tests.models.structured_svm.instances import INSTANCES


def test_columns_that_come_later_or_in_parts_are_those_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns and the Gram matrix are extended, not made anew; `ROWS` of the pools at a time."""
    problem = INSTANCES["slack scaling, weighted, a cost matrix"]()
    rng = np.random.default_rng(5)
    every = [rng.integers(3, size=problem.features.n_nodes) for _ in range(3)]
    step_by_step, at_once = LabellingPools(problem), LabellingPools(problem)
    for labels in every:
        at_once.add(labels)
    whole = at_once.columns()
    monkeypatch.setattr(labelling_pools, "ROWS", 2)
    for labels in every:
        step_by_step.add(labels)
        later = step_by_step.columns()
    np.testing.assert_array_equal(later.owner, whole.owner)
    np.testing.assert_array_equal(later.b, whole.b)
    tables = [each.a if isinstance(each.a, np.ndarray) else each.a.toarray() for each in (later, whole)]
    np.testing.assert_allclose(tables[0], tables[1], atol=ROUNDING)
    assert (later.gram is None) == (whole.gram is None) == (len(whole.b) >= problem.dimension)
    if later.gram is not None:
        np.testing.assert_allclose(later.gram, tables[1] @ tables[1].T, atol=ROUNDING)
