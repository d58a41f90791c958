"""General solvers that are interrupted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.families.projection import BoxProjection
from convexstruct.models import FORMULATIONS
from convexstruct.models.general_solvers import installed, run


def test_what_scs_prints_when_it_is_interrupted_is_no_output(capsys: pytest.CaptureFixture[str]) -> None:
    def solve_via_data(*_: Any) -> dict[str, Any]:
        print("Failure:interrupted")  # as SCS 3 does, through Python's standard output
        return {"info": {"status": "interrupted"}}

    chain = SimpleNamespace(solve_via_data=solve_via_data)
    problem: Any = SimpleNamespace(get_problem_data=lambda *_, **__: ({"b": np.ones(1)}, chain, []))
    with pytest.raises(KeyboardInterrupt):
        run(problem, "SCS", {})
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Failure:interrupted" in shown.err


@pytest.mark.parametrize("solver", ["clarabel", "Scs"])
def test_a_solver_may_be_named_in_small_letters(solver: str) -> None:
    assert installed(solver) == solver.upper()
    box = FORMULATIONS["projection.box"].builder(BoxProjection.simplex([0.5, 0.2, 0.9]))
    assert box.reference(solver).accurate


def test_an_unknown_solver_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"solver is 'sks', wanted one of .*SCS"):
        installed("sks")


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
def test_a_problem_without_constraints_is_solved(solver: str) -> None:
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - np.array([1.0, 2.0]))))
    run(problem, solver, {})
    np.testing.assert_allclose(x.value, [1.0, 2.0], atol=1e-4)
