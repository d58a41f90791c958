"""The only door of the tests to cvxpy's solve: a reference optimum, or a failing test that says why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from convexstruct.models import Reference

SOLVERS = ("CLARABEL", "SCS")


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
