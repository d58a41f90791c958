"""Repairing a point of a box: memory and passes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.families.projection.box import BoxProjection
from convexstruct.oracles.box.projection import Box


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


def test_a_box_with_finite_bounds_is_repaired_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far <s, a> can go is known from the door, and what rounding leaves of the way is no reason for another."""
    rng, n = np.random.default_rng(1), 1000
    problem = BoxProjection(rng.normal(size=n), -1.0, 1.0, rng.normal(size=n), 1.0)
    passes, plain = [], Box.ends

    def counted(data: Box, direction: float, a: Vector | float = 0.0) -> Vector | float:
        passes.append(direction)
        return plain(data, direction, a)

    monkeypatch.setattr(Box, "ends", counted)
    a = problem.repair({"a": np.zeros(n)})["a"]
    assert len(passes) == 1
    assert problem.residuals({"a": a})["<s, a> off z"] == 0.0
