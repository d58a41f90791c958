"""Repairing a point of a box: memory and passes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from convexstruct.families.projection.box import BoxProjection


@pytest.mark.parametrize("upper", [1.0, np.inf])
def test_repair_works_in_blocks_and_needs_little_more_than_its_answer(upper: float) -> None:
    rng, n = np.random.default_rng(0), 2_000_000
    problem = BoxProjection(
        rng.normal(size=n), 0.0, upper, rng.uniform(0.5, 1.0, size=n), 7.0, rng.uniform(1, 2, size=n)
    )
    point = {"a": np.zeros(n)}
    tracemalloc.start()
    try:
        a = problem.repair(point)["a"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert max(problem.residuals({"a": a}).values()) <= 1e-12
    assert peak <= 3 * a.nbytes
