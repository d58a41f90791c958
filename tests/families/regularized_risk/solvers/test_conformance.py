"""What every solver of a regularised risk does, whatever its loss: over the solvers that the family declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk import (
    FAMILY,
    Pegasos1,
    Pragam,
    PragamB,
    QpBMRM,
    RegularizedRisk,
    SemismoothNewton,
)
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.regularized_risk.risks import INSTANCES, KNOWN

SOLVERS: dict[str, Callable[[], Any]] = {kind.__name__: kind for kind in FAMILY.solvers}
MADE: dict[str, Callable[[], RegularizedRisk]] = {
    **INSTANCES,
    "one piece": lambda: RegularizedRisk.pieces([[1.0, -2.0]], [0.5], 0.3),
    "weights far apart": lambda: RegularizedRisk.binary(
        np.eye(4, 2) + 1.0, [1, -1, 1, -1], 0.1, weights=[1, 1, 1, 1e3]
    ),
}


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
    slow = solver in ("LsBMRM", "Pegasos1", "PegasosN", "ProjectedGradient")
    wanted = HIGH if solver in ("SemismoothNewton", "QpBMRM") else LOW
    found = solve(problem, SOLVERS[solver](), wanted, max_iterations=50 if slow else 20_000)
    assert found.lower_bound - ROUNDING <= known <= found.primal + ROUNDING
    assert slow or found.status is Status.OPTIMAL


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_start_is_taken_up(solver: str) -> None:
    problem = MADE["binary, bias, weighted" if solver == "PragamB" else "binary"]()
    exact = solve(problem, SemismoothNewton(), HIGH)
    made = Pegasos1(steps=1) if solver == "Pegasos1" else SOLVERS[solver]()
    warm, cold = next(made.iterate(problem, exact)), next(made.iterate(problem))
    assert max(0.5 * exact.primal, cold.lower_bound) < warm.lower_bound <= exact.primal + HIGH.gap


@pytest.mark.parametrize(("solver", "name"), [(SemismoothNewton(), "binary"), (QpBMRM(), "multiclass, cost")])
def test_rounding_ends_the_run(solver: Solver, name: str) -> None:
    found = solve(MADE[name](), solver, 1e-300, max_iterations=2000)
    assert found.status is Status.ROUNDING
    assert abs(found.gap) <= ROUNDING


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an offset for Pragam": (lambda: solve(MADE["ordinal"](), Pragam()), "use PragamB for one with a bias"),
    "none for PragamB": (lambda: solve(MADE["binary"](), PragamB()), "use Pragam for one without a bias"),
    "an offset for Pegasos1": (lambda: solve(MADE["ordinal"](), Pegasos1()), "use PegasosN for one with a bias"),
    "no steps": (lambda: Pegasos1(steps=0), "steps is 0, wanted a whole number of at least 1"),
    "shrink of 1": (lambda: SemismoothNewton(shrink=1.0), "shrink is 1.0, wanted a number above 0 and below 1"),
    "inexact above 1": (lambda: SemismoothNewton(inexact=1.5), "inexact is 1.5, wanted a number above 0 and below 1"),
    "zone of 0": (lambda: SemismoothNewton(zone=0), "zone is 0, wanted a positive number"),
    **{
        f"{kind.__name__} with lipschitz={value}": (lambda kind=kind, value=value: kind(value), "lipschitz is")  # type: ignore[misc]  # a lambda
        for kind in (Pragam, PragamB)
        for value in (0.0, -1.0, np.inf, "guess", True)
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_solver_cannot_do_is_told_in_one_sentence(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as told:
        make()
    assert "\n" not in str(told.value)
