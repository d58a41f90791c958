"""The only door of the tests to cvxpy's solve: a reference optimum, or a failing test that says why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from convexstruct.core.solution import Status
from convexstruct.models import FORMULATIONS, Formulation, Reference
from convexstruct.models.constraint_generation import ConstraintGeneration
from convexstruct.tolerances import HIGH, ROUNDING

SOLVERS = ("CLARABEL", "SCS")


def with_solvers(names: Iterable[str]) -> list[tuple[str, str]]:
    """(instance, solver): Clarabel for every instance, and for the first SCS too, which counts the multipliers of some
    cones otherwise; how a program is handed over does not depend on the instance."""
    every = list(names)
    return [*((name, "CLARABEL") for name in every), (every[0], "SCS")]


def same_optimum(family: str, instances: Iterable[str]) -> list[tuple[str, str, str]]:
    """(instance, formulation, solver): every second formulation of the family with the optimum p* on two instances,
    the others on the next two; both solvers on the first instance."""
    same = [name for name, entry in FORMULATIONS.items() if entry.family == family and entry.optimum == "p*"]
    pairs = enumerate(with_solvers(instances))
    return [(name, each, solver) for i, (name, solver) in pairs for j, each in enumerate(same) if (i // 2 + j) % 2 == 0]


def stated(name: str, problem: Any) -> Formulation:
    """The formulation "family.name" of ``problem``."""
    built = FORMULATIONS[name].builder(problem)
    assert isinstance(built, Formulation)
    return built


class Stated(Protocol):
    """A formulation, or constraint generation."""

    def reference(self, solver: str, **options: Any) -> Reference: ...


def optimum(formulation: Stated, solver: str = "CLARABEL", **options: Any) -> Reference:
    """The optimum of ``formulation`` by ``solver``, cut to the bracket that the solver's own answer certifies, and the
    seconds it took.

    The test fails where that bracket is wider than HIGH, relative to the optimum, or the value claimed lies outside it
    by more than a general solver's tolerance. The solver's status decides only for changed copies, which have no
    certificate.
    """
    said = formulation.reference(solver, **options)
    assert said.accurate, f"{said.trouble()}: no reference, so nothing is verified"
    return replace(said, value=min(max(said.value, said.lower_bound), said.upper_bound)) if said.certified else said


def close(value: float, expected: float, gap: float = HIGH.gap) -> bool:
    """Whether ``value`` is ``expected``, up to ``gap`` of it or of 1."""
    return abs(value - expected) <= gap * max(1.0, abs(expected))


def certified_optimum(formulation: Formulation) -> float:
    """The middle of the bracket that the formulation's own answer certifies, which must be as narrow as HIGH."""
    solution = formulation.solve()
    assert abs(solution.gap) <= HIGH.gap
    return 0.5 * (solution.primal + solution.lower_bound)


def agrees(built: Formulation | ConstraintGeneration[Any], expected: float, solver: str = "CLARABEL") -> None:
    """The solver's value is the optimum, and the certificate confirms it: OPTIMAL says that it does not exclude it."""
    solution = built.solve(solver)
    claimed = built.value if isinstance(built, Formulation) else solution.primal  # cuts claim their bounds alone
    value = min(max(claimed, solution.lower_bound), solution.primal)
    assert close(value, expected), f"{value} is not {expected}"
    # An optimum of 0 has no relative gap: there a bracket of HIGH's width will do.
    narrow = solution.primal - solution.lower_bound <= HIGH.gap
    assert solution.status is Status.OPTIMAL or narrow, solution.message
    slack = HIGH.gap * max(1.0, abs(expected))
    assert solution.lower_bound - slack <= expected <= solution.primal + slack
    assert solution.lower_bound <= solution.primal + ROUNDING * max(1.0, abs(expected))
