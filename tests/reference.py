"""The only door of the tests to cvxpy's solve: a reference optimum, or a failing test that says why there is none."""

from __future__ import annotations

from typing import Any, Protocol

from convexstruct.models import Reference
from convexstruct.tolerances import HIGH

SOLVERS = ("CLARABEL", "SCS")


class Stated(Protocol):
    """A formulation, or constraint generation."""

    def reference(self, solver: str, **options: Any) -> Reference: ...


def optimum(formulation: Stated, solver: str = "CLARABEL", **options: Any) -> Reference:
    """What ``solver`` says is the optimum of ``formulation``: its value, and the seconds it took.

    One whose answer does not certify it fails the test: it verifies nothing. A bracket of HIGH's width counts however
    small the optimum is, for a solver's own tolerances are absolute below 1.
    """
    said = formulation.reference(solver, **options)
    narrow = said.upper_bound - said.lower_bound <= HIGH.gap and said.lower_bound <= said.upper_bound
    assert said.accurate or narrow, f"{said.trouble()}: no reference, so nothing is verified"
    return said
