"""Accelerated ascent as a solver: certified to every profile, warm starts, blocks, and the end at rounding."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.families.projection.solvers.block_ascent import BlockAscent
from convexstruct.families.projection.solvers.marginal_ascent import MarginalAscent
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.oracles.polytope import clique_tables
from convexstruct.tolerances import MID
from tests.families.projection.instances import chains


def test_many_blocks_are_certified_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clique_tables, "BLOCK", 1 << 10)
    problem = chains(2, lengths=(12,) * 30, s=5)
    assert len(problem.structure.blocks) > 5
    assert cs.solve(problem, tol=MID).status is cs.Status.OPTIMAL


@pytest.mark.parametrize("solver", [MarginalAscent(), BlockAscent()])
def test_a_graph_without_agreements_is_solved_at_once(solver: MarginalAscent | BlockAscent) -> None:
    problem = MarginalProjection.graph([("a",), ("b",)], [[3.0, 1.0], [0.0, 0.5]])
    solution = cs.solve(problem, solver)
    np.testing.assert_allclose(solution.point["a"], [1.0, 0.0, 0.25, 0.75])


def test_a_run_ends_where_the_tables_agree_no_better() -> None:
    """After `PATIENCE` rounds of `marginal_ascent`."""
    solver, problem = MarginalAscent(last=1e-18), chains(0, (3, 1, 2))
    assert any(iterate.done for iterate in islice(solver.iterate(problem), 150))
