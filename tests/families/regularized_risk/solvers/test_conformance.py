"""What every solver of a regularised risk does, whatever its loss: over the solvers that the family declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from convexstruct.core.driver import solve
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk import (
    FAMILY,
    Pegasos1,
    QpBMRM,
    RegularizedRisk,
    SemismoothNewton,
)
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.regularized_risk.risks import INSTANCES, KNOWN

#: Solvers that come near no optimum in few rounds.
SLOW = ("LsBMRM", "Pegasos1", "PegasosN", "ProjectedGradient")
SOLVERS: dict[str, Callable[[], Any]] = {kind.__name__: kind for kind in FAMILY.solvers}


def takes(solver: str, problem: RegularizedRisk) -> bool:
    """PragamB is for risks with free offsets; Pragam and Pegasos1 are for those without."""
    return (
        bool(problem.n_biases) if solver == "PragamB" else not (problem.n_biases and solver in ("Pragam", "Pegasos1"))
    )


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("solver", SOLVERS)
def test_optima_known_by_hand_are_bracketed_and_reached_by_those_that_are_fast(solver: str, name: str) -> None:
    problem, known = KNOWN[name]()
    if not takes(solver, problem):
        return
    slow = solver in SLOW or (solver, name) == ("PragamB", "free thresholds")
    wanted = HIGH if solver in ("SemismoothNewton", "QpBMRM") else LOW
    found = solve(problem, SOLVERS[solver](), wanted, max_iterations=50 if slow else 20_000)
    assert found.lower_bound - ROUNDING <= known <= found.primal + ROUNDING
    assert slow or found.status is Status.OPTIMAL


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
