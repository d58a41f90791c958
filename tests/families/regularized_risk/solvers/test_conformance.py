"""What every solver of a regularised risk does, whatever its loss: over the solvers that the family declares."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from convexstruct.core.driver import solve
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk import FAMILY, Pegasos1, QpBMRM, SemismoothNewton
from convexstruct.tolerances import HIGH, ROUNDING
from tests.models.regularized_risk.risks import INSTANCES

SOLVERS: dict[str, Callable[[], Any]] = {kind.__name__: kind for kind in FAMILY.solvers}


@pytest.mark.parametrize("name", ["binary, bias, weighted", "ordinal"])
@pytest.mark.parametrize("solver", [name for name in SOLVERS if name not in ("Pragam", "Pegasos1")])
def test_the_value_of_an_iterate_is_that_of_its_point_with_its_offsets(solver: str, name: str) -> None:
    problem = INSTANCES[name]()
    for iterate in islice(SOLVERS[solver]().iterate(problem), 6):
        assert iterate.primal == pytest.approx(float(problem.primal(problem.as_point(iterate.point))), rel=ROUNDING)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_start_is_taken_up(solver: str) -> None:
    problem = INSTANCES["binary, bias, weighted" if solver == "PragamB" else "binary"]()
    exact = solve(problem, SemismoothNewton(), HIGH)
    made = Pegasos1(steps=1) if solver == "Pegasos1" else SOLVERS[solver]()
    warm, cold = next(made.iterate(problem, exact)), next(made.iterate(problem))
    assert max(0.5 * exact.primal, cold.lower_bound) < warm.lower_bound <= exact.primal + HIGH.gap


@pytest.mark.parametrize(("solver", "name"), [(SemismoothNewton(), "binary"), (QpBMRM(), "multiclass, cost")])
def test_rounding_ends_the_run(solver: Solver, name: str) -> None:
    """By PATIENCE of the bundle and IDLE_ROUNDS of the proximal_point: the tolerance is out of reach."""
    found = solve(INSTANCES[name](), solver, 1e-300, max_iterations=2000)
    assert found.status is Status.ROUNDING
    assert abs(found.gap) <= ROUNDING
